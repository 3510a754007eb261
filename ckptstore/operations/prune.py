"""`ckpt prune`: delete what the rules don't keep, and remove what was deleted, given up or orphaned long enough ago.

First a plan, then the same plan carried out. Nothing is removed at once: a checkpoint that the rules don't keep gets a
delete mark, and only when that is older than the grace period, by the clocks of the targets, its data goes. Where
something can't be read it is kept, and so is everything that it may name. Only the run's own objects are touched.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta

from ckptstore.arguments import check_observer
from ckptstore.errors import CkptStoreError, TargetError, UsageError
from ckptstore.events import Observer, Progress, ignore
from ckptstore.opened import Opened
from ckptstore.operations.ages import Ages, target_time
from ckptstore.operations.inventory import Named, named_by
from ckptstore.operations.prune_plan import Options, find_ended, make_plan, past_grace, read_run, what_blocks
from ckptstore.operations.prune_report import PruneReport, Waiting
from ckptstore.protocolerrors import protocol_errors
from ckptstore.retention import Retention
from ckptstore.selection import history_of
from manifests import Checkpoint, History, paths
from manifests.paths import SaveKey

CLOCK_MARGIN = 0.1
"""How much longer than the grace period an orphan is left: clocks of two targets may run apart so much meanwhile."""

AT_ONCE = 16
"""Checkpoints that are deleted between two looks at the run: each look costs a request for each manifest and mark."""

__all__ = ["PruneReport", "Waiting", "prune"]


def prune(
    opened: Opened,
    run: str,
    rules: Retention,
    *,
    sweep_only: bool = False,
    dry_run: bool = False,
    read_data: bool = False,
    allow_nothing: bool = False,
    strict_tags: bool = True,
    observer: Observer = ignore,
) -> PruneReport:
    """Prune one run. `sweep_only`: delete nothing that is live. `read_data`: read back all of the latest first.

    Without, a sample. `strict_tags`: a tag in the rules that no checkpoint has is a slip of the pen. Of those kept by
    `keep_last` one that is lost doesn't count: an older one is kept in its place. Raises `UsageError` for rules that
    keep nothing, `NotFoundError` for such a tag; of the checkpoint that would be left as the latest `CorruptError`
    where it doesn't load, `OutOfReach` where that can't be told, and `ToleranceError` where it survives less than as
    it was written, so that a repair comes first (a sweep deletes nothing and goes on); `CommitInDoubt`; and
    `CorruptError` where there is data and not one record of a save: nothing may be said to need it, and all of it.
    """
    check_observer(observer)
    if not (rules.has_rules or sweep_only):
        hint = "ckpt prune --keep-last 3, or run.prune(keep_last=3), or [retention] in store.toml"
        raise UsageError("nothing says what to keep", hint=hint)
    report = PruneReport(run, rules, dry_run)
    with protocol_errors():
        opened.group.refresh()
        if not dry_run:
            opened.group.settle(run)
    make_plan(opened, report, Options(sweep_only, read_data, allow_nothing, strict_tags))
    if dry_run:
        _foresee(opened, report, observer)
    else:
        _carry_out(opened, report, observer)
    return report


def _foresee(opened: Opened, report: PruneReport, observer: Observer) -> None:
    """Count what would be removed now: what the rules delete only now has its grace period before it."""
    before = _orphan_times(opened, report)
    for _ in report.ended:
        observer(Progress("prune", 1, len(report.ended)))
    report.removal.remove_checkpoints(opened, report.run, report.ended)
    _sweep(opened, report, before)


def _carry_out(opened: Opened, report: PruneReport, observer: Observer) -> None:
    """Put the delete marks, then remove what is past its grace period as it stands with them."""
    _delete(opened, report, observer)
    before = _orphan_times(opened, report)
    history, ages = read_run(opened, report.run)
    find_ended(report, history, ages)
    for checkpoint in list(report.ended):
        if not _end(opened, report, checkpoint, ages):
            report.ended.remove(checkpoint)
        observer(Progress("prune", 1, len(report.ended)))
    report.removal.remove_checkpoints(opened, report.run, report.ended)
    for key, marks in report.unreadable.items():
        with protocol_errors():
            opened.group.collect(report.run, key, marks)
    _bury(opened, report)
    _sweep(opened, report, before)
    with protocol_errors():
        opened.group.clear(report.run)


def _delete(opened: Opened, report: PruneReport, observer: Observer) -> None:
    """Put the delete marks, but on what got a tag meanwhile; what another prune removed meanwhile is done."""
    planned = report.deleted
    for at in range(0, len(planned), AT_ONCE):
        part = planned[at : at + AT_ONCE]
        with protocol_errors():
            fates = opened.group.retire(report.run, [checkpoint.key for checkpoint in part])
        report.settle(fates)
        observer(Progress("prune", len(part), len(planned)))


def _orphan_times(opened: Opened, report: PruneReport) -> dict[str, datetime]:
    """The times, by the clocks of the targets in reach, before which what nothing names is an orphan.

    Taken before the history is read that says what is named: what is put later may belong to a save that it doesn't
    show.
    """
    grace = timedelta(seconds=report.rules.grace_seconds * (1 + CLOCK_MARGIN))
    times = {}
    for name, reply in opened.on_targets(target_time).items():
        if isinstance(reply, TargetError):
            report.removal.failed[name] = reply.message
        else:
            times[name] = reply.now - grace
            report.removal.failed |= {f"{name}: {path}": error.message for path, error in reply.left.items()}
    return times


def _end(opened: Opened, report: PruneReport, checkpoint: Checkpoint, ages: Ages) -> bool:
    """End one deleted save. False: it was undeleted, or can't be read for certain any more."""
    past = past_grace(checkpoint.key, checkpoint.deletes, ages, report.rules.grace_seconds)
    with protocol_errors():
        return opened.group.collect(report.run, checkpoint.key, past) == "collected"


def _bury(opened: Opened, report: PruneReport) -> None:
    """Close the registers of saves given up. Only with every commit target in reach they are certain to stay closed."""
    for key in list(report.given_up):
        try:
            with protocol_errors():
                if opened.group.bury(report.run, key) == "saved":
                    report.given_up.remove(key)
        except CkptStoreError as error:
            report.blocked.append(f"save {paths.save_name(*key)} was begun and never committed: {error.message}")


def _sweep(opened: Opened, report: PruneReport, before: Mapping[str, datetime]) -> None:
    """Remove the orphans, by what is named now that registers are closed; none where something couldn't be read."""
    if report.blocked:
        return
    history = history_of(opened, report.run)
    try:
        named = _named(opened, report, history)
    except CkptStoreError as error:
        report.blocked.append(f"orphans can't be told from what is needed: {error.message}")
        return
    if named is not None:
        report.removal.remove_orphans(opened, report.run, named, before)


def _named(opened: Opened, report: PruneReport, history: History) -> Named | None:
    """What the run's checkpoints name, by a later look where another prune removes some meanwhile.

    None, and the report says why, where something can't be read by then: of what that names nothing is known.
    """
    while not (blocked := what_blocks(history, report.unreadable)):
        try:
            return named_by(opened, (*history.checkpoints, *history.deleted))
        except CkptStoreError:
            later = history_of(opened, report.run)
            if _keys(later) == _keys(history):
                raise
            history = later
    report.blocked = blocked
    return None


def _keys(history: History) -> set[SaveKey]:
    return {checkpoint.key for checkpoint in (*history.checkpoints, *history.deleted)}
