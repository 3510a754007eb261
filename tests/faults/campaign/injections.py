"""One injection: a seeded choice of what is damaged and how."""

import gzip
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from tests.faults.campaign.world import Place, World, inner_name, kind_of

Writes = dict[Place, bytes | None]
"""The new content of objects; None where one is gone."""

BEYOND = 0.25
"""The part of the injections that damages more than may be lost."""

BOMB = gzip.compress(bytes(64 << 20), mtime=0)
"""64 MiB of zeros in 64 KiB: whoever inflates before checking the digest takes the memory."""

TRAILER = b"0\r\nx-amz-checksum-crc32c:AAAAAA==\r\n\r\n"
"""What some stores leave at the end of an object when a client streams its checksum."""


@dataclass(frozen=True)
class Injection:
    """What is damaged (`what`), how (`kind`), and the new content of each object."""

    what: str
    kind: str
    writes: Writes


def draw(world: World, rng: Random, what: str) -> Injection:
    """An injection that changes at least one object."""
    while True:
        kind = rng.choice(list(KINDS[what]))
        beyond = rng.random() < BEYOND and (what, kind) not in NEVER_BEYOND
        places = _fragments(world, rng, beyond=beyond) if what == "fragment" else _copies(world, rng, what, beyond)
        writes: Writes = {}
        for place in places:
            writes |= KINDS[what][kind](world, rng, place)
        changed = {place: data for place, data in writes.items() if data != world.truth.intact[place]}
        if changed:
            return Injection(what, kind, changed)


# -- which objects ----------------------------------------


def _fragments(world: World, rng: Random, *, beyond: bool) -> list[Place]:
    """Up to m fragments of a stripe, or more; sometimes of every stripe of a checkpoint."""
    stripes = rng.choice(world.truth.live).stripes
    places: list[Place] = []
    for stripe in stripes if rng.random() < 0.2 else [rng.choice(stripes)]:
        there = [place for place in stripe.fragments if place]
        low, high = (world.m + 1, len(there)) if beyond else (1, world.m)
        places += rng.sample(there, rng.randint(min(low, len(there)), min(high, len(there))))
    return places


def _copies(world: World, rng: Random, what: str, beyond: bool) -> list[Place]:
    """Some copies of one document, vote or statement: as many as may be lost, or more."""
    groups = copies_of(world, what)
    group = groups[rng.choice(sorted(groups))]
    most = min(world.m, len(group) - 1)
    return rng.sample(group, rng.randint(most + 1, len(group)) if beyond else rng.randint(1, most))


def copies_of(world: World, what: str) -> dict[str, list[Place]]:
    """The copies of each object of a kind, by the name that they share; below the votes, of live checkpoints only."""
    groups: dict[str, list[Place]] = {}
    live = {place for saved in world.truth.live for place in saved.positions}
    for place in world.by_kind[what]:
        if place in live or what not in {"record", "index", "fragment"}:
            groups.setdefault(inner_name(place[1]), []).append(place)
    return groups


# -- what happens to the bytes of one ----------------------------------------


