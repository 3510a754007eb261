"""`ckpt save`: files into a checkpoint."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ckptstore.cli.call import Call
from ckptstore.cli.wording import size, survival
from ckptstore.formats.names import TORCH_FILES

if TYPE_CHECKING:
    from ckptstore.checkpoint import Checkpoint
    from ckptstore.operations.ingest import Plan

Source = Annotated[
    Path, typer.Argument(metavar="PATH", help="A .safetensors file, a .pt file, or a folder.", show_default=False)
]
Step = Annotated[
    int | None, typer.Option("--step", metavar="N", min=0, help="The training step it belongs to.", show_default=False)
]
Name = Annotated[
    str | None, typer.Option("--name", metavar="NAME", help="Its name; `step-N` unless given.", show_default=False)
]

__all__ = ["Name", "Step", "save", "tell_saved"]


def save(call: Call, path: Source, step: Step = None, name: Name = None) -> int:
    """Save a file or a folder as a checkpoint.

    A .safetensors file gives its tensors. A .pt file (read with weights_only: no code in it runs) gives its state
    dict. Of a folder every file is kept, so that `ckpt restore` gives the folder back.
    """
    from ckptstore.checkpoint import Checkpoint
    from ckptstore.commit import described
    from ckptstore.formats.importing import import_checkpoint

    about = described(step, name)
    made = _plan(path)
    with call.watching() as observer:
        saved = Checkpoint.of(import_checkpoint(call.opened, call.run, made, about, observer))
    tell_saved(call, saved)
    return call.output.summary(0, checkpoint=saved)


def tell_saved(call: Call, saved: "Checkpoint") -> None:
    """What became of it, for people."""
    call.output.say(f"saved {saved.name} of run {saved.run}: {size(saved.bytes)}, {survival(*saved.tolerance)}")
    if saved.state != "good":
        call.output.note(
            f"it is {saved.state}: it survives less than the store is made for  (next: ckpt doctor, ckpt repair)"
        )


def _plan(path: Path) -> "Plan":
    if path.suffix in TORCH_FILES:
        from ckptstore.formats.torch_state import plan_torch_file

        return plan_torch_file(path)
    from ckptstore.operations.ingest import plan

    return plan(path)
