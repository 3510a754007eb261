"""What a report says: of each checkpoint on each target, of each run, of costs and of drills."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ckptstore.operations.drill import DrillReport
from ckptstore.operations.findings import Finding
from ckptstore.operations.health import WORSE
from ckptstore.placement import Survives
from ckptstore.prices import GB

FORMAT = 1
"""Of the JSON of a report; fields may be added without a new number."""

STATES = ("good", "retired", "unreachable", "missing", "corrupt", "unknown", "nothing")
"""Of a cell: one checkpoint on one target. "nothing": it has nothing there, and is to have nothing. "unknown": what it
has there can't be told, for no copy of a record that would say so can be read."""

__all__ = ["FORMAT", "STATES", "Cell", "Costs", "Drills", "Row", "RunPart", "Step", "StoreReport"]


@dataclass(frozen=True)
class Cell:
    """One checkpoint on one target: its state, what it has there, and what is amiss with that, in words."""

    target: str
    state: str
    holds: str
    amiss: str = ""


@dataclass(frozen=True)
class Row:
    """One checkpoint. `bytes` of the saved state; `stored` on all targets, as its records say, `stored_on` each.

    `stored` is None, and `stored_on` empty, where a record is unreadable, and `created` is where the manifest is.
    `deleted`: hidden, but an undelete would still bring it back.
    """

    run: str
    key: str
    name: str
    step: int | None
    created: str
    deleted: bool
    state: str
    tolerance: Survives
    bytes: int
    stored: int | None
    stored_on: Mapping[str, int]
    cells: Sequence[Cell]
    findings: Sequence[Finding] = ()

    @property
    def known(self) -> bool:
        """Whether it can be told what it survives."""
        return self.state not in {"unknown", "changed"}


@dataclass(frozen=True)
class Step:
    """Something to do next: the command to type, or in words, and why."""

    do: str
    why: str


@dataclass(frozen=True)
class RunPart:
    """One run. `beside`: what is amiss beside its checkpoints; `error`: why nothing could be looked at."""

    run: str
    code: int
    verdict: str
    next: Sequence[Step]
    rows: Sequence[Row] = ()
    beside: Sequence[Finding] = ()
    error: str = ""

    @property
    def newest_first(self) -> list[Row]:
        """The rows as a page lists them: those that are deleted last."""
        return [*reversed(self.live), *(row for row in reversed(self.rows) if row.deleted)]

    @property
    def live(self) -> list[Row]:
        """The rows of checkpoints that aren't deleted."""
        return [row for row in self.rows if not row.deleted]


@dataclass(frozen=True)
class Costs:
    """In dollars. `price`: of a GB (10^9 bytes) for a month, where all targets have the same; `by_target`: of each.

    `listed`: at list prices, since none are given. `logical` bytes of state in `stored` bytes; `deleted` bytes of those
    wait for a prune. `monthly`: of all that is stored now. `restore`: one of the largest checkpoint, its requests and
    what crosses regions; None where the store has another number of targets than a stripe has fragments. Both are None
    where a price is `missing`: those that nobody gave, by their keys in `[prices]`.
    """

    price: float | None
    by_target: Mapping[str, float | None]
    listed: bool
    logical: int
    stored: int
    deleted: int
    monthly: float | None
    restore: float | None
    missing: Sequence[str] = ()

    @property
    def overhead(self) -> float | None:
        """Bytes stored for each byte of state."""
        return self.stored / self.logical if self.logical else None

    def of_month(self, row: Row) -> float | None:
        """What a month of a checkpoint costs."""
        prices = [(self.by_target.get(name), count) for name, count in row.stored_on.items() if count]
        known = [price * count / GB for price, count in prices if price is not None]
        return sum(known) if len(known) == len(prices) else None


@dataclass(frozen=True)
class Drills:
    """Earlier drills of the runs of a report, oldest first, and which files in `folder` were skipped, and why."""

    folder: str = ""
    found: Sequence[DrillReport] = ()
    skipped: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class StoreReport:
    """A report. `verdict`: all of it in one sentence.

    `targets`: the domain of each; `wanted`: targets and domains that every checkpoint is to survive, by [objectives].

    `rpo` and `age`, in seconds: how old the newest checkpoint that loads may be, and, by run, is.
    """

    store: str
    made: str
    seconds: float
    read_data: bool
    targets: Mapping[str, str]
    wanted: tuple[int | None, int | None]
    beyond_layout: Sequence[str]
    rpo: float | None
    ages: Mapping[str, float]
    runs: Sequence[RunPart]
    costs: Costs
    drills: Drills
    verdict: str = ""

    @property
    def exit_code(self) -> int:
        """The worst of all runs, as `ckpt verify` exits for each."""
        return max((part.code for part in self.runs), key=WORSE.index, default=0)

    @property
    def late(self) -> list[str]:
        """The runs whose newest checkpoint that loads is older than promised."""
        return [run for run, age in self.ages.items() if self.rpo is not None and age > self.rpo]

    def misses(self, row: Row) -> bool:
        """Whether a checkpoint survives less than is promised."""
        pairs = zip(row.tolerance, self.wanted, strict=True)
        return row.known and any(wanted is not None and reached < wanted for reached, wanted in pairs)
