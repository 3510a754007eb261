"""What is paid: storage by the month, requests, and what leaves a region. Prices are settings, not quotes."""

import math
from dataclasses import dataclass

from ckptstore.planning.layout import Layout

GB = 1e9

__all__ = ["Prices", "fragments_of", "restore_cost", "save_cost", "storage_cost"]


@dataclass(frozen=True)
class Prices:
    """In dollars: a GB stored for a month, a thousand PUTs, a thousand GETs, a GB read or written across regions.

    A domain is taken for a region, and the job for one that is in the first of them.
    """

    storage: float = 0.023
    puts: float = 0.005
    gets: float = 0.0004
    transfer: float = 0.02


def fragments_of(layout: Layout, state: float, fragment: float) -> int:
    """Objects of one checkpoint: every fragment of every stripe."""
    return math.ceil(state / (layout.k * fragment)) * layout.n


def storage_cost(layout: Layout, prices: Prices, state: float, kept: int) -> float:
    """A month of `kept` checkpoints of `state` bytes."""
    return kept * state * layout.overhead / GB * prices.storage


def save_cost(layout: Layout, prices: Prices, state: float, fragment: float) -> float:
    """One save: its PUTs, and what of it goes to other regions."""
    sent = state * layout.overhead * _remote(layout) / GB
    return fragments_of(layout, state, fragment) / 1000 * prices.puts + sent * prices.transfer


def restore_cost(layout: Layout, prices: Prices, state: float, fragment: float) -> float:
    """One restore: k of n fragments are read, those nearby first."""
    near = layout.n * (1 - _remote(layout))
    share = max(layout.k - near, 0.0) / layout.k
    gets = fragments_of(layout, state, fragment) * layout.k / layout.n
    return gets / 1000 * prices.gets + state * share / GB * prices.transfer


def _remote(layout: Layout) -> float:
    """The share of fragments that are in other regions than the job."""
    return 1 - layout.domains[0] / layout.n
