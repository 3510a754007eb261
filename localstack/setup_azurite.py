"""Installs Azurite from npm into .azurite, for `make test-azurite`. Needs node 18 or newer."""

import shutil
import subprocess
import sys
from pathlib import Path

PLACE = Path(__file__).resolve().parent.parent / ".azurite"
WANTED = "azurite@3.35.0"  # the first to be tried here that obstore 0.12 reads from and writes to


def main() -> None:
    """Make it, unless it is there with what is wanted now."""
    stamp = PLACE / "installed.txt"
    if stamp.exists() and stamp.read_text() == WANTED:
        return
    npm = shutil.which("npm")
    if npm is None:
        raise SystemExit("no program npm: install node.js 18 or newer")
    shutil.rmtree(PLACE, ignore_errors=True)
    subprocess.run([npm, "install", "--prefix", PLACE, "--no-fund", "--no-audit", "--silent", WANTED], check=True)
    stamp.write_text(WANTED)
    sys.stdout.write(f"Azurite is installed in {PLACE}\n")


if __name__ == "__main__":
    main()
