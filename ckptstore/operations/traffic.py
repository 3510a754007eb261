"""What a repair moves: bytes and requests of each target, and what they cost where the prices are known."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from ckptstore.config import Config
from ckptstore.operations.survey import ShardSurvey
from ckptstore.prices import GB, Bill

__all__ = ["Traffic", "cost_of", "count_check"]


@dataclass
class Traffic:
    """By target: bytes to read and to write, and how many GETs and PUTs that takes."""

    reads: Counter[str] = field(default_factory=Counter)
    writes: Counter[str] = field(default_factory=Counter)
    gets: Counter[str] = field(default_factory=Counter)
    puts: Counter[str] = field(default_factory=Counter)

    def read(self, target: str, count: int, *, requests: int = 1) -> None:
        """So many bytes more."""
        self.reads[target] += count
        self.gets[target] += requests

    def write(self, target: str, count: int) -> None:
        """One object of so many bytes more."""
        self.writes[target] += count
        self.puts[target] += 1

    def add(self, other: "Traffic") -> None:
        """All of another's too."""
        for mine, more in zip(vars(self).values(), vars(other).values(), strict=True):
            mine.update(more)


def count_check(surveys: Iterable[ShardSurvey], traffic: Traffic) -> None:
    """Add what it takes to read every fragment that is there, as a repair does before it writes anything."""
    for stripe in (stripe for survey in surveys for stripe in survey.stripes):
        shape = stripe.want.shape
        for fragment in range(shape.n):
            home, blocks = stripe.home(fragment), shape.blocks(fragment)
            there = len(stripe.bad.get(fragment, ())) < blocks
            if home is not None and blocks and there and fragment not in stripe.silent:
                traffic.read(home, shape.stored(fragment))


def cost_of(config: Config, traffic: Traffic) -> Bill:
    """At the prices of the store, for a repair that runs where the job does. Listings and documents are left out.

    A target that store.toml doesn't have any more costs what all cost.
    """
    bill, domains = Bill(), {place.target: place.domain for place in config.places}
    for name in sorted(traffic.gets | traffic.puts):
        tariff = config.prices.of(name, domains.get(name, ""), job=config.places[0].domain)
        bill.add(
            tariff,
            gets=traffic.gets[name] / 1000,
            puts=traffic.puts[name] / 1000,
            egress=traffic.reads[name] / GB,
            ingress=traffic.writes[name] / GB,
        )
    return bill
