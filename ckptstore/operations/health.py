"""What verify says: of each checkpoint, and of the manifests, marks and notes of its run."""

from dataclasses import dataclass, field
from typing import ClassVar

from ckptstore.operations.findings import Counts, Finding
from ckptstore.operations.survey import ShardSurvey
from ckptstore.placement import Survives
from ckptstore.selection import Selector, select_all
from manifests import Checkpoint, History, Index, Problem, Reference, ShardRecord, paths

VOTES = {
    paths.MANIFESTS: "manifest",
    paths.MARKS: "mark",
    paths.BEGUN: "begun",
    paths.SESSIONS: "session",
    paths.VOIDING: "voiding",
}

WORSE = (0, 11, 3, 1, 2, 10, 5, 12, 4)
"""Exit codes of runs, the worst last: what is lost, then what can't be told."""

__all__ = [
    "WORSE",
    "CheckpointHealth",
    "Superseded",
    "VerifyReport",
    "beside",
    "recoverable",
    "strangers",
    "to_check",
    "told",
    "unreadable",
]


@dataclass(frozen=True)
class Superseded:
    """A document of an older version, and the targets whose copy is missing or damaged, and why."""

    kind: type[Index | ShardRecord]
    reference: Reference
    bad: dict[str, str]


@dataclass
class CheckpointHealth:
    """One checkpoint.

    `state`: "good", "degraded" (loadable), "unknown" (what is out of reach decides), "lost", or "changed": it was
    deleted while it was being looked at, so what was found of it says nothing. `earlier`: it was found so by an earlier
    part of this pass.
    """

    run: str
    key: str
    name: str
    step: int | None
    state: str = "good"
    tolerance: Survives = Survives(0, 0)
    counts: Counts = field(default_factory=Counts)
    findings: list[Finding] = field(default_factory=list)
    shards: list[ShardSurvey] = field(default_factory=list)
    bad_indexes: dict[str, str] = field(default_factory=dict)
    superseded: list[Superseded] = field(default_factory=list)
    earlier: bool = False


@dataclass
class VerifyReport:
    """Every checkpoint looked at; `history`: what is amiss with the votes of the run beside them.

    `deleted`: those that an undelete would bring back, where all of a run was checked. `exit_code` is the worst of all,
    but none of the deleted counts for more than degraded: nothing that loads is lost with it. `strange`: what stands
    among the votes and is none: it does no harm, and nobody but a newer release or a file system puts it there.
    """

    checkpoints: list[CheckpointHealth]
    history: list[Finding] = field(default_factory=list)
    deleted: list[CheckpointHealth] = field(default_factory=list)
    strange: list[Finding] = field(default_factory=list)

    CODES: ClassVar[dict[str, int]] = {"changed": 11, "good": 0, "degraded": 3, "unknown": 5, "lost": 4}
    """The exit code of each state, from good to bad; what is "changed" says least."""

    @property
    def state(self) -> str:
        """The worst of all, as `exit_code` counts them."""
        states = [health.state for health in self.checkpoints] + ["degraded"] * self.amiss_beside
        return max(states, key=list(self.CODES).index, default="good")

    @property
    def exit_code(self) -> int:
        """0 good, 3 degraded, 5 unknown, 4 lost; 11 where all that was to be checked was deleted meanwhile."""
        return self.CODES[self.state]

    @property
    def findings(self) -> list[Finding]:
        """All of them, of live and deleted checkpoints and beside them."""
        each = [finding for health in [*self.checkpoints, *self.deleted] for finding in health.findings]
        return each + self.history

    @property
    def amiss_beside(self) -> bool:
        """Whether anything is amiss beside the live checkpoints."""
        return bool(self.history) or any(health.state != "good" for health in self.deleted)

    @property
    def counts(self) -> Counts:
        """Objects expected and checked, over all."""
        each = [health.counts for health in [*self.checkpoints, *self.deleted]]
        return Counts(sum(c.expected for c in each), sum(c.checked for c in each))


def to_check(history: History, selector: Selector | None) -> list[Checkpoint]:
    """The live checkpoints asked for. None, where all are and there are only deleted ones, or such as can't be read.

    Raises `NotFoundError` where there is nothing at all.
    """
    if selector is None and not history.checkpoints and (unreadable(history) or recoverable(history)):
        return []
    return select_all(history, selector)


def recoverable(history: History) -> list[Checkpoint]:
    """The deleted checkpoints that an undelete would bring back: all of which nothing is being removed yet."""
    return [checkpoint for checkpoint in history.deleted if set(checkpoint.collecting).isdisjoint(checkpoint.deletes)]


def unreadable(history: History) -> list[CheckpointHealth]:
    """Saves of which not one copy of the manifest can be read: lost, or, written by a newer release, unknown."""
    found = []
    for problem in history.problems:
        if problem.save is not None and _is_unreadable(history, problem):
            key = paths.save_name(*problem.save)
            health = CheckpointHealth(history.run, key, key, None, tolerance=Survives(-1, -1))
            health.state = "unknown" if problem.newer else "lost"
            health.findings = told(problem)
            found.append(health)
    return found


def _is_unreadable(history: History, problem: Problem) -> bool:
    return problem.fatal and problem.save is not None and history.find(*problem.save) is None


def beside(history: History) -> list[Finding]:
    """What is amiss with sessions, deleted checkpoints and saves that have begun: it belongs to no live checkpoint."""
    live = {checkpoint.key for checkpoint in history.checkpoints}
    found: list[Finding] = []
    for problem in history.problems:
        if problem.save not in live and problem.kind != "strange" and not _is_unreadable(history, problem):
            found += told(problem)
    return found


def strangers(history: History) -> list[Finding]:
    """What stands among the votes under names that none has."""
    return [finding for problem in history.problems if problem.kind == "strange" for finding in told(problem)]


def told(problem: Problem) -> list[Finding]:
    """What is wrong with copies of a manifest, a mark or a note of the protocol, target by target."""
    damaged = "unreachable" if problem.newer else "corrupt"
    kind = damaged if problem.kind == "damaged" else problem.kind
    what = VOTES.get(paths.folder_of(problem.name), "manifest")
    return [Finding(kind, what, target, problem.name, problem.message) for target in problem.targets]
