"""What a repair did, or would do: to one checkpoint, and to all."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from ckptstore.operations.health import VerifyReport
from ckptstore.operations.obstacles import Obstacle
from ckptstore.operations.traffic import Traffic
from ckptstore.placement import Survives

__all__ = ["RepairReport", "RepairResult"]


@dataclass
class RepairResult:
    """What was done (or, in a dry run, would be) to one checkpoint, and how it stands after.

    `deleted`: an undelete would bring it back. In a dry run `traffic` is what mending takes of each target, `checking`
    the check of every byte that comes first; listings, and new records and indexes, come on top.
    """

    run: str
    key: str
    name: str
    rebuilt: int = 0
    moved: int = 0
    restored: int = 0
    bytes: int = 0
    failed: list[str] = field(default_factory=list)
    state: str = "good"
    tolerance: Survives = Survives(0, 0)
    deleted: bool = False
    traffic: Traffic = field(default_factory=Traffic)
    checking: Traffic = field(default_factory=Traffic)

    @property
    def idle(self) -> bool:
        """Whether there was nothing to do, and nothing failed."""
        return not (self.rebuilt or self.moved or self.restored or self.failed)


@dataclass
class RepairReport:
    """All checkpoints; `votes`: copies of manifests and marks put back; `readmitted`: targets that count again.

    In a dry run: that would be.
    `replaced`: targets that another has taken the place of, that hold nothing of any run, and that store.toml names all
    the same. `still_on`: those that hold checkpoints still, and of which runs. `voting`: those that are commit targets
    still, because what took their fragments is one itself. `in_the_way`: what people must remove.

    Where the work is done in parts, none knows what is left on a target: `replaced` and `still_on` are empty.
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
    def traffic(self) -> Traffic:
        """In a dry run, what mending takes of each target."""
        return _sum(result.traffic for result in self.checkpoints)

    @property
    def checking(self) -> Traffic:
        """In a dry run, what the check before it takes of each target."""
        return _sum(result.checking for result in self.checkpoints)

    @property
    def reads(self) -> Counter[str]:
        """In a dry run, the bytes to read from each target."""
        return self.traffic.reads

    @property
    def writes(self) -> Counter[str]:
        """In a dry run, the bytes to write to each target."""
        return self.traffic.writes

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


def _sum(parts: Iterable[Traffic]) -> Traffic:
    found = Traffic()
    for part in parts:
        found.add(part)
    return found


def _counted(result: RepairResult) -> str:
    """The state that the exit code tells: nothing that loads is lost with what is deleted."""
    return "degraded" if result.deleted and result.state != "good" else result.state
