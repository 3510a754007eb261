"""`ckpt delete`: take a checkpoint out of sight."""

from typing import TYPE_CHECKING, Annotated

import typer

from ckptstore.cli.call import Call
from ckptstore.cli.selecting import Name, Step, Tag, Which, selected
from ckptstore.cli.wording import size
from ckptstore.errors import UsageError

if TYPE_CHECKING:
    from ckptstore.selection import Selector

Yes = Annotated[bool, typer.Option("--yes", help="Do it: without, it only says what would be deleted.")]

__all__ = ["delete"]


def delete(
    call: Call, which: Which = None, step: Step = None, name: Name = None, tag: Tag = None, yes: Yes = False
) -> int:
    """Mark one checkpoint deleted.

    The mark hides it: it is not listed any more, and doesn't load. Its data stays for a grace period, in which
    `ckpt undelete` takes the mark back; the next `ckpt prune` after that frees the room. Of several saves of one
    step or name the newest is meant.
    """
    selector = selected(which, step, name, tag)
    if selector is None:
        raise UsageError("which checkpoint?", hint="name one: ckpt delete 7 --yes; see them: ckpt ls")
    if not yes:
        raise _preview(call, selector)
    deleted = call.training.delete(selector)
    undo = f"ckpt undelete {deleted.key} --run {call.run}"
    call.output.say(
        f"{deleted.name} of run {call.run} is marked deleted; its data stays until it is pruned; take it back: {undo}"
    )
    return call.output.summary(0, run=call.run, deleted=[deleted])


def _preview(call: Call, selector: "Selector") -> UsageError:
    from ckptstore.operations.marking import find_to_delete

    found = find_to_delete(call.history(), selector)
    message = f"{found.name} ({size(found.bytes)}, {found.created}) of run {call.run} would be marked deleted"
    if found.state == "lost":
        message = f"save {found.key} of run {call.run}, of which no manifest can be read, would be marked deleted"
    return UsageError(message, hint=f"ckpt delete {found.key} --run {call.run} --yes")
