"""Two tiers: often to memory or NVMe of the job's own nodes, now and then to a store that outlives the job.

An interruption is recovered from the near tier unless it took more of it than that survives; then from the far one. To
the first order, as in N. H. Vaidya, "A case for two-level distributed recovery schemes", SIGMETRICS 1995, and A. Moody
et al., "Design, modeling, and evaluation of a scalable multi-level checkpointing system", SC10: docs/durability.md.
"""

import math
from dataclasses import dataclass

from ckptstore.errors import UsageError
from ckptstore.placement import Survives
from ckptstore.planning.comparison import Estimate, Job
from ckptstore.planning.durability import HOURS_A_YEAR, Rates, loss_probability
from ckptstore.planning.fleet import GPUS_PER_NODE, best_interval
from ckptstore.planning.layout import Layout

__all__ = ["Near", "Tiers", "beyond_near", "with_near"]


@dataclass(frozen=True)
class Near:
    """The near tier: a code over nodes of the job, whose fragments are kept n nodes a group.

    `bandwidth` in bytes a second, of all ranks together; `interval`: seconds between its saves, the best one where none
    is given. `beyond`: the share of interruptions that take more of it than it survives; where it isn't known, by the
    exact chain, nodes failing one by one. Raises `UsageError` naming the field as `key`.
    """

    layout: Layout
    bandwidth: float
    interval: float | None = None
    beyond: float | None = None

    def __post_init__(self) -> None:
        for name in ("bandwidth", "interval"):
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                raise UsageError(f"{name} = {value}: a number above 0 is wanted", key=f"near.{name}")
        if self.beyond is not None and not 0 <= self.beyond <= 1:
            raise UsageError(f"beyond = {self.beyond}: a share is wanted, 0 to 1", key="near.beyond")


@dataclass(frozen=True)
class Tiers:
    """A near tier before a far one. Times in seconds; `lost`, `restore` and `goodput` are means over interruptions.

    `survives`: nodes that may be lost at once. `beyond`: the share of interruptions that need the far tier.
    `lost_near`, `lost_far`: training that is done again after a restore from that tier. `held`: bytes on each node; no
    price is reckoned for them. `monthly`: dollars for the far tier, which is restored from as often as it is needed.
    """

    near: str
    survives: Survives
    beyond: float
    interval: float
    save: float
    restore_near: float
    restore_far: float
    lost_near: float
    lost_far: float
    lost: float
    restore: float
    goodput: float
    held: float
    monthly: float


def with_near(near: Near, job: Job, far: Estimate) -> Tiers:
    """The near tier before a layout that was estimated for the same job."""
    near_save = job.state * near.layout.overhead / near.bandwidth
    wanted = near.interval or best_interval(stall=job.stall, mttf=job.mttf)
    near_interval = max(wanted, near_save)
    beyond = beyond_near(near.layout, job, near_interval) if near.beyond is None else near.beyond
    lost_near, lost_far = _lost(near_interval, near_save, job), _lost(far.interval, far.save, job)
    restore_near = job.state / near.bandwidth
    lost = (1 - beyond) * lost_near + beyond * lost_far
    restore = (1 - beyond) * restore_near + beyond * far.restore
    stalled = job.stall / near_interval + job.stall / far.interval
    return Tiers(
        near=near.layout.name,
        survives=near.layout.survives,
        beyond=beyond,
        interval=near_interval,
        save=near_save,
        restore_near=restore_near,
        restore_far=far.restore,
        lost_near=lost_near,
        lost_far=lost_far,
        lost=lost,
        restore=restore,
        goodput=max(0.0, 1 - (lost + job.restart + restore) / job.mttf) / (1 + stalled),
        held=job.state * near.layout.overhead / _nodes(job),
        monthly=far.storage + far.saving + beyond * far.restoring,
    )


def beyond_near(layout: Layout, job: Job, interval: float) -> float:
    """The share of interruptions that take more nodes of one group than the code survives, nodes failing one by one.

    A node that was lost is whole again with the next save after the restart. All groups' losses a year, by the chain,
    over all interruptions a year.
    """
    rates = Rates(job.failures_per_node_day * 365, 0.0, (job.restart + interval) / 3600)
    within_a_year = loss_probability(layout, rates)
    if within_a_year >= 1.0:
        return 1.0
    losses = -math.log1p(-within_a_year) * _nodes(job) / layout.n
    interruptions = HOURS_A_YEAR * 3600 / job.mttf
    return min(losses / interruptions, 1.0)


def _lost(interval: float, save: float, job: Job) -> float:
    """Training since the newest save that is there began, on average, when an interruption comes."""
    return (interval + job.stall) / 2 + save


def _nodes(job: Job) -> int:
    return math.ceil(job.gpus / GPUS_PER_NODE)
