"""`python -m ckptstore.demo [--s3] [--folder demo-run]`: exit code 0 only if all of it held."""

import argparse
import signal
import sys
from pathlib import Path

from ckptstore.demo.stage import run_demo
from ckptstore.errors import CkptStoreError

__all__: list[str] = []


def main() -> int:
    """Read the command line and run the demo."""
    parser = argparse.ArgumentParser(prog="python -m ckptstore.demo")
    parser.add_argument("--s3", action="store_true", help="six S3 buckets on SeaweedFS servers instead of directories")
    parser.add_argument("--folder", type=Path, default=Path("demo-run"), help="where everything goes; emptied first")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that what was started is stopped
    try:
        return run_demo(options.folder, s3=options.s3)
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except CkptStoreError as error:
        print(error, file=sys.stderr)  # noqa: T201 a command's own output
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
