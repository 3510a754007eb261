"""Layouts side by side for one job."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from ckptstore.errors import UsageError
from ckptstore.placement import Survives
from ckptstore.planning.cost import Prices, restore_cost, save_cost, storage_cost
from ckptstore.planning.durability import Rates, loss_probability
from ckptstore.planning.fleet import FAILURES_PER_NODE_DAY, best_interval, goodput, mttf_hours
from ckptstore.planning.layout import Layout

SECONDS_A_MONTH = 30 * 86400.0

__all__ = ["Estimate", "Job", "compare"]


@dataclass(frozen=True)
class Job:
    """What is trained, and what storing it is like.

    `state` and `fragment` in bytes, `bandwidth` in bytes a second, of all ranks together to all targets; `stall` of a
    save and `restart` of the job in seconds; `kept`: checkpoints that are kept. `interval`: seconds between saves, the
    best one where none is given.
    """

    gpus: int = 16_384
    state: float = 5e12
    bandwidth: float = 500e9
    stall: float = 2.0
    restart: float = 300.0
    kept: int = 10
    fragment: float = 16 * 2**20
    interval: float | None = None
    failures_per_node_day: float = FAILURES_PER_NODE_DAY
    prices: Prices = field(default_factory=Prices)

    def __post_init__(self) -> None:
        for name in ("gpus", "state", "bandwidth", "stall", "kept", "fragment"):
            if not getattr(self, name) > 0:
                raise UsageError(f"{name} = {getattr(self, name)}: a number above 0 is wanted")
        if not self.restart >= 0 or not (self.interval is None or self.interval > 0):
            raise UsageError("restart and interval are seconds, 0 or more")


@dataclass(frozen=True)
class Estimate:
    """One layout. `loss` and `loss_independent`: probabilities within a year, with and without losses of domains.

    Times in seconds, `goodput` the share of time that is training, costs in dollars a month.
    """

    layout: Layout
    survives: Survives
    loss: float
    loss_independent: float
    save: float
    restore: float
    interval: float
    goodput: float
    storage: float
    saving: float
    restoring: float

    @property
    def monthly(self) -> float:
        """All costs of a month."""
        return self.storage + self.saving + self.restoring


def compare(layouts: Sequence[Layout], job: Job, rates: Rates) -> list[Estimate]:
    """What each layout is worth for the job. Pure: the same numbers give the same answer."""
    return [_estimate(layout, job, rates) for layout in layouts]


def _estimate(layout: Layout, job: Job, rates: Rates) -> Estimate:
    mttf = mttf_hours(job.gpus, job.failures_per_node_day) * 3600
    save = job.state * layout.overhead / job.bandwidth
    restore = job.state / job.bandwidth
    interval = job.interval or best_interval(stall=job.stall, mttf=mttf, least=save)
    saves, restores = SECONDS_A_MONTH / (interval + job.stall), SECONDS_A_MONTH / mttf
    return Estimate(
        layout=layout,
        survives=layout.survives,
        loss=loss_probability(layout, rates),
        loss_independent=loss_probability(layout, rates.independent()),
        save=save,
        restore=restore,
        interval=interval,
        goodput=goodput(interval, stall=job.stall, lag=save, restart=job.restart + restore, mttf=mttf),
        storage=storage_cost(layout, job.prices, job.state, job.kept),
        saving=saves * save_cost(layout, job.prices, job.state, job.fragment),
        restoring=restores * restore_cost(layout, job.prices, job.state, job.fragment),
    )
