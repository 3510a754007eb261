"""`ckpt repair`: what is missing or damaged is put back.

Targets that forgot their votes are re-admitted, manifests, marks, indexes and records get their copies back, and
every fragment is rebuilt where it is bad and moved where it has no place of its own. Idempotent: a second repair
finds nothing to do. A checkpoint that can't be repaired doesn't keep others from it.
"""

from collections.abc import Mapping, Sequence

import manifests
from ckptstore.arguments import check_observer
from ckptstore.errors import CkptStoreError, ObjectNotFound, UsageError
from ckptstore.events import Observer, Progress, ignore
from ckptstore.opened import Opened
from ckptstore.operations.checking import check
from ckptstore.operations.health import CheckpointHealth, recoverable, to_check, unreadable
from ckptstore.operations.mend import Mender
from ckptstore.operations.obstacles import obstacles
from ckptstore.operations.pacing import paced
from ckptstore.operations.readmit import lost_standings, readmit_targets
from ckptstore.operations.repair_report import RepairReport, RepairResult
from ckptstore.operations.replacing import check_replacements, places_with
from ckptstore.operations.runs import runs_on
from ckptstore.operations.subsets import ALL, NOTHING, Part, Window
from ckptstore.operations.traffic import count_check
from ckptstore.placement import Place
from ckptstore.protocolerrors import protocol_errors
from ckptstore.selection import Selector, history_of, key_of
from manifests import Checkpoint, History

__all__ = ["RepairReport", "RepairResult", "repair"]


def repair(
    opened: Opened,
    run: str,
    selector: Selector | None = None,
    *,
    replace: Mapping[str, str] | None = None,
    shard: str | None = None,
    read_data: bool = True,
    dry_run: bool = False,
    limit_rate: float | None = None,
    jobs: int | None = None,
    observer: Observer = ignore,
) -> RepairReport:
    """Repair one checkpoint of a run, or all and those that could be undeleted.

    `replace`: {target that is gone: target that takes its place}. `shard`: "i/N", the part of the work to do, by the
    ids of shards; the first also puts votes back and re-admits targets. `read_data`: every byte is read and checked, in
    a dry run too; without, a fragment that is listed with its size is taken for good. `limit_rate`: bytes a second.
    `jobs`: requests at once. Raises `UsageError` for what is no part, rate or number, and for a replacement that can't
    be: of what the store never had, by what is none of its targets, by one for two, or by one that it has already where
    that would be less safe.
    """
    check_observer(observer)
    part = Part() if shard is None else Part.parse(shard)
    replacements = _replacements({} if replace is None else replace)
    with paced(opened, limit_rate=limit_rate, jobs=jobs) as view:
        check_replacements(view, run, replacements)
        report = RepairReport(dry_run=dry_run)
        if part.leads and not dry_run:
            report.readmitted, report.failed = readmit_targets(view, replacements)
        window = ALL if read_data else NOTHING
        _repair_run(view, run, selector, replacements, report, part, window, observer)
        if replacements and part.whole and not dry_run:
            _settle_replaced(view, replacements, report)
        if report.exit_code:
            report.in_the_way = obstacles(view)
    return report


def _replacements(replace: Mapping[str, str]) -> dict[str, str]:
    """`replace` if it may say what takes whose place, else `UsageError`."""
    pairs = replace.items() if isinstance(replace, Mapping) else [(replace, None)]
    if not all(isinstance(name, str) for pair in pairs for name in pair):
        message = f"replace = {replace!r:.80}: names are wanted, {{target gone: target instead}}"
        raise UsageError(message, hint='replace={"b": "g"}')
    return dict(replace)


def _settle_replaced(opened: Opened, replace: Mapping[str, str], report: RepairReport) -> None:
    """Which targets hold nothing of the store any more: it is asked of every run, for those repaired are one's only."""
    try:
        report.still_on = runs_on(opened, replace)
    except CkptStoreError as error:
        report.failed.append(error.message)
        return
    members = opened.group.members
    voting = {*members.targets, *(members.old.targets if members.old else ())}
    report.voting = sorted(voting & {old for old, new in replace.items() if new in voting})
    gone = set(replace) & set(opened.targets) - report.still_on.keys() - voting
    report.replaced = [] if report.exit_code else sorted(gone)


