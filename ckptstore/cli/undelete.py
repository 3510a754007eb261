"""`ckpt undelete`: bring a deleted checkpoint back."""

from ckptstore.cli.call import Call
from ckptstore.cli.selecting import Name, Step, Which, selected
from ckptstore.errors import UsageError

__all__ = ["undelete"]


def undelete(call: Call, which: Which = None, step: Step = None, name: Name = None) -> int:
    """Take the delete mark from a checkpoint: it is listed and loads again.

    `ckpt ls --deleted` lists what was deleted, and for how long it can be taken back; by its key also an older save
    of a step.
    """
    selector = selected(which, step, name, None)
    if selector is None:
        raise UsageError("which checkpoint?", hint="name one: ckpt undelete 7; see what was deleted: ckpt ls --deleted")
    undeleted = call.training.undelete(selector)
    call.output.say(f"{undeleted.name} of run {call.run} is back")
    return call.output.summary(0, run=call.run, undeleted=[undeleted])
