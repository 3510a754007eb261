"""`ckpt log`: what happened in a run."""

from ckptstore.cli.call import Call

__all__ = ["log"]


def log(call: Call) -> int:
    """List what happened in a run, in order: saves begun, committed, repaired, voided, deleted, undeleted, tagged.

    Times are those of the clocks of whoever did it; nothing is decided by them.
    """
    from ckptstore.opened import protocol_errors

    with protocol_errors():
        events = call.opened.group.log(call.run)
    rows = [
        [
            event.at,
            event.kind,
            event.name or "",
            "" if event.step is None else str(event.step),
            event.tag or "",
            event.session if event.ordinal is None else f"{event.session}.{event.ordinal:06d}",
        ]
        for event in events
    ]
    if rows:
        call.output.table(["time", "event", "name", "step", "tag", "key"], rows, right=("step",))
    else:
        call.check_run_is_known()
        call.output.note("nothing has happened yet  (next: ckpt save PATH --step N)")
    return call.output.summary(0, run=call.run, events=events)
