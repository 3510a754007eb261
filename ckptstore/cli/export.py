"""`ckpt export`: a checkpoint into an open format."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ckptstore.cli.call import Call
from ckptstore.cli.restore import DryRun, Force, Include
from ckptstore.cli.selecting import Name, Step, Tag, selected
from ckptstore.cli.wording import count, joined, size

if TYPE_CHECKING:
    from ckptstore.formats.exporting import Export

Target = Annotated[
    Path, typer.Argument(metavar="PATH", help="A folder, or a file that ends in .pt.", show_default=False)
]
Format = Annotated[
    str | None,
    typer.Option(
        "--format", metavar="NAME", help="`hf`, `dcp` or `torch`; else `torch` for .pt, and `hf`.", show_default=False
    ),
]
Prefix = Annotated[
    str,
    typer.Option(
        "--prefix",
        metavar="TEXT",
        help="Only keys that begin so (`model.`), and without it.",
        show_default=False,
    ),
]
ShardSize = Annotated[
    str, typer.Option("--max-shard-size", metavar="SIZE", help="With hf: of the tensors in one file.")
]

__all__ = ["export"]


def export(
    call: Call,
    path: Target,
    step: Step = None,
    name: Name = None,
    tag: Tag = None,
    format_: Format = None,
    include: Include = None,
    prefix: Prefix = "",
    max_shard_size: ShardSize = "5GB",
    dry_run: DryRun = False,
    force: Force = False,
) -> int:
    """Write a checkpoint as standard files: a Hugging Face folder, a DCP folder, or a file of torch.

    The latest unless named. Every byte is verified before a file gets its name, and the index comes last. Nothing is
    cast: tensors of a dtype that the format lacks are named, and nothing is written. What a Hugging Face folder has no
    place for, as optimizer steps, is left out and named. docs/formats.md says what each format keeps.
    """
    from ckptstore.formats.exporting import export as write
    from ckptstore.formats.exporting import plan_export
    from ckptstore.selection import Selector, key_of, select
    from ckptstore.source import Source

    chosen = select(call.opened, call.run, selected(None, step, name, tag) or Selector())
    with call.watching() as observer:
        source = Source.open(call.opened, chosen, observer)
        planned = plan_export(
            source, path, name=format_, include=include or (), prefix=prefix, shard_size=max_shard_size, force=force
        )
        if not dry_run:
            write(source, planned, observer)
    _tell(call, planned, chosen.name or key_of(chosen), dry_run=dry_run)
    fields = {"key": key_of(chosen), "name": chosen.name, "step": chosen.step, "dry_run": dry_run}
    files = [str(file) for file in planned.files]
    return call.output.summary(
        0,
        run=call.run,
        **fields,
        format=planned.format,
        files=files,
        tensors=len(planned.chosen.tensors),
        bytes=planned.plan.bytes,
        left_out=planned.left_out,
        replaced=planned.plan.replaced,
    )


def _tell(call: Call, planned: "Export", name: str, *, dry_run: bool) -> None:
    for file in planned.files:
        call.output.say(f"{'would write' if dry_run else 'wrote'} {file}")
    if planned.left_out:
        call.output.note(f"left out: {joined(planned.left_out)}, for which the format has no place")
    much = f"{count(len(planned.chosen.tensors), 'tensor')}, {size(planned.plan.bytes)}"
    call.output.say(f"{name} of run {call.run} as {planned.format}: {much}{'' if dry_run else ', every byte verified'}")
