"""`ckpt log`: what happened in a run."""

from typing import TYPE_CHECKING

from ckptstore.cli.call import Call

if TYPE_CHECKING:
    from manifests import Event

__all__ = ["log"]


def log(call: Call) -> int:
    """List what happened in a run, in order.

    Saves begun, committed, repaired, voided, deleted, undeleted, tagged. Times (UTC) are those of the clocks of
    whoever did it; nothing is decided by them. Of a save whose data a prune removed, one row is left: `collected`,
    which has no time. `ckpt ls --deleted` lists what can still be taken back, with its keys.
    """
    from ckptstore.protocolerrors import protocol_errors

    with protocol_errors():
        events = call.opened.group.log(call.run)
    rows = [
        [
            event.at.replace("T", " ").removesuffix("+00:00"),
            event.kind,
            event.name or "",
            "" if event.step is None else str(event.step),
            event.tag or "",
            _place(event),
        ]
        for event in events
    ]
    if rows:
        call.output.table(["time", "event", "name", "step", "tag", "session/save"], rows, right=("step",))
    else:
        call.check_run_is_known()
        call.output.note("nothing has happened yet  (next: ckpt save PATH --step N)")
    return call.output.summary(0, run=call.run, events=events)


def _place(event: "Event") -> str:
    """Short: the number of the session, and of the save in it. --json has the whole key."""
    number = str(int(event.session.partition(".")[0]))
    return number if event.ordinal is None else f"{number}/{event.ordinal}"
