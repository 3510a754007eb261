"""`ckpt ls --deleted`: what can be taken back, for how long, and by which key."""

from typing import TYPE_CHECKING

from ckptstore.cli.call import Call
from ckptstore.cli.wording import age, data_stays, size

if TYPE_CHECKING:
    from ckptstore.operations.prune_report import Waiting

__all__ = ["list_deleted"]


def list_deleted(call: Call, runs: list[str], *, with_run: bool) -> int:
    """A row a deleted checkpoint, in the order in which they were saved."""
    from ckptstore.operations.prune_plan import deleted_in
    from ckptstore.selection import key_of

    retention = call.config.retention
    found = [waiting for run in runs for waiting in deleted_in(call.opened, run, retention)]
    rows = [[*([w.checkpoint.manifest.run] if with_run else []), *_row(w)] for w in found]
    if rows:
        run = ["run"] if with_run else []
        headings = [*run, "name", "step", "size", "age", "data stays", "key"]
        call.output.table(headings, rows, right=("step", "size", "age"))
        call.output.note("next: ckpt undelete KEY")
    else:
        if not with_run:
            call.check_run_is_known()
        call.output.note("nothing deleted that could be taken back")
    deleted = [
        {
            "run": w.checkpoint.manifest.run,
            "key": key_of(w.checkpoint),
            "name": w.checkpoint.manifest.name,
            "step": w.checkpoint.manifest.step,
            "bytes": w.checkpoint.bytes,
            "seconds": w.seconds,
            "used": w.used,
            "tags": w.tags,
        }
        for w in found
    ]
    return call.output.summary(0, store=call.config.name, runs=runs, deleted=deleted)


def _row(waiting: "Waiting") -> list[str]:
    from ckptstore.selection import key_of

    manifest = waiting.checkpoint.manifest
    key = key_of(waiting.checkpoint)
    return [
        manifest.name or key,
        "" if manifest.step is None else str(manifest.step),
        size(manifest.bytes),
        age(manifest.created),
        data_stays(waiting.seconds, used=waiting.used, tags=waiting.tags),
        key,
    ]
