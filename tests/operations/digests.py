"""What files hold, to see whether anything was written."""

import hashlib
from pathlib import Path


def digests(folder: Path) -> dict[str, str]:
    """Of each file below a folder, by its path there."""
    found = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in found}
