"""`ckpt undelete`: bring a deleted checkpoint back."""

from dataclasses import replace
from typing import TYPE_CHECKING

from ckptstore.cli.call import Call
from ckptstore.cli.selecting import Name, Step, Which, selected
from ckptstore.errors import NotFoundError, UsageError

if TYPE_CHECKING:
    from ckptstore.selection import Selector
    from manifests import Checkpoint as Live
    from manifests import History

__all__ = ["undelete"]


def undelete(call: Call, which: Which = None, step: Step = None, name: Name = None) -> int:
    """Bring a deleted checkpoint back.

    As long as its data is there. `ckpt log` lists what was deleted.
    """
    from ckptstore.opened import protocol_errors
    from ckptstore.store import Checkpoint

    selector = selected(which, step, name, None)
    if selector is None:
        raise UsageError("which checkpoint?", hint="name one: ckpt undelete 7; see what was deleted: ckpt log")
    found = _deleted(call.history(), selector)
    with protocol_errors():
        call.opened.group.undelete(call.run, *found.key)
    described = Checkpoint.of(found.manifest, found.tags)
    call.output.say(f"{described.name} of run {call.run} is back")
    return call.output.summary(0, run=call.run, undeleted=[described])


def _deleted(history: "History", selector: "Selector") -> "Live":
    from ckptstore.selection import select_from

    try:
        return select_from(replace(history, checkpoints=history.deleted, deleted=()), selector)
    except NotFoundError as error:
        message = f"run {history.run} has no deleted checkpoint {selector}"
        raise NotFoundError(message, hint="see what was deleted: ckpt log", run=history.run) from error
