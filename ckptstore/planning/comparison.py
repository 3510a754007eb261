"""Layouts side by side for one job."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from ckptstore.errors import ConfigError, UsageError
from ckptstore.objectives import Objectives
from ckptstore.placement import Survives
from ckptstore.planning.cost import restore_cost, save_cost, storage_cost
from ckptstore.planning.durability import Rates, loss_probability
from ckptstore.planning.fleet import FAILURES_PER_NODE_DAY, best_interval, goodput, mttf_hours
from ckptstore.planning.judging import Verdict, judge
from ckptstore.planning.layout import Layout
from ckptstore.prices import LIST_PRICES, Bill, Prices

SECONDS_A_MONTH = 30 * 86400.0
LEAST, MOST = 1e-9, 1e24  # of any quantity: what is reckoned of them stays a number

__all__ = ["Estimate", "Job", "compare"]


@dataclass(frozen=True)
class Job:
    """What is trained, and what storing it is like.

    `state` and `fragment` in bytes, `bandwidth` in bytes a second, of all ranks together to all targets, and
    `read_bandwidth` where reads are not as fast; `stall` of a save and `restart` of the job in seconds; `kept`:
    checkpoints that are kept. `interval`: seconds between saves, the best one where none is given. Raises `UsageError`
    naming the field as `key`.
    """

    gpus: int = 16_384
    state: float = 5e12
    bandwidth: float = 500e9
    read_bandwidth: float | None = None
    stall: float = 2.0
    restart: float = 300.0
    kept: int = 10
    fragment: float = 16 * 2**20
    interval: float | None = None
    failures_per_node_day: float = FAILURES_PER_NODE_DAY
    prices: Prices = field(default_factory=lambda: LIST_PRICES)

    def __post_init__(self) -> None:
        for name in ("gpus", "state", "bandwidth", "stall", "kept", "fragment", "interval", "read_bandwidth"):
            value = getattr(self, name)
            if value is not None and not LEAST <= value <= MOST:
                raise UsageError(f"{name} = {value!s:.40}: a number above 0, {MOST:g} at most, is wanted", key=name)
        if not 0 <= self.restart <= MOST:
            raise UsageError(f"restart = {self.restart!s:.40}: seconds, 0 or more, are wanted", key="restart")

    @property
    def mttf(self) -> float:
        """Mean seconds between interruptions."""
        return mttf_hours(self.gpus, self.failures_per_node_day) * 3600

    @property
    def restore(self) -> float:
        """Seconds until the state is read."""
        return self.state / (self.read_bandwidth or self.bandwidth)


@dataclass(frozen=True)
class Estimate:
    """One layout. `loss` and `loss_independent`: probabilities within a year, with and without losses of domains.

    Times in seconds, `goodput` the share of time that is training, costs in dollars a month. `interval`: between saves;
    `best` would be the one of the highest goodput, were there no rpo. `age`: of the newest checkpoint, at its oldest.
    `verdicts`: each objective, beside this.
    """

    layout: Layout
    survives: Survives
    loss: float
    loss_independent: float
    save: float
    restore: float
    interval: float
    best: float
    age: float
    goodput: float
    storage: float
    saving: float
    restoring: float
    verdicts: Sequence[Verdict] = ()

    @property
    def monthly(self) -> float:
        """All costs of a month."""
        return self.storage + self.saving + self.restoring

    @property
    def missed(self) -> list[Verdict]:
        """The objectives that don't hold."""
        return [verdict for verdict in self.verdicts if not verdict.met]


def compare(layouts: Sequence[Layout], job: Job, rates: Rates, objectives: Objectives | None = None) -> list[Estimate]:
    """What each layout is worth for the job, and which objectives it meets. The same numbers give the same answer.

    Raises `ConfigError`, with the fields as `missing`, where a price is needed that `job.prices` doesn't have.
    """
    return [_estimate(layout, job, rates, objectives or Objectives()) for layout in layouts]


def _estimate(layout: Layout, job: Job, rates: Rates, objectives: Objectives) -> Estimate:
    save = job.state * layout.overhead / job.bandwidth
    best = best_interval(stall=job.stall, mttf=job.mttf, least=save)
    interval = _interval(best, save, job, objectives.rpo_seconds)
    storage, saving, restoring = _costs(layout, job, saves=SECONDS_A_MONTH / (interval + job.stall))
    age = interval + job.stall + save
    return Estimate(
        layout=layout,
        survives=layout.survives,
        loss=loss_probability(layout, rates),
        loss_independent=loss_probability(layout, rates.independent()),
        save=save,
        restore=job.restore,
        interval=interval,
        best=best,
        age=age,
        goodput=goodput(interval, stall=job.stall, lag=save, restart=job.restart + job.restore, mttf=job.mttf),
        storage=storage,
        saving=saving,
        restoring=restoring,
        verdicts=judge(objectives, age=age, restore=job.restore, survives=layout.survives),
    )


def _interval(best: float, save: float, job: Job, rpo: float | None) -> float:
    """The one given, else the best that keeps to the rpo. A save must have ended before the next one begins."""
    longest = best if rpo is None else min(best, rpo - job.stall - save)
    return max(job.interval or longest, save)


def _costs(layout: Layout, job: Job, *, saves: float) -> tuple[float, float, float]:
    """Of a month: what is stored, `saves` saves, and a restore for each interruption."""
    storage = storage_cost(layout, job.prices, job.state, job.kept)
    saving = save_cost(layout, job.prices, job.state, job.fragment)
    restoring = restore_cost(layout, job.prices, job.state, job.fragment)
    _check_known(layout, storage, saving, restoring)
    return storage.known, saves * saving.known, SECONDS_A_MONTH / job.mttf * restoring.known


def _check_known(layout: Layout, *bills: Bill) -> None:
    missing = sorted(set().union(*(bill.missing for bill in bills)))
    if missing:
        message = f"prices missing: {', '.join(missing)}; without, the cost of {layout.name} can't be told"
        say = f"{missing[0]} = 0.02, say, below [prices] in store.toml, or ckpt plan --price {missing[0]}=0.02"
        hint = f"{say}; 0 for what is free"
        raise ConfigError(message, key=f"prices.{missing[0]}", missing=missing, hint=hint)
