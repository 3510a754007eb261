"""The same losses by chance: many checkpoints side by side, event after event. It checks the chain."""

from dataclasses import dataclass

import numpy as np

from ckptstore.errors import UsageError
from ckptstore.planning.durability import Rates, State, events, is_lost, start
from ckptstore.planning.layout import Layout

AT_ONCE = 1 << 20
"""Checkpoints that are followed at once: a dozen MB."""

__all__ = ["Simulated", "simulate_losses"]


@dataclass(frozen=True)
class Simulated:
    """What came of `trials`: the share of checkpoints lost, and the standard error of that."""

    probability: float
    error: float
    trials: int


def simulate_losses(
    layout: Layout, rates: Rates, *, years: float = 1.0, trials: int = 200_000, seed: int = 0
) -> Simulated:
    """Follow `trials` checkpoints for `years`. The same seed gives the same answer. Raises `UsageError`."""
    for name, value, least in (("trials", trials, 1), ("seed", seed, 0)):
        if value < least:
            raise UsageError(f"{name} = {value}: a whole number, {least} or more, is wanted", key=name)
    random = np.random.default_rng(seed)
    lost = 0
    for first in range(0, trials, AT_ONCE):
        lost += _Followed(layout, rates, years, random).losses(min(AT_ONCE, trials - first))
    share = lost / trials
    return Simulated(share, float(np.sqrt(share * (1 - share) / trials)), trials)


class _Followed:
    """Checkpoints that are followed: those in one state are moved on together."""

    def __init__(self, layout: Layout, rates: Rates, years: float, random: np.random.Generator) -> None:
        self.layout, self.rates, self.years, self.random = layout, rates, years, random

    def losses(self, count: int) -> int:
        """How many of `count` are lost in the end."""
        waiting: dict[State, list[np.ndarray]] = {start(self.layout): [np.zeros(count)]}
        lost = 0
        while waiting:
            state, times = waiting.popitem()
            for after, later in self._next(state, np.concatenate(times)):
                if is_lost(self.layout, after):
                    lost += later.size
                else:
                    waiting.setdefault(after, []).append(later)
        return lost

    def _next(self, state: State, times: np.ndarray) -> list[tuple[State, np.ndarray]]:
        """Where those in `state`, there since `times`, go within the years, and when."""
        found = list(events(state, self.rates))
        total = sum(rate for rate, _ in found)
        if not total:
            return []
        later = times + self.random.exponential(1 / total, times.size)
        later = later[later < self.years]
        chosen = self.random.choice(len(found), later.size, p=[rate / total for rate, _ in found])
        parts = [(after, later[chosen == i]) for i, (_, after) in enumerate(found)]
        return [(after, part) for after, part in parts if part.size]
