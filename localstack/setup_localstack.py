"""Builds .venv-localstack, the environment that LocalStack runs in: its pins don't fit beside ours.

Why these: 4.12.0 is the last community release that works on Python 3.11 (4.14 reports healthy and then fails; newer
images ask for a token). cbor2 6 dropped what it imports, pyOpenSSL 26 what its certificates need; service-identity is
wanted by twisted as soon as it serves.
"""

import subprocess
import sys
import venv
from pathlib import Path

PLACE = Path(__file__).resolve().parent.parent / ".venv-localstack"
WANTED = ["localstack-core[base-runtime]==4.12.0", "cbor2<6", "pyOpenSSL==25.3.0", "service-identity"]


def main() -> None:
    """Make it, unless it is there with what is wanted now."""
    stamp = PLACE / "installed.txt"
    if stamp.exists() and stamp.read_text().split("\n") == WANTED:
        return
    venv.create(PLACE, clear=True, with_pip=True)
    python = PLACE / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", *WANTED], check=True)
    stamp.write_text("\n".join(WANTED))
    sys.stdout.write(f"LocalStack is installed in {PLACE}\n")


if __name__ == "__main__":
    main()
