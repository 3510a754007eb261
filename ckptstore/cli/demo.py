"""`ckpt demo`: watch a training run lose ranks, targets and bits."""

from contextlib import redirect_stdout
from pathlib import Path
from typing import Annotated

import typer

from ckptstore.cli.call import Call
from ckptstore.errors import UsageError

S3 = Annotated[bool, typer.Option("--s3", help="On six S3 buckets of SeaweedFS servers that it starts and stops.")]
Folder = Annotated[Path, typer.Option("--folder", metavar="DIR", help="Where everything goes; emptied first.")]

__all__ = ["demo"]


def demo(call: Call, s3: S3 = False, folder: Folder = Path("demo-run")) -> int:
    """Watch a training run lose ranks, targets and bits, and go on.

    Trains a small model, kills a rank during a save, removes targets, flips a bit, goes on bit for bit,
    repairs. Makes a store of its own in --folder. Takes about three minutes, and needs torch.
    """
    import sys
    from importlib.util import find_spec

    if find_spec("torch") is None:
        raise UsageError("the demo trains a model, and torch is not installed", hint="pip install 'ckptstore[torch]'")
    from ckptstore.demo.stage import run_demo

    with redirect_stdout(sys.stderr if call.output.as_json else sys.stdout):
        code = run_demo(folder, s3=s3)
    return call.output.summary(code, folder=str(folder))
