"""What storing costs, as `[prices]` of store.toml says it: the one place that plan, repair and report reckon from.

A price that is needed and that nobody gave is told by name, and makes the sum unknown: it is never taken for 0.
"""

import math
from dataclasses import dataclass, field

import msgspec

from ckptstore.arguments import check_types, is_number
from ckptstore.errors import ConfigError

GB = 1e9
"""Bytes that a price is for."""

CENT = 0.01

__all__ = ["FIELDS", "GB", "LIST_PRICES", "Bill", "Prices", "Tariff", "check_price", "dollars"]


def check_price(price: object, key: str) -> float:
    """Raise `ConfigError`, naming `key`, for what is no price."""
    if not (is_number(price) and math.isfinite(price) and price >= 0):  # type: ignore[arg-type,operator]
        message = f"{key} = {price!r:.80}: dollars, 0 or more, are wanted"
        raise ConfigError(message, key=key, hint="leave it out where it isn't known; 0 is for what is free")
    return float(price)  # type: ignore[arg-type]


def dollars(amount: float) -> str:
    """`$1,234.50`."""
    return f"${amount:,.2f}" if amount >= CENT or not amount else "less than $0.01"


class Tariff(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """In dollars; None where it isn't known.

    storage  a GB (10^9 bytes) stored for a month
    puts     a thousand PUTs
    gets     a thousand GETs
    egress   a GB read from it by the job
    ingress  a GB written to it by the job: what leaving the job's region costs, mostly
    """

    storage: float | None = None
    puts: float | None = None
    gets: float | None = None
    egress: float | None = None
    ingress: float | None = None


FIELDS = Tariff.__struct_fields__


class Prices(Tariff, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """Prices of all targets, and other ones of the domains and targets that have their own.

    `job`: the domain that the job runs in, that of the first target if it isn't said. Nothing that stays in it costs
    egress or ingress, unless the domain or a target has a price for that. Raises `ConfigError` naming the key.
    """

    job: str | None = None
    domains: dict[str, Tariff] = {}
    targets: dict[str, Tariff] = {}

    def __post_init__(self) -> None:
        check_types(self, "prices.")
        for where, tariff in self._tables():
            for name in FIELDS:
                if getattr(tariff, name) is not None:
                    check_price(getattr(tariff, name), f"prices.{where}{name}")

    @property
    def are_given(self) -> bool:
        """Whether there is any."""
        return any(getattr(tariff, name) is not None for _, tariff in self._tables() for name in FIELDS)

    def or_list(self) -> "Prices":
        """These, or `LIST_PRICES` where there are none: never some of both, which would be nobody's."""
        return self if self.are_given else msgspec.structs.replace(LIST_PRICES, job=self.job)

    def without_names(self) -> "Prices":
        """Of targets that no store names: the prices of all, and the job in whichever domain comes first."""
        return Prices(**{name: getattr(self, name) for name in FIELDS})

    def storing_at(self, storage: float) -> "Prices":
        """These, or the list's, with one price for all that is stored."""
        found = self.or_list()
        domains = {name: msgspec.structs.replace(tariff, storage=None) for name, tariff in found.domains.items()}
        targets = {name: msgspec.structs.replace(tariff, storage=None) for name, tariff in found.targets.items()}
        return msgspec.structs.replace(found, storage=storage, domains=domains, targets=targets)

    def of(self, target: str, domain: str, *, job: str) -> Tariff:
        """Of a target in `domain`; the job is in the domain `job`, unless the prices say otherwise."""
        base = {name: getattr(self, name) for name in FIELDS}
        if domain == (self.job or job):
            base |= {"egress": 0.0, "ingress": 0.0}
        for own in (self.domains.get(domain), self.targets.get(target)):
            if own is not None:
                base |= {name: price for name in FIELDS if (price := getattr(own, name)) is not None}
        return Tariff(**base)

    def _tables(self) -> list[tuple[str, Tariff]]:
        domains = [(f"domains.{name}.", tariff) for name, tariff in self.domains.items()]
        return [("", self), *domains, *((f"targets.{name}.", tariff) for name, tariff in self.targets.items())]


LIST_PRICES = Prices(storage=0.023, puts=0.005, gets=0.0004, egress=0.02, ingress=0.02)
"""Of the order of S3's list prices, in one region and between two: what is reckoned with where no price is given."""


@dataclass
class Bill:
    """A sum of amounts at prices. `known`: dollars so far; `missing`: the fields of prices that nobody gave."""

    known: float = 0.0
    missing: set[str] = field(default_factory=set)

    @property
    def dollars(self) -> float | None:
        """The sum; None where a price is missing."""
        return None if self.missing else self.known

    def add(self, tariff: Tariff, **amounts: float) -> None:
        """Amounts by the field of their price: GB, months of a GB, thousands of requests. No price is missed for 0."""
        for name, amount in amounts.items():
            price = getattr(tariff, name)
            if amount and price is None:
                self.missing.add(name)
            elif amount:
                self.known += amount * price

    def extend(self, other: "Bill") -> None:
        """Add another one."""
        self.known += other.known
        self.missing |= other.missing
