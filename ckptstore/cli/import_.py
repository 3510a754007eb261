"""`ckpt import`: a checkpoint of another tool into the store."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ckptstore.cli.call import Call
from ckptstore.cli.save import Name, Step, tell_saved
from ckptstore.cli.wording import count, joined, size

if TYPE_CHECKING:
    from ckptstore.operations.ingest import Plan

Source = Annotated[
    Path,
    typer.Argument(
        metavar="PATH",
        help="A Hugging Face or DCP folder, a .pt or .safetensors file, a DeepSpeed universal checkpoint.",
        show_default=False,
    ),
]
Format = Annotated[
    str | None,
    typer.Option(
        "--format", metavar="NAME", help="`hf`, `dcp`, `torch` or `deepspeed`; else as it looks.", show_default=False
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Look at it, say what would be saved, and write nothing.")]

__all__ = ["import_"]


def import_(
    call: Call, path: Source, step: Step = None, name: Name = None, format_: Format = None, dry_run: DryRun = False
) -> int:
    """Save a checkpoint that another tool wrote, tensor by tensor, under the names that it has there.

    Of a Hugging Face folder the weights that its index names, and the small files beside them: `ckpt export` writes
    them again. Nothing is cast, and no code in a pickle runs. What isn't as its format wants it is refused, by file and
    tensor, before anything is written. docs/formats.md says what each format keeps.
    """
    from ckptstore.checkpoint import Checkpoint
    from ckptstore.commit import described
    from ckptstore.formats.importing import import_checkpoint, plan_import

    about = described(step, name)
    kind, made = plan_import(path, format_)
    _tell(call, kind, made)
    if dry_run:
        call.output.say(f"would save {size(made.bytes)} as {about.name} of run {call.run}")
        return call.output.summary(0, dry_run=True, **_fields(kind, made))
    with call.watching() as observer:
        saved = Checkpoint.of(import_checkpoint(call.opened, call.run, made, about, observer))
    tell_saved(call, saved)
    return call.output.summary(0, dry_run=False, checkpoint=saved, **_fields(kind, made))


def _tell(call: Call, kind: str, made: "Plan") -> None:
    keys = len({piece.fqn for piece in made.pieces})
    call.output.say(f"{kind}: {count(keys, 'key')}, {size(made.bytes)} in {count(len(made.files), 'file')}")
    if made.left_out:
        call.output.note(f"not taken: {joined(made.left_out)}  (all files of a folder: ckpt save)")


def _fields(kind: str, made: "Plan") -> dict[str, object]:
    keys = len({piece.fqn for piece in made.pieces})
    return {"format": kind, "keys": keys, "bytes": made.bytes, "files": len(made.files), "left_out": made.left_out}
