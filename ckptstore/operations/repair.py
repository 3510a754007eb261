"""`ckpt repair`: what is missing or damaged is put back.

Targets that forgot their votes are re-admitted, manifests, marks, indexes and records get their copies back, and
every fragment is rebuilt where it is bad and moved where it has no place of its own. Idempotent: a second repair
finds nothing to do. A checkpoint that can't be repaired doesn't keep others from it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import manifests
from ckptstore.arguments import check_observer
from ckptstore.errors import CkptStoreError, ObjectNotFound, UsageError
from ckptstore.events import Observer, Progress, ignore
from ckptstore.opened import Opened
from ckptstore.operations.health import CheckpointHealth, VerifyReport, recoverable, to_check, unreadable
from ckptstore.operations.mend import Mender, RepairResult
from ckptstore.operations.obstacles import Obstacle, obstacles
from ckptstore.operations.readmit import readmit_targets
from ckptstore.operations.replacing import check_replacements, places_with
from ckptstore.operations.runs import runs_on
from ckptstore.operations.verify import check
from ckptstore.placement import Place
from ckptstore.protocolerrors import protocol_errors
from ckptstore.selection import Selector, history_of, key_of
from manifests import Checkpoint, History

__all__ = ["RepairReport", "RepairResult", "repair"]


@dataclass
class RepairReport:
    """All checkpoints; `votes`: copies of manifests and marks put back; `readmitted`: targets that count again.

    In a dry run: that would be.
    `replaced`: targets that another has taken the place of, that hold nothing of any run, and that store.toml names all
    the same. `still_on`: those that hold checkpoints still, and of which runs. `voting`: those that are commit targets
    still, because what took their fragments is one itself. `in_the_way`: what people must remove.
    """

    checkpoints: list[RepairResult] = field(default_factory=list)
    votes: int = 0
    readmitted: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    replaced: list[str] = field(default_factory=list)
    still_on: dict[str, list[str]] = field(default_factory=dict)
    voting: list[str] = field(default_factory=list)
    in_the_way: list[Obstacle] = field(default_factory=list)
    dry_run: bool = False

    @property
    def does_something(self) -> bool:
        """Whether anything was put back, moved or re-admitted."""
        done = any(result.rebuilt or result.moved or result.restored for result in self.checkpoints)
        return bool(done or self.votes or self.readmitted)

    @property
    def exit_code(self) -> int:
        """0 when all is good after it, else as `verify`; in a dry run as before it. 3 too where it is not all moved."""
        codes = [VerifyReport.CODES[_counted(result)] for result in self.checkpoints]
        worst = max(codes, key=[0, 3, 5, 4].index, default=0)
        failed = self.failed or any(result.failed for result in self.checkpoints)
        if self.dry_run and self.votes:
            return worst or VerifyReport.CODES["degraded"]
        if failed and not self.dry_run:
            return worst or 1
        return worst or (VerifyReport.CODES["degraded"] if self.still_on else 0)


def repair(
    opened: Opened,
    run: str,
    selector: Selector | None = None,
    *,
    replace: Mapping[str, str] | None = None,
    dry_run: bool = False,
    observer: Observer = ignore,
) -> RepairReport:
    """Repair one checkpoint of a run, or all and those that could be undeleted.

    `replace`: {target that is gone: target that takes its place}.
    Raises `UsageError` for a replacement that can't be: of what the store never had, by what is none of its targets,
    by one for two, or by one that it has already where that would be less safe.
    """
    check_observer(observer)
    replacements = _replacements({} if replace is None else replace)
    check_replacements(opened, run, replacements)
    report = RepairReport(dry_run=dry_run)
    if not dry_run:
        report.readmitted, report.failed = readmit_targets(opened, replacements)
    _repair_run(opened, run, selector, replacements, report, observer)
    if replacements and not dry_run:
        _settle_replaced(opened, replacements, report)
    if report.exit_code:
        report.in_the_way = obstacles(opened)
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
    observer: Observer,
) -> None:
    _heal(opened, run, report)
    history = history_of(opened, run)
    chosen = _chosen(history, selector)
    places = _places(opened, replace, report)
    for checkpoint in chosen:
        health = check(opened, history, checkpoint, 1.0)
        result = _result(health)
        result.deleted = checkpoint.deleted
        try:
            Mender(opened, checkpoint, health, replace, places, result, dry_run=report.dry_run).mend()
        except (CkptStoreError, manifests.ManifestError) as error:
            result.failed.append(error.message)
        if report.dry_run or _look_again(opened, run, result):
            report.checkpoints.append(result)
        observer(Progress("repair", 1, len(chosen)))
    if selector is None:
        for health in unreadable(history):
            result = _result(health)
            give_up = f"to give it up: ckpt delete {health.key} --run {run} --yes"
            result.failed += [f"{finding.detail}; {give_up}" for finding in health.findings[:1]]
            report.checkpoints.append(result)


def _counted(result: RepairResult) -> str:
    """The state that the exit code tells: nothing that loads is lost with what is deleted."""
    return "degraded" if result.deleted and result.state != "good" else result.state


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
        back = {name for name, error in failed.items() if isinstance(error, ObjectNotFound)} | new
        report.readmitted = sorted(back & set(failed))
        places = [place for place in places_with(opened, new) if place.target not in failed or place.target in back]
    return [place for place in places if place.target not in replace]


def _look_again(opened: Opened, run: str, result: RepairResult) -> bool:
    """Its state afterwards. Where something could not be put, its digests are checked: a bad one may have its size.

    False: it was deleted meanwhile, or removed, and so there is nothing to repair, nor any failure to tell of.
    """
    with protocol_errors():
        history = opened.group.history(run)
    there = [*history.checkpoints, *(recoverable(history) if result.deleted else ())]
    checkpoint = next((c for c in there if key_of(c) == result.key), None)
    if checkpoint is None:
        return False
    after = check(opened, history, checkpoint, 1.0 if result.failed else 0.0)
    result.state, result.tolerance = after.state, after.tolerance
    return True