def flip(rng: Random, data: bytes) -> bytes:
    """Bits flipped: mostly one."""
    harmed = bytearray(data)
    for _ in range(rng.choice([1, 1, 1, 2, 8])):
        harmed[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return bytes(harmed)


def truncate(rng: Random, data: bytes) -> bytes:
    """Cut short: by a byte, somewhere, or to nothing."""
    return data[: rng.choice([0, len(data) - 1, rng.randrange(len(data))])]


def extend(rng: Random, data: bytes) -> bytes:
    """Something more at its end."""
    return data + rng.choice([b"\n", bytes(512), rng.randbytes(40), TRAILER, b"{}"])


def zero(rng: Random, data: bytes) -> bytes:
    """Zeros: all of it, or 512 bytes, a sector."""
    start, length = rng.choice([(0, len(data)), (0, 512), (rng.randrange(len(data)), 512)])
    stop = min(start + length, len(data))
    return data[:start] + bytes(stop - start) + data[stop:]


def garbage(rng: Random, data: bytes) -> bytes:
    """As many random bytes."""
    return rng.randbytes(len(data))


def missing(_rng: Random, _data: bytes) -> None:
    """Gone."""


def key_twice(_rng: Random, data: bytes) -> bytes:
    """A key twice in one JSON object: some readers take the first, some the last."""
    return b'{"kind":"delete","version":9,' + data[1:]


def bomb(_rng: Random, _data: bytes) -> bytes:
    """Something small that inflates to something large."""
    return BOMB


HARMS: dict[str, Callable[[Random, bytes], bytes | None]] = {
    "flipped": flip,
    "truncated": truncate,
    "extended": extend,
    "zeroed": zero,
    "garbage": garbage,
    "missing": missing,
}


def _harm(harm: Callable[[Random, bytes], bytes | None]) -> Callable[[World, Random, Place], Writes]:
    return lambda world, rng, place: {place: harm(rng, world.truth.intact[place])}


# -- what takes the bytes of another ----------------------------------------


def _swap(world: World, rng: Random, place: Place) -> Writes:
    """With another that is needed: what a deleted checkpoint has, nobody looks at."""
    needed = {other for copies in copies_of(world, kind_of(place[1])).values() for other in copies}
    other = rng.choice([other for other in _alike(world, place) if other in needed])
    return {place: world.truth.intact[other], other: world.truth.intact[place]}


def _duplicate(world: World, rng: Random, place: Place) -> Writes:
    return {place: world.truth.intact[rng.choice(_alike(world, place))]}


def _swap_in_stripe(world: World, rng: Random, place: Place) -> Writes:
    other = rng.choice(_siblings(world, place))
    return {place: world.truth.intact[other], other: world.truth.intact[place]}


def _duplicate_in_stripe(world: World, rng: Random, place: Place) -> Writes:
    return {place: world.truth.intact[rng.choice(_siblings(world, place))]}


def _stale(world: World, rng: Random, place: Place) -> Writes:
    """What another save has at the same position; of a vote or statement, another one on the same target."""
    older, newer = (saved.positions for saved in world.truth.live)
    for one, other in ((older, newer), (newer, older)):
        if place in one:
            return {place: world.truth.intact[other[one.index(place)]]}
    mine = [other for other in _alike(world, place) if other[0] == place[0]]
    return {place: world.truth.intact[rng.choice(mine or _alike(world, place))]}


def _alike(world: World, place: Place) -> list[Place]:
    """Objects of the same kind with other bytes, of any save and target."""
    intact = world.truth.intact
    return [other for other in world.by_kind[kind_of(place[1])] if intact[other] != intact[place]]


def _siblings(world: World, place: Place) -> list[Place]:
    stripes = (stripe for saved in world.truth.live for stripe in saved.stripes)
    stripe = next(stripe for stripe in stripes if place in stripe.fragments)
    return [other for other in stripe.fragments if other and other != place]


EACH = {name: _harm(harm) for name, harm in HARMS.items()} | {
    "swapped": _swap,
    "duplicated": _duplicate,
    "stale": _stale,
}
OF_FRAGMENTS = {"swapped in stripe": _swap_in_stripe, "duplicated in stripe": _duplicate_in_stripe}
OF_DOCUMENTS = {"key twice": _harm(key_twice), "gzip bomb": _harm(bomb)}

WEIGHTS = {
    "fragment": 10,
    "record": 3,
    "index": 3,
    "manifests": 4,
    "marks": 3,
    "begun": 1,
    "sessions": 1,
    "standing": 2,
    "identity": 1,
}
"""What is damaged, and how often."""
NEVER_BEYOND = {("marks", "swapped"), ("marks", "duplicated"), ("marks", "stale")}
"""A mark's seal doesn't cover its name: where most targets hold another mark of the same save, nobody can know."""

KINDS = {what: EACH | (OF_FRAGMENTS if what == "fragment" else OF_DOCUMENTS) for what in WEIGHTS}
