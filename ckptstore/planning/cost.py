"""What is paid: storage by the month, requests, and what leaves a region. Prices are settings, not quotes.

Every target holds 1/k of the state. A restore reads the data fragments, which are k of the n of a stripe and take turns
on all targets, so each target gives 1/n of the state.
"""

import math

from ckptstore.planning.layout import Layout
from ckptstore.prices import GB, Bill, Prices

__all__ = ["fragments_of", "restore_cost", "save_cost", "storage_cost"]


def fragments_of(layout: Layout, state: float, fragment: float) -> int:
    """Objects of one checkpoint: every fragment of every stripe."""
    return _stripes(layout, state, fragment) * layout.n


def storage_cost(layout: Layout, prices: Prices, state: float, kept: int) -> Bill:
    """A month of `kept` checkpoints of `state` bytes."""
    bill = Bill()
    for tariff in layout.tariffs(prices):
        bill.add(tariff, storage=kept * state / layout.k / GB)
    return bill


def save_cost(layout: Layout, prices: Prices, state: float, fragment: float) -> Bill:
    """One save: its PUTs, and what of it goes to other regions."""
    bill, puts = Bill(), _stripes(layout, state, fragment) / 1000
    for tariff in layout.tariffs(prices):
        bill.add(tariff, puts=puts, ingress=state / layout.k / GB)
    return bill


def restore_cost(layout: Layout, prices: Prices, state: float, fragment: float) -> Bill:
    """One restore with nothing lost: its GETs, and what of it comes from other regions."""
    bill, gets = Bill(), _stripes(layout, state, fragment) / 1000 * layout.k / layout.n
    for tariff in layout.tariffs(prices):
        bill.add(tariff, gets=gets, egress=state / layout.n / GB)
    return bill


def _stripes(layout: Layout, state: float, fragment: float) -> int:
    return math.ceil(state / (layout.k * fragment))
