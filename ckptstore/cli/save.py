"""`ckpt save`: files into a checkpoint."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ckptstore.cli.call import Call
from ckptstore.cli.wording import size, survival
from ckptstore.errors import UsageError
from ckptstore.names import check_chosen

if TYPE_CHECKING:
    from ckptstore.checkpoint import Checkpoint

Source = Annotated[
    Path, typer.Argument(metavar="PATH", help="A .safetensors file, a .pt file, or a folder.", show_default=False)
]
Step = Annotated[
    int | None, typer.Option("--step", metavar="N", min=0, help="The training step it belongs to.", show_default=False)
]
Name = Annotated[
    str | None, typer.Option("--name", metavar="NAME", help="Its name; `step-N` unless given.", show_default=False)
]

TORCH_FILES = (".pt", ".pth", ".bin")

__all__ = ["save"]


def save(call: Call, path: Source, step: Step = None, name: Name = None) -> int:
    """Save a file or a folder as a checkpoint.

    A .safetensors file gives its tensors. A .pt file (read with weights_only: no code in it runs) gives its state
    dict. Of a folder every file is kept, so that `ckpt restore` gives the folder back.
    """
    if step is None and name is None:
        raise UsageError("a checkpoint needs a step or a name", hint=f"ckpt save {path} --step 7")
    if name is not None:
        check_chosen(name)
    saved = _save_state(call, path, step, name) if path.suffix in TORCH_FILES else _save_files(call, path, step, name)
    call.output.say(f"saved {saved.name} of run {saved.run}: {size(saved.bytes)}, {survival(*saved.tolerance)}")
    if saved.state != "good":
        call.output.note(
            f"it is {saved.state}: it survives less than the store is made for  (next: ckpt doctor, ckpt repair)"
        )
    return call.output.summary(0, checkpoint=saved)


def _save_files(call: Call, path: Path, step: int | None, name: str | None) -> "Checkpoint":
    from ckptstore.checkpoint import Checkpoint
    from ckptstore.commit import About
    from ckptstore.operations.ingest import ingest, plan

    made = plan(path)
    called = f"step-{step}" if name is None else name
    with call.watching() as observer:
        return Checkpoint.of(ingest(call.opened, call.run, made, About(called, called, step), observer))


def _save_state(call: Call, path: Path, step: int | None, name: str | None) -> "Checkpoint":
    from ckptstore.dcp.torch_file import load_torch_file

    state = load_torch_file(path)
    with call.watching() as observer:
        return call.training.save(state, step=step, name=name, observer=observer)
