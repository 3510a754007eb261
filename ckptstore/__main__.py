"""`python -m ckptstore` is `ckpt`."""

import sys

from ckptstore.cli import main

__all__: list[str] = []

if __name__ == "__main__":
    sys.exit(main())
