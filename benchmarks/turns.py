"""Runs of several contenders that take turns: wall time and CPU of each, over all ranks.

In each round every contender runs once, in an order drawn anew, so that what the machine does meanwhile hits all alike.
The first round isn't counted: it warms caches, pools and connections. Figures are medians.
"""

import gc
import random
import resource
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch.distributed as dist

ROUNDS = 5


def nothing() -> None:
    """Nothing to put in order."""


@dataclass(frozen=True)
class Contender:
    """`run` is timed; `before` each run and `after` it rank 0 puts things in order, untimed."""

    run: Callable[[], object]
    before: Callable[[], object] = nothing
    after: Callable[[], object] = nothing


@dataclass
class Figures:
    """Seconds of every counted run: `wall` until the last rank was through, `cpu` of all ranks (user + system)."""

    walls: list[float] = field(default_factory=list)
    cpus: list[float] = field(default_factory=list)

    @property
    def wall(self) -> float:
        """The median."""
        return statistics.median(self.walls)

    @property
    def cpu(self) -> float:
        """The median."""
        return statistics.median(self.cpus)


def take_turns(contenders: Mapping[str, Contender], rounds: int = ROUNDS) -> dict[str, Figures]:
    """Every rank calls it with contenders of the same names."""
    figures = {name: Figures() for name in contenders}
    order = random.Random(rounds)
    for number in range(rounds + 1):
        for name in order.sample(list(contenders), len(contenders)):
            wall, cpu = _turn(contenders[name])
            if number:
                figures[name].walls.append(wall)
                figures[name].cpus.append(cpu)
    return figures


def _turn(contender: Contender) -> tuple[float, float]:
    if own_rank() == 0:
        contender.before()
    gc.collect()
    _barrier()
    begun, used = time.perf_counter(), _cpu_seconds()
    contender.run()
    seconds = time.perf_counter() - begun, _cpu_seconds() - used
    ranks = _gathered(seconds)
    if own_rank() == 0:
        contender.after()
    return max(wall for wall, _ in ranks), sum(cpu for _, cpu in ranks)


def _cpu_seconds() -> float:
    """Of this process, and of children that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def own_rank() -> int:
    """This process's among those that take turns."""
    return dist.get_rank() if dist.is_initialized() else 0


def _barrier() -> None:
    if dist.is_initialized():
        dist.barrier()


def _gathered(mine: tuple[float, float]) -> list[tuple[float, float]]:
    if not dist.is_initialized():
        return [mine]
    everyone: list[tuple[float, float]] = [(0.0, 0.0)] * dist.get_world_size()
    dist.all_gather_object(everyone, mine)
    return everyone
