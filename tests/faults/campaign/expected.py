"""What must come of damage: counted from the bytes alone, with nothing of what is tested."""

from dataclasses import dataclass
from enum import StrEnum

from tests.faults.campaign.world import Objects, Place, Saved, Truth, World, inner_name, kind_of

HISTORY = ("manifests", "marks")
NOTES = ("begun", "sessions")
STANDINGS = ("standing", "identity")


class Load(StrEnum):
    """What a load may do. Whatever it does, a wrong byte is never right."""

    BIT_EQUAL = "bit-equal"
    REFUSED = "refused"
    EITHER = "bit-equal or refused"


@dataclass(frozen=True)
class Expected:
    """`loads`: by key. `whole_history`: manifests and marks must say what they said. `repairable`: byte-equal.

    `vanished`: not one copy of some vote is left, so nobody can know that there was one.
    """

    damaged: frozenset[Place]
    vanished: frozenset[Place]
    loads: dict[str, Load]
    whole_history: bool
    repairable: bool


def expected(world: World, truth: Truth, now: Objects) -> Expected:
    """What must come of a store that holds `now` instead of what it should."""
    intact = truth.intact
    damaged = frozenset(place for place, data in intact.items() if now.get(place) != data)
    copies = _copies(damaged, intact)
    readable = all(len(bad) <= world.m for name, (bad, _) in copies.items() if name.partition("/")[0] in HISTORY)
    counting = len({target for target, path in damaged if kind_of(path) in STANDINGS}) <= world.m
    whole = readable and counting
    can_load = {saved.key: is_there(saved, now, intact) for saved in truth.live}
    seen = Load.BIT_EQUAL if whole else Load.EITHER
    return Expected(
        damaged,
        _vanished(copies, now),
        {key: seen if can else Load.REFUSED for key, can in can_load.items()},
        whole,
        whole and all(can_load.values()) and all(good for _, good in copies.values()) and not _impostors(now, intact),
    )


def is_there(saved: Saved, now: Objects, intact: Objects) -> bool:
    """Whether a good copy of its documents and enough blocks of its stripes are there."""
    documents = all(any(now.get(place) == intact[place] for place in copies) for copies in saved.documents)
    return documents and all(stripe.is_loadable(now, intact) for stripe in saved.stripes)


def _copies(damaged: frozenset[Place], intact: Objects) -> dict[str, tuple[list[Place], list[Place]]]:
    """The damaged and the good copies of each vote that has a damaged one."""
    hit = {inner_name(path) for _, path in damaged if kind_of(path) in (*HISTORY, *NOTES)}
    found: dict[str, tuple[list[Place], list[Place]]] = {name: ([], []) for name in hit}
    for place in intact if hit else ():
        if (name := inner_name(place[1])) in hit:
            found[name][place not in damaged].append(place)
    return found


def _vanished(copies: dict[str, tuple[list[Place], list[Place]]], now: Objects) -> frozenset[Place]:
    each = (bad for bad, good in copies.values() if not good and not any(place in now for place in bad))
    return frozenset(place for bad in each for place in bad)


def _impostors(now: Objects, intact: Objects) -> bool:
    """Whether a target says that it is another one: that is for people to sort out, not for a repair."""
    identities = {data: place for place, data in intact.items() if kind_of(place[1]) == "identity"}
    return any(identities.get(now.get(place, b""), place) != place for place in identities.values())
