"""`ckpt diff`: what two checkpoints have otherwise."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ckptstore.cli.call import Call
from ckptstore.cli.selecting import selected
from ckptstore.cli.wording import count, size

if TYPE_CHECKING:
    from ckptstore.operations.diff import Difference, DiffReport

First = Annotated[str, typer.Argument(metavar="A", help="A step, a name, `latest`, `tag:NAME`, or a key.")]
Second = Annotated[str, typer.Argument(metavar="B", help="What it is compared with, named likewise.")]
Structure = Annotated[bool, typer.Option("--structure", help="Names, dtypes and shapes only: reads no data.")]
OtherStore = Annotated[
    Path | None,
    typer.Option("--other-store", metavar="PATH", help="B is in the store of this store.toml.", show_default=False),
]
OtherRun = Annotated[
    str | None, typer.Option("--other-run", metavar="RUN", help="B is of this run.", show_default=False)
]

SHOWN = 100
"""Differences that are shown to people; --json tells all."""

__all__ = ["diff"]


def diff(
    call: Call,
    a: First,
    b: Second,
    structure: Structure = False,
    other_store: OtherStore = None,
    other_run: OtherRun = None,
) -> int:
    """Compare two checkpoints: what B has otherwise than A.

    Tensors and objects that were added, are gone, or have another dtype, shape, value or other bits, in whatever shards
    they lie. All of both is read, and verified; with --structure only what is recorded of them. Exits as `diff` does:
    0 if they are equal, 1 if they are not. Any other code, or a `kind` in JSON, says that it isn't known.
    """
    from ckptstore.config import Config
    from ckptstore.opened import shared
    from ckptstore.operations.diff import diff as compare
    from ckptstore.selection import key_of

    with call.watching() as observer:
        one = _source(call.opened, call.run, a, observer)
        opened = call.opened if other_store is None else shared(Config.load(other_store))
        other = _source(opened, other_run or call.run, b, observer)
        report = compare(one, other, structure=structure, observer=observer)
    _tell(call, report)
    for difference in report.differences:
        call.output.record("difference", **vars(difference))
    how = "by structure alone" if structure else f"{size(report.compared)} of each read"
    found = count(len(report.differences), "difference") if report.differences else "no difference"
    names = [source.manifest.name or key_of(source.manifest) for source in (one, other)]
    call.output.say(f"{names[0]} and {names[1]}: {found}, {count(report.same, 'name')} the same; {how}")
    return call.output.summary(
        1 if report.differences else 0,
        a=_named(one),
        b=_named(other),
        structure=structure,
        differences=len(report.differences),
        same=report.same,
        compared=report.compared,
    )


def _source(opened: Any, run: str, which: str, observer: Any) -> Any:
    from ckptstore.names import check_run
    from ckptstore.selection import Selector, select
    from ckptstore.source import Source

    chosen = selected(which, None, None, None) or Selector()
    return Source.open(opened, select(opened, check_run(run), chosen), observer)


def _named(source: Any) -> dict[str, Any]:
    from ckptstore.selection import key_of

    manifest = source.manifest
    return {"run": manifest.run, "key": key_of(manifest), "name": manifest.name, "step": manifest.step}


def _tell(call: Call, report: "DiffReport") -> None:
    rows = [[each.what, each.fqn, _detail(each)] for each in report.differences[:SHOWN]]
    if rows:
        call.output.table(["what", "name", "A → B"], rows)
    if len(report.differences) > SHOWN:
        call.output.say(f"… {len(report.differences) - SHOWN} more; all of them with --json")


def _detail(difference: "Difference") -> str:
    if difference.what == "structure":
        return "containers or the order of keys; no name"
    if difference.elements is not None:
        return f"{difference.before}: {count(difference.elements, 'element')} differ"
    return " → ".join(text for text in (difference.before, difference.after) if text)
