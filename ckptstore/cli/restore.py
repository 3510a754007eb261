"""`ckpt restore`: a checkpoint into files."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ckptstore.cli.call import Call
from ckptstore.cli.selecting import Name, Step, Tag, selected
from ckptstore.cli.wording import count, joined, size

if TYPE_CHECKING:
    from ckptstore.operations.restore import RestorePlan

Target = Annotated[
    Path, typer.Argument(metavar="PATH", help="A file that ends in .safetensors, or a folder.", show_default=False)
]
Include = Annotated[
    list[str] | None,
    typer.Option(
        "--include", metavar="GLOB", help="Only tensors whose names match; may be repeated.", show_default=False
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be written, and write nothing.")]
Force = Annotated[bool, typer.Option("--force", help="Replace files that are there already.")]

__all__ = ["restore"]


def restore(
    call: Call,
    path: Target,
    step: Step = None,
    name: Name = None,
    tag: Tag = None,
    include: Include = None,
    dry_run: DryRun = False,
    force: Force = False,
) -> int:
    """Write a checkpoint as a .safetensors file or as a folder.

    The latest unless named. Every byte is verified before a file gets its name. Tensors are put together to
    their global shapes; what isn't a tensor goes into a JSON file beside them. A checkpoint saved from a folder
    gives that folder back.
    """
    from ckptstore.operations.restore import plan_restore
    from ckptstore.operations.restore import restore as write
    from ckptstore.selection import Selector, key_of, select
    from ckptstore.source import Source

    chosen = select(call.opened, call.run, selected(None, step, name, tag) or Selector())
    with call.watching() as observer:
        source = Source.open(call.opened, chosen, observer)
        plan = plan_restore(source, path, include or [], force=force)
        if not dry_run:
            write(source, plan, observer)
    _tell(call, plan, chosen.name or key_of(chosen), dry_run=dry_run)
    files = [
        {"path": str(plan.folder / file.path), "bytes": file.size, "tensors": len(file.offsets)} for file in plan.files
    ]
    fields = {"key": key_of(chosen), "name": chosen.name, "step": chosen.step, "dry_run": dry_run}
    return call.output.summary(0, run=call.run, **fields, files=files, left_out=plan.left_out, replaced=plan.replaced)


def _tell(call: Call, plan: "RestorePlan", name: str, *, dry_run: bool) -> None:
    verb = "would write" if dry_run else "wrote"
    for file in plan.files:
        what = count(len(file.objects), "object") if file.objects else count(len(file.offsets), "tensor")
        much = "" if file.objects else f", {size(file.size)}"
        again = ", in the place of another" if file.path in plan.replaced else ""
        call.output.say(f"{verb} {plan.folder / file.path}: {what}{much}{again}")
    if plan.left_out:
        call.output.note(f"left out: {joined(plan.left_out)}, which are no tensors; restore to a folder to get them")
    call.output.say(f"{name} of run {call.run}{'' if dry_run else ', every byte verified'}")
