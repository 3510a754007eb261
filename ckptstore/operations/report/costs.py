"""What is stored, and what it costs by the month."""

import math
from collections.abc import Sequence

from ckptstore.arguments import is_number
from ckptstore.config import Config
from ckptstore.errors import UsageError
from ckptstore.operations.report.content import Costs, Row
from ckptstore.planning.cost import Prices, restore_cost
from ckptstore.planning.layout import Layout

CENT = 0.01

__all__ = ["check_price", "costs_of", "dollars"]


def check_price(price: float | None) -> float:
    """Dollars a GB and month; that of `Prices` unless told. Raises `UsageError` for what is no price."""
    if price is None:
        return Prices().storage
    if not (is_number(price) and math.isfinite(price) and price >= 0):
        message = f"price = {price!r:.80}: dollars for a GB and month, 0 or more, are wanted"
        raise UsageError(message, hint="0.023 is what is reckoned with if none is given", key="price")
    return float(price)


def costs_of(config: Config, rows: Sequence[Row], price: float) -> Costs:
    """Of all rows whose records are known. What can't be read of isn't counted."""
    known = [(row, row.stored) for row in rows if row.stored is not None]
    return Costs(
        price=price,
        logical=sum(row.bytes for row, _ in known),
        stored=sum(stored for _, stored in known),
        deleted=sum(stored for row, stored in known if row.deleted),
        restore=_restore(config, max((row.bytes for row, _ in known), default=0)),
    )


def dollars(amount: float) -> str:
    """`$1,234.50`."""
    return f"${amount:,.2f}" if amount >= CENT or not amount else "less than $0.01"


def _restore(config: Config, state: int) -> float | None:
    if len(config.places) != config.k + config.m:
        return None
    layout = Layout.of_places(config.name, config.k, config.m, config.places)
    return restore_cost(layout, Prices(), state, config.fragment_bytes)
