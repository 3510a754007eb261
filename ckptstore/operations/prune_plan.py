"""What a prune will do, decided before anything is touched: of each checkpoint whether it stays, and what has ended."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from fractions import Fraction

from ckptstore.errors import AccessDenied, CkptStoreError, OutOfReach
from ckptstore.opened import Opened
from ckptstore.operations.ages import Ages, vote_ages
from ckptstore.operations.checking import check
from ckptstore.operations.keeping import Choice, choose
from ckptstore.operations.prune_report import PruneReport, Waiting
from ckptstore.operations.soundness import fault_of_latest, outlook, silent_targets
from ckptstore.operations.subsets import ALL, Window, today, turn
from ckptstore.protocolerrors import protocol_errors
from ckptstore.retention import Retention
from ckptstore.selection import history_of, key_of
from manifests import Checkpoint, History, paths
from manifests.paths import SaveKey

LOOKS = 3  # at a run in which another prune is under way

SAMPLE = 64 * 2**20
"""Bytes of what will be the latest that are read before anything is deleted: all of it where it is no larger."""

__all__ = ["Options", "deleted_in", "find_ended", "make_plan", "past_grace", "read_run", "what_blocks"]


@dataclass(frozen=True)
class Options:
    """How to prune; see `prune`."""

    sweep_only: bool = False
    read_data: bool = False
    allow_nothing: bool = False
    strict_tags: bool = True


def make_plan(opened: Opened, report: PruneReport, options: Options) -> None:
    """Fill the report with what is to be done. Raises what keeps anything from being deleted."""
    for look in range(LOOKS):
        history, ages = read_run(opened, report.run)
        fault, doubted = _decide(opened, report, history, ages, options)
        if look == LOOKS - 1 or _stand(opened, report.run, doubted):
            break
    if fault is not None:
        raise fault


def read_run(opened: Opened, run: str) -> tuple[History, Ages]:
    """The run as it stands, and how old its votes are. Raises as `history_of`: what lost its records is no orphan."""
    return history_of(opened, run), vote_ages(opened, run)


def deleted_in(opened: Opened, run: str, rules: Retention) -> list[Waiting]:
    """What is deleted and can be taken back, with 0 seconds left where the next prune may remove it.

    To learn the time an object is put on each commit target and removed; where none takes it, `seconds` is None.
    """
    with protocol_errors():
        history = opened.group.history(run)
    used = _used(history.checkpoints)
    try:
        ages = vote_ages(opened, run)
    except (OutOfReach, AccessDenied):
        return [Waiting(checkpoint, None, checkpoint.key in used) for checkpoint in history.deleted]
    left = [max(rules.grace_seconds - _age(checkpoint, ages), 0.0) for checkpoint in history.deleted]
    return [Waiting(c, seconds, c.key in used) for c, seconds in zip(history.deleted, left, strict=True)]


def _age(checkpoint: Checkpoint, ages: Ages) -> float:
    """For how many seconds it has been deleted: by the mark that was put first, by the clock that says least."""
    names = [paths.mark_name(*checkpoint.key, random) for random in checkpoint.deletes]
    return max((ages.youngest(name) for name in names), default=0.0)


def _choose(report: PruneReport, history: History, ages: Ages, options: Options) -> None:
    """Say of each live checkpoint why it is kept, if it is."""
    if options.sweep_only:
        report.choices = [Choice(checkpoint, ("nothing live is deleted",)) for checkpoint in history.checkpoints]
        return
    committed = {c.key: ages.since_put(paths.manifest_name(*c.key, version=1)) for c in history.checkpoints}
    report.choices = choose(
        history.checkpoints,
        report.rules,
        committed,
        _used(history.checkpoints),
        report.lost,
        allow_nothing=options.allow_nothing,
        strict_tags=options.strict_tags,
    )


def find_ended(report: PruneReport, history: History, ages: Ages) -> None:
    """Say which deleted and given-up saves are past the grace period: where there is none, what is deleted now, too."""
    grace = report.rules.grace_seconds
    used = _used(report.kept)
    just_deleted = {checkpoint.key for checkpoint in report.deleted}
    report.unreadable = {
        key: past for key in history.unreadable if (past := past_grace(key, history.deletes(key), ages, grace))
    }
    report.blocked = what_blocks(history, report.unreadable)
    report.ended, report.waiting = [], []
    about_to_be = [c for c in history.checkpoints if c.key in just_deleted and not grace]
    for checkpoint in sorted((*history.deleted, *about_to_be), key=_begun):
        age = _age(checkpoint, ages)
        if age >= grace and checkpoint.key not in used and not checkpoint.tags and not report.blocked:
            report.ended.append(checkpoint)
        elif checkpoint.key not in just_deleted:
            report.waiting.append(Waiting(checkpoint, max(grace - age, 0.0), checkpoint.key in used))
    report.given_up = [key for key in history.begun if ages.youngest(paths.begun_name(*key)) >= grace]


def past_grace(key: SaveKey, marks: Sequence[str], ages: Ages, grace: float) -> list[str]:
    """Those of the marks on a save that stand for so many seconds."""
    return [mark for mark in marks if ages.youngest(paths.mark_name(*key, mark)) >= grace]


def what_blocks(history: History, past: Collection[SaveKey]) -> list[str]:
    """Why it can't be told what is needed: what can't be read, but for saves deleted `past` their grace period."""
    waiting = [paths.save_name(*key) for key in history.unreadable if history.deletes(key) and key not in past]
    told = [f"save {name} is deleted and can't be read: what it holds waits for its grace period" for name in waiting]
    return [problem.message for problem in history.problems if problem.fatal] + told


def _begun(checkpoint: Checkpoint) -> tuple[tuple[int, str], int]:
    """Sort key: in the order in which saves begin."""
    return paths.split_session(checkpoint.session), checkpoint.ordinal


def _used(checkpoints: Sequence[Checkpoint]) -> set[SaveKey]:
    """The saves whose data these use."""
    return {use for checkpoint in checkpoints for version in checkpoint.versions for use in version.uses}


def _decide(
    opened: Opened, report: PruneReport, history: History, ages: Ages, options: Options
) -> tuple[CkptStoreError | None, list[Checkpoint]]:
    """Choose, and look at what is kept where anything goes. Returns what forbids it, and what is hurt or lost."""
    report.lost, report.notes = set(), []
    _choose(report, history, ages, options)
    find_ended(report, history, ages)
    if not report.kept or not (report.deleted or report.ended):
        return None, []
    fault = _look_at_latest(opened, report, history, options)
    if fault is not None:
        return fault, [report.kept[-1]]
    lost = _look_at_others(opened, report, history, ages, options)
    find_ended(report, history, ages)
    return None, lost


def _look_at_latest(opened: Opened, report: PruneReport, history: History, options: Options) -> CkptStoreError | None:
    latest = report.kept[-1]
    health = check(opened, history, latest, ALL if options.read_data else _sample(latest))
    if silent := silent_targets(health):
        reason = f"{' and '.join(silent)} out of reach, taken to hold what they held"
        report.notes.append(f"{health.name}, the latest to be kept: {reason}")
    return fault_of_latest(opened, latest, health, whole=not options.sweep_only)


def _sample(checkpoint: Checkpoint) -> Window:
    """Which part of its stripes is read where not all are wanted: another one each day."""
    return turn(Fraction(SAMPLE, max(checkpoint.bytes, SAMPLE)), today())


def _look_at_others(
    opened: Opened, report: PruneReport, history: History, ages: Ages, options: Options
) -> list[Checkpoint]:
    """Let the next older one take the place of each that is lost, for as long as there is one; return those lost."""
    seen = {report.kept[-1].key}
    lost: list[Checkpoint] = []
    while unseen := [c for c in report.counting if report.deleted and c.key not in seen]:
        for checkpoint in unseen:
            seen.add(checkpoint.key)
            name, state = checkpoint.manifest.name or key_of(checkpoint), outlook(opened, checkpoint)
            if state == "lost":
                lost.append(checkpoint)
                report.lost.add(checkpoint.key)
                report.notes.append(f"{name} is lost: it is kept and stands for nothing")
            elif state == "unknown":
                report.notes.append(f"{name}: targets out of reach decide whether it loads; taken to do so")
        _choose(report, history, ages, options)
    return lost


def _stand(opened: Opened, run: str, checkpoints: Sequence[Checkpoint]) -> bool:
    """Whether these are live still: what another prune removes meanwhile is neither hurt nor lost."""
    if not checkpoints:
        return True
    with protocol_errors():
        live = {checkpoint.key for checkpoint in opened.group.history(run).checkpoints}
    return live.issuperset(checkpoint.key for checkpoint in checkpoints)
