"""A code laid out over domains, as a plan needs it: which targets fail together, and how many fragments are enough."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from ckptstore.errors import UsageError
from ckptstore.placement import Place, Survives, full_tolerance
from ckptstore.prices import Prices, Tariff

MOST_FRAGMENTS = 255  # GF(2^8)
_FORM = re.compile(r"(\d+)\+(\d+)(?:@(\d+))?")
_HINT = "a code and the number of domains, as in 8+4@4; two copies in two places are 1+1@2"

__all__ = ["Layout"]


@dataclass(frozen=True)
class Layout:
    """Every stripe has one fragment on each target, and k of them are enough. `domains`: the targets in each.

    `places`: the targets of a store; those of a layout that is only thought of have no names. `votes`: what the commit
    targets of a store survive, since a checkpoint whose votes are gone isn't found.
    """

    name: str
    k: int
    m: int
    domains: tuple[int, ...]
    places: tuple[Place, ...] = ()
    votes: Survives | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """`K+M@D`: k+m targets dealt evenly to D domains; without `@D` each is a domain of its own.

        Raises `UsageError`.
        """
        found = _FORM.fullmatch(text)
        if found is None:
            raise UsageError(f"{text!r} is no layout", hint=_HINT)
        k, m = int(found[1]), int(found[2])
        count = int(found[3]) if found[3] else k + m
        if not (1 <= k <= k + m <= MOST_FRAGMENTS and 1 <= count <= k + m):
            message = f"{text!r}: 1 <= K <= K+M <= {MOST_FRAGMENTS} and 1 <= D <= K+M are wanted"
            raise UsageError(message, hint=_HINT)
        return cls(text, k, m, tuple((k + m + i) // count for i in range(count)))

    @classmethod
    def of_places(cls, name: str, k: int, m: int, places: Sequence[Place], votes: Survives | None = None) -> Self:
        """The layout of a store. Raises `UsageError` where it has another number of targets than fragments."""
        if len(places) != k + m:
            message = f"{name}: {k + m} fragments on {len(places)} targets; a plan takes one fragment a target"
            raise UsageError(message, hint=f"plan a layout that is like it: ckpt plan {k}+{m}@{len(places)}")
        domains = tuple(sorted(Counter(place.domain for place in places).values()))
        return cls(name, k, m, domains, tuple(places), votes)

    @property
    def n(self) -> int:
        """Fragments of a stripe, and targets."""
        return self.k + self.m

    @property
    def overhead(self) -> float:
        """Bytes stored for each byte of state."""
        return self.n / self.k

    @property
    def survives(self) -> Survives:
        """How many targets, and how many domains, may be lost."""
        data = full_tolerance(self.k, self.m, self.places or self._unnamed())
        votes = self.votes or data
        return Survives(min(data.targets, votes.targets), min(data.domains, votes.domains))

    def tariffs(self, prices: Prices) -> list[Tariff]:
        """What each target costs; the job is in the first domain, unless the prices say otherwise."""
        places = self.places or self._unnamed()
        known = prices if self.places else prices.without_names()
        return [known.of(place.target, place.domain, job=places[0].domain) for place in places]

    def _unnamed(self) -> list[Place]:
        return [Place(f"{d}.{i}", str(d)) for d, count in enumerate(self.domains) for i in range(count)]
