"""Where fragments and copies go: pure functions of the shard, the stripe and the targets found writable.

A record lists what was chosen, so a reader never calls these: they may change between releases.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

__all__ = ["Place", "Survives", "choose_copies", "full_tolerance", "place_stripe", "rehome", "survives"]


class Place(NamedTuple):
    """A target as placement sees it: its name and the domain that it fails with."""

    target: str
    domain: str


class Survives(NamedTuple):
    """How many targets, and how many domains, may be lost. -1: it is lost already."""

    targets: int
    domains: int


def place_stripe(shard_id: str, stripe: int, n: int, places: Sequence[Place]) -> list[int]:
    """The position in `places` for each of `n` fragments.

    Distinct targets first, then distinct domains, then a draw by hash, so that data and parity fragments take
    turns on every target. With fewer targets than fragments the counts differ by one at most.
    """
    turn = sorted(range(len(places)), key=lambda i: _draw(shard_id, stripe, places[i].target))
    on_target: Counter[int] = Counter()
    in_domain: Counter[str] = Counter()
    at: list[int] = []
    for _ in range(n):
        best = min(turn, key=lambda i: (on_target[i], in_domain[places[i].domain]))  # min is stable: ties by turn
        on_target[best] += 1
        in_domain[places[best].domain] += 1
        at.append(best)
    return at


def rehome(homes: Sequence[str | None], places: Sequence[Place]) -> list[str]:
    """Homes for all fragments on `places`, as even as can be, moving as few as that takes.

    A fragment stays where it is unless its home is none of `places` or holds more than its share.
    """
    domains = {place.target: place.domain for place in places}
    share = _shares(homes, places)
    on_target: Counter[str] = Counter()
    kept: list[str | None] = []
    for home in homes:
        stays = home is not None and on_target[home] < share.get(home, 0)
        kept.append(home if stays else None)
        on_target.update([home] if stays and home is not None else [])
    in_domain = Counter(domains[home] for home in kept if home is not None)
    for i in [i for i, home in enumerate(kept) if home is None]:
        best = min(places, key=lambda place: (on_target[place.target], in_domain[place.domain]))
        on_target[best.target] += 1
        in_domain[best.domain] += 1
        kept[i] = best.target
    return [home for home in kept if home is not None]


def _shares(homes: Sequence[str | None], places: Sequence[Place]) -> dict[str, int]:
    """How many fragments each target may hold; where they can't all hold the same, those with most hold one more."""
    floor, larger = divmod(len(homes), len(places))
    held = Counter(homes)
    by_load = sorted((place.target for place in places), key=lambda target: -held[target])
    return {target: floor + (i < larger) for i, target in enumerate(by_load)}


def choose_copies(name: str, count: int, places: Sequence[Place]) -> list[str]:
    """`count` targets (all, where there are fewer) for copies of a small object, distinct domains first."""
    return [places[i].target for i in place_stripe(name, 0, min(count, len(places)), places)]


def survives(homes: Iterable[str | None], k: int, domains: Mapping[str, str]) -> Survives:
    """What may be lost of fragments living on `homes` (None: not stored) with k of them left, whichever goes."""
    living = [home for home in homes if home is not None]
    by_target = Counter(living)
    by_domain = Counter(domains.get(home, home) for home in living)
    return Survives(_losses(by_target.values(), k), _losses(by_domain.values(), k))


def full_tolerance(k: int, m: int, places: Sequence[Place]) -> Survives:
    """What a checkpoint saved onto all of `places` survives."""
    domains = {place.target: place.domain for place in places}
    return survives([places[i].target for i in place_stripe("", 0, k + m, places)], k, domains)


def _losses(counts: Iterable[int], k: int) -> int:
    left = sum(counts := sorted(counts, reverse=True))
    for lost, count in enumerate(counts):
        left -= count
        if left < k:
            return lost if left + count >= k else -1
    return -1


def _draw(shard_id: str, stripe: int, target: str) -> bytes:
    return hashlib.sha256(f"{shard_id}/{stripe}/{target}".encode()).digest()