def _repair_run(
    opened: Opened,
    run: str,
    selector: Selector | None,
    replace: Mapping[str, str],
    report: RepairReport,
    part: Part,
    window: Window,
    observer: Observer,
) -> None:
    if part.leads:
        _heal(opened, run, report)
    history = history_of(opened, run)
    chosen = _chosen(history, selector)
    places = _places(opened, replace, report)
    if not part.leads:
        report.readmitted = []
        report.failed += _waiting(opened, replace, places)
    for checkpoint in chosen:
        health = check(opened, history, checkpoint, window, shards=part.shards)
        result = _result(health)
        result.deleted = checkpoint.deleted
        report.checkpoints.append(result)
        if report.dry_run and window == ALL:
            count_check(health.shards, result.checking)
        try:
            Mender(opened, checkpoint, health, replace, places, result, part=part, dry_run=report.dry_run).mend()
        except (CkptStoreError, manifests.ManifestError) as error:
            result.failed.append(error.message)
        observer(Progress("repair", 1, len(chosen)))
    if not report.dry_run:
        report.checkpoints = _look_again(opened, run, report.checkpoints, part, window)
    if selector is None and part.leads:
        for health in unreadable(history):
            result = _result(health)
            give_up = f"to give it up: ckpt delete {health.key} --run {run} --yes"
            result.failed += [f"{finding.detail}; {give_up}" for finding in health.findings[:1]]
            report.checkpoints.append(result)


def _waiting(opened: Opened, replace: Mapping[str, str], places: Sequence[Place]) -> list[str]:
    """Targets that only the first part makes the store's again: what belongs on them can't be put there before."""
    with protocol_errors():
        opened.group.refresh()
    lost = lost_standings(opened)
    lost = (lost & set(opened.group.members.targets)) | (set(replace.values()) - {place.target for place in places})
    return [f"{name} has to be re-admitted by part 1: run this part again after it" for name in sorted(lost)]


def _chosen(history: History, selector: Selector | None) -> list[Checkpoint]:
    """What was asked for; where that is all, those too that an undelete would bring back."""
    return [*to_check(history, selector), *(recoverable(history) if selector is None else ())]


def _result(health: CheckpointHealth) -> RepairResult:
    """A result that says what was found, before anything is done about it."""
    return RepairResult(health.run, health.key, health.name, state=health.state, tolerance=health.tolerance)


def _heal(opened: Opened, run: str, report: RepairReport) -> None:
    """Manifests and marks first; a target that takes none must not keep fragments elsewhere from being rebuilt."""
    try:
        with protocol_errors():
            if report.dry_run:
                report.votes += len(opened.group.unhealed(run))
                return
            healed = opened.group.heal(run)
    except CkptStoreError as error:
        report.failed.append(error.message)
        return
    report.votes += len(healed.put) + len(healed.removed)
    report.failed += healed.refusals
    mended = {name for _, name in healed.put}
    report.failed += [p.message for p in healed.problems if p.kind == "damaged" and p.name not in mended]


def _places(opened: Opened, replace: Mapping[str, str], report: RepairReport) -> list[Place]:
    """Where fragments may be put; in a dry run also where they could be once the repair had re-admitted it."""
    places, failed = opened.writable()
    if report.dry_run:
        new = set(replace.values())
        lost = lost_standings(opened)
        back = {n for n, error in failed.items() if isinstance(error, ObjectNotFound) or n in lost} | new
        report.readmitted = sorted((back & set(failed)) | (lost & set(opened.group.members.targets)))
        places = [place for place in places_with(opened, new) if place.target not in failed or place.target in back]
    return [place for place in places if place.target not in replace]


def _look_again(
    opened: Opened, run: str, results: Sequence[RepairResult], part: Part, window: Window
) -> list[RepairResult]:
    """Their states afterwards. Where something could not be put, its digests are checked: a bad one may have its size.

    Those left out were deleted meanwhile, or removed, and so there is nothing to repair, nor any failure to tell of.
    """
    with protocol_errors():
        history = opened.group.history(run)
    live = {key_of(checkpoint): checkpoint for checkpoint in history.checkpoints}
    deleted = {key_of(checkpoint): checkpoint for checkpoint in recoverable(history)}
    left = []
    for result in results:
        checkpoint = live.get(result.key) or (deleted.get(result.key) if result.deleted else None)
        if checkpoint is None:
            continue
        if result.state != "good" or not result.idle:
            after = check(opened, history, checkpoint, window if result.failed else NOTHING, shards=part.shards)
            result.state, result.tolerance = after.state, after.tolerance
        left.append(result)
    return left
