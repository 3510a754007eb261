"""How a command line says which checkpoint is meant."""

from typing import TYPE_CHECKING, Annotated

import typer

from ckptstore.errors import UsageError

if TYPE_CHECKING:
    from ckptstore.selection import Selector

Which = Annotated[
    str | None,
    typer.Argument(metavar="[CHECKPOINT]", help="A step, a name, `latest`, `tag:NAME`, or a key.", show_default=False),
]
Step = Annotated[
    int | None, typer.Option("--step", metavar="N", help="The checkpoint of this step.", show_default=False)
]
Name = Annotated[
    str | None, typer.Option("--name", metavar="NAME", help="The checkpoint of this name.", show_default=False)
]
Tag = Annotated[
    str | None, typer.Option("--tag", metavar="TAG", help="The checkpoint with this tag.", show_default=False)
]

__all__ = ["Name", "Step", "Tag", "Which", "selected"]


def selected(which: str | None, step: int | None, name: str | None, tag: str | None) -> "Selector | None":
    """The one way of naming a checkpoint that was used; None where none was. Raises `UsageError` for two."""
    from ckptstore.selection import Selector

    given = [value for value in (which, step, name, tag) if value is not None]
    if len(given) > 1:
        asked = ", ".join(map(str, given))
        raise UsageError(f"one checkpoint is named in {len(given)} ways: {asked}", hint="name it once, as in --step 7")
    if which is not None and which.isdecimal():
        return Selector(step=int(which))
    if which is not None:
        return Selector.parse(which)
    return Selector(step=step, name=name, tag=tag) if given else None
