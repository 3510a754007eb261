"""`ckpt tag`: give a checkpoint a name of your own."""

from typing import Annotated

import typer

from ckptstore.cli.call import Call
from ckptstore.cli.selecting import Name, Step, Which, selected
from ckptstore.errors import NotFoundError, UsageError

Label = Annotated[
    str, typer.Argument(metavar="TAG", help="The tag: letters, digits, `.`, `_` and `-`.", show_default=False)
]
Remove = Annotated[bool, typer.Option("--remove", help="Take the tag from the checkpoint that has it.")]

__all__ = ["tag"]


def tag(
    call: Call, label: Label, which: Which = None, step: Step = None, name: Name = None, remove: Remove = False
) -> int:
    """Give a checkpoint a tag of your own.

    The latest unless named; another checkpoint of the run that had the tag loses it. `ckpt restore PATH --tag
    best` and `run.load(state, step="tag:best")` then find it.
    """
    from ckptstore.opened import protocol_errors
    from ckptstore.selection import Selector, select_from
    from ckptstore.store import Checkpoint
    from manifests import UnsafeName, paths

    try:
        paths.check_label(label)
    except UnsafeName as error:
        raise UsageError(f"{label!r} can't be a tag: {error.message}", hint="ckpt tag best --step 7") from error
    history = call.history()
    if remove:
        return _remove(call, label, label in history.tags)
    found = select_from(history, selected(which, step, name, None) or Selector())
    with protocol_errors():
        call.opened.group.tag(call.run, *found.key, label)
    described = Checkpoint.of(found.manifest, sorted({*found.tags, label}))
    call.output.say(f"{described.name} of run {call.run} is tagged {label}")
    return call.output.summary(0, run=call.run, tag=label, checkpoint=described)


def _remove(call: Call, label: str, known: bool) -> int:
    from ckptstore.opened import protocol_errors

    if not known:
        raise NotFoundError(f"no checkpoint of run {call.run} is tagged {label}", hint=f"ckpt ls --run {call.run}")
    with protocol_errors():
        call.opened.group.untag(call.run, label)
    call.output.say(f"the tag {label} is gone")
    return call.output.summary(0, run=call.run, tag=label, checkpoint=None)
