"""What is stored, and what it costs by the month."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence

from ckptstore.arguments import is_number
from ckptstore.config import Config
from ckptstore.errors import UsageError
from ckptstore.operations.report.content import Costs, Row
from ckptstore.planning.cost import restore_cost
from ckptstore.planning.layout import Layout
from ckptstore.prices import GB, Bill, Prices, Tariff

__all__ = ["costs_of", "prices_with"]


def prices_with(prices: Prices, storage: float | None) -> Prices:
    """Prices with another one for what is stored; the list's where there are none. Raises `UsageError` for no price."""
    if storage is None:
        return prices.or_list()
    if not (is_number(storage) and math.isfinite(storage) and storage >= 0):
        message = f"price = {storage!r:.80}: dollars for a GB and month, 0 or more, are wanted"
        raise UsageError(message, hint="without, [prices] of store.toml says it, else 0.023", key="price")
    return prices.storing_at(float(storage))


def costs_of(config: Config, rows: Sequence[Row], prices: Prices) -> Costs:
    """Of all rows whose records are known. What can't be read of isn't counted."""
    known = [(row, row.stored) for row in rows if row.stored is not None]
    stored_on = sum((Counter(row.stored_on) for row, _ in known), Counter[str]())
    tariffs = _tariffs(config, prices, stored_on)
    monthly, restore = Bill(), _restore(config, prices, max((row.bytes for row, _ in known), default=0))
    for name, count in stored_on.items():
        monthly.add(tariffs[name], storage=count / GB)
    each = {tariff.storage for tariff in tariffs.values()}
    return Costs(
        price=next(iter(each)) if len(each) == 1 else None,
        by_target={name: tariff.storage for name, tariff in tariffs.items()},
        listed=not config.prices.are_given,
        logical=sum(row.bytes for row, _ in known),
        stored=sum(stored for _, stored in known),
        deleted=sum(stored for row, stored in known if row.deleted),
        monthly=monthly.dollars,
        restore=None if restore is None else restore.dollars,
        missing=sorted(monthly.missing | (restore.missing if restore else set())),
    )


def _tariffs(config: Config, prices: Prices, names: Iterable[str]) -> dict[str, Tariff]:
    """Of the store's targets, and of others that something is on still: of those only what all cost is known."""
    job = config.places[0].domain
    found = {place.target: prices.of(place.target, place.domain, job=job) for place in config.places}
    return {name: prices.of(name, "", job=job) for name in names} | found


def _restore(config: Config, prices: Prices, state: int) -> Bill | None:
    if len(config.places) != config.k + config.m:
        return None
    layout = Layout.of_places(config.name, config.k, config.m, config.places)
    return restore_cost(layout, prices, state, config.fragment_bytes)
