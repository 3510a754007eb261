"""The probability that a checkpoint is lost, by an exact continuous-time Markov chain.

A state says how many targets of each domain are lost at the moment; domains of one size are alike, so they are kept
in order and few states are left: 12 for 8+4 over four domains. Targets are lost one by one, domains as a whole; each
lost target is back after a time of its own. Once more than m targets are lost together, the checkpoint is lost.

The chain is solved by uniformisation (Jensen 1953; Grassmann 1977): over a step h so short that few events happen in
it, exp(Qh) is a Poisson mixture of powers of a matrix without negative entries; the step is then doubled until it is
the whole time. Nothing is ever subtracted, so a probability of 1e-20 is as exact in its digits as one of 0.1.
"""

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ckptstore.errors import UsageError
from ckptstore.planning.layout import Layout

HOURS_A_YEAR = 8760.0
MOST_STATES = 600  # the matrix of so many is multiplied a hundred times: a second or two
MOST_A_YEAR = 1e6  # losses, of a target that lives for half a minute

LOST = -1
"""The last state of the chain."""

State = tuple[tuple[int, int], ...]
"""Of each domain, in order: its targets, and how many of them are lost."""

__all__ = ["HOURS_A_YEAR", "Rates", "State", "events", "is_lost", "loss_probability", "start"]


@dataclass(frozen=True)
class Rates:
    """How targets are lost and come back. Losses are of data, for good; an outage that ends loses nothing.

    `target_loss`: losses of one target a year. `domain_loss`: losses of all of a domain at once, a year.
    `rebuild_hours`: the mean time until a loss has been noticed and its fragments are rebuilt elsewhere.
    """

    target_loss: float = 0.0157
    domain_loss: float = 0.001
    rebuild_hours: float = 36.0

    def __post_init__(self) -> None:
        for name in ("target_loss", "domain_loss"):
            if not 0.0 <= getattr(self, name) <= MOST_A_YEAR:
                message = f"{name} = {getattr(self, name)}: a rate a year is wanted, from 0 to {MOST_A_YEAR:,.0f}"
                raise UsageError(message, key=name)
        if not 0.0 < self.rebuild_hours < math.inf:
            raise UsageError(f"rebuild_hours = {self.rebuild_hours}: hours are wanted, more than 0")

    def independent(self) -> "Rates":
        """The same without losses of whole domains."""
        return Rates(self.target_loss, 0.0, self.rebuild_hours)


def loss_probability(layout: Layout, rates: Rates, years: float = 1.0) -> float:
    """The probability that a checkpoint is lost within `years` of being saved whole."""
    generator = _generator(layout, rates)
    return min(float(_exponential(generator, years)[0, LOST]), 1.0)


def start(layout: Layout) -> State:
    """Nothing lost."""
    return tuple(sorted((count, 0) for count in layout.domains))


def is_lost(layout: Layout, state: State) -> bool:
    """Whether fewer than k fragments are left."""
    return sum(lost for _, lost in state) > layout.m


def events(state: State, rates: Rates) -> Iterator[tuple[float, State]]:
    """Each thing that can happen next: its rate a year, and the state after it. To domains that are alike, once."""
    rebuild = HOURS_A_YEAR / rates.rebuild_hours
    for (count, lost), alike in Counter(state).items():
        i = state.index((count, lost))
        for rate, after in (
            ((count - lost) * rates.target_loss, lost + 1),
            (lost * rebuild, lost - 1),
            (rates.domain_loss if lost < count else 0.0, count),
        ):
            if rate:
                yield rate * alike, tuple(sorted((*state[:i], (count, after), *state[i + 1 :])))


def _generator(layout: Layout, rates: Rates) -> NDArray[Any]:
    """Rates from state to state; the first is the start, the last one is the loss. Without the diagonal."""
    numbers = {start(layout): 0}
    found: list[tuple[int, int, float]] = []
    waiting = list(numbers)
    while waiting:
        state = waiting.pop()
        for rate, after in events(state, rates):
            if after not in numbers and not is_lost(layout, after):
                numbers[after] = len(numbers)
                waiting.append(after)
            found.append((numbers[state], numbers.get(after, LOST), rate))
        if len(numbers) > MOST_STATES:
            message = f"{layout.name}: more than {MOST_STATES} different states of loss, too many to reckon with"
            raise UsageError(message, hint="plan with less parity, with fewer domains, or with domains of one size")
    generator = np.zeros((len(numbers) + 1, len(numbers) + 1))
    for source, destination, rate in found:
        generator[source, destination] += rate
    return generator


def _exponential(rates: NDArray[Any], years: float) -> NDArray[Any]:
    """exp(Q t) of the generator with these rates off its diagonal."""
    leaving = rates.sum(axis=1)
    fastest = max(float(leaving.max()), 1e-300)
    jump = rates / fastest + np.diag(1.0 - leaving / fastest)
    doublings = max(0, math.ceil(math.log2(max(fastest * years, 1e-300))) + 1)
    mean = fastest * years / 2**doublings  # events in the step: at most a half
    term = np.eye(len(rates)) * math.exp(-mean)
    total = term.copy()
    for count in range(1, len(rates) + 40):  # each loss takes at most as many events as there are states
        term = term @ jump * (mean / count)
        total += term
        if (term <= total * 1e-17).all() and (total > 0)[:LOST].all():  # what is to come moves no digit
            break
    for _ in range(doublings):
        total = total @ total
    return total
