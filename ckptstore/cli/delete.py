"""`ckpt delete`: take a checkpoint out of sight."""

from typing import Annotated

import typer

from ckptstore.cli.call import Call
from ckptstore.cli.selecting import Name, Step, Tag, Which, selected
from ckptstore.cli.wording import size
from ckptstore.errors import UsageError

Yes = Annotated[bool, typer.Option("--yes", help="Do it: without, it only says what would be deleted.")]

__all__ = ["delete"]


def delete(
    call: Call, which: Which = None, step: Step = None, name: Name = None, tag: Tag = None, yes: Yes = False
) -> int:
    """Mark one checkpoint deleted.

    It is not listed any more, and doesn't load. Its data stays for a grace period, and `ckpt undelete` brings
    it back. Of several saves of one step or name the newest is meant.
    """
    from ckptstore.opened import protocol_errors
    from ckptstore.selection import key_of, select_from
    from ckptstore.store import Checkpoint

    selector = selected(which, step, name, tag)
    if selector is None:
        raise UsageError("which checkpoint?", hint="name one: ckpt delete 7 --yes; see them: ckpt ls")
    found = select_from(call.history(), selector)
    described = Checkpoint.of(found.manifest, found.tags)
    if not yes:
        message = f"{described.name} ({size(described.bytes)}, {described.created}) of run {call.run} would be deleted"
        raise UsageError(message, hint=f"ckpt delete {key_of(found)} --run {call.run} --yes")
    with protocol_errors():
        call.opened.group.delete(call.run, *found.key)
    call.output.say(
        f"deleted {described.name} of run {call.run}; until its data is collected: ckpt undelete {key_of(found)}"
    )
    return call.output.summary(0, run=call.run, deleted=[described])
