"""What of checkpoints is where, and which set of targets leaves least of it when it is lost."""

import math
from collections import Counter
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations

from ckptstore.errors import CkptStoreError
from ckptstore.load.documents import fetch_document
from ckptstore.opened import Opened
from ckptstore.operations.checking import check
from ckptstore.operations.subsets import NOTHING
from ckptstore.operations.survey import ShardSurvey, StripeSurvey
from ckptstore.placement import Survives, survives
from ckptstore.selection import key_of
from ckptstore.tolerance import weakest
from manifests import Checkpoint, History, Index, Reference

STEPS = 500_000
"""Times that the search looks at what one set leaves of one pattern of placement: a second or two."""

__all__ = ["Placements", "Worst", "gather", "worst_set"]

Pattern = tuple[int, tuple[tuple[str, int], ...]]
"""How many living things are needed, and how many each target has: all stripes placed alike are one pattern."""


@dataclass
class Placements:
    """Of all checkpoints that are to be drilled.

    `patterns`: of each checkpoint, by key; `data`: bytes of data fragments on each target; `survive`: what each
    checkpoint survives by what is there, by key; `parity`: the m of their codes.
    """

    patterns: dict[str, set[Pattern]] = field(default_factory=dict)
    data: Counter[str] = field(default_factory=Counter)
    survive: dict[str, Survives] = field(default_factory=dict)
    parity: set[int] = field(default_factory=set)

    @cached_property
    def all_patterns(self) -> frozenset[Pattern]:
        """Of all checkpoints together."""
        return frozenset().union(*self.patterns.values())

    def margin(self, gone: frozenset[str], key: str | None = None) -> int | None:
        """How many more may be lost of what is scarcest, without the targets `gone`; below 0: it is lost already.

        Of one checkpoint, or of all. None where nothing is known.
        """
        patterns = self.all_patterns if key is None else self.patterns.get(key, ())
        left = (sum(n for name, n in held if name not in gone) - needed for needed, held in patterns)
        return min(left, default=None)

    def harm(self, gone: frozenset[str]) -> tuple[int, int, list[str]]:
        """To sort sets by, the worst first: little left, then much that must be rebuilt, then by name."""
        return self.margin(gone) or 0, -sum(self.data[name] for name in gone), sorted(gone)


@dataclass(frozen=True)
class Worst:
    """The set found. Of `sets` that there are, `looked_at` were: all, where the search was exhaustive."""

    gone: frozenset[str]
    looked_at: int
    sets: int


def gather(opened: Opened, history: History, chosen: Iterable[Checkpoint]) -> Placements:
    """What is there of checkpoints, by listing; no data is read. What is out of reach may well be there, and counts.

    One whose records can't be read is left out: its restore says why.
    """
    found = Placements()
    members, standings = opened.group.members, opened.group.standings
    needed = len(members.targets) - members.t
    votes = survives(history.heard, needed, opened.domains)
    silent = [name for name in members.targets if name in standings and standings[name].state == "unreachable"]
    voters = tuple((name, 1) for name in sorted({*history.heard, *silent}))  # what is silent may well be there
    for checkpoint in chosen:
        patterns: set[Pattern] = {(needed, voters)}
        health = check(opened, history, checkpoint, NOTHING)
        index = checkpoint.manifest.copies[0].index
        try:
            shards = fetch_document(Index, index, opened.targets).shards
        except CkptStoreError:
            continue
        if len(health.shards) < len(shards):
            continue
        each = [votes, _add_copies(opened, index, health.bad_indexes, patterns)]
        for survey in health.shards:
            each += _add_shard(opened, survey, found, patterns)
        found.patterns[key_of(checkpoint)] = patterns
        found.survive[key_of(checkpoint)] = weakest(each)
    return found


def worst_set(placements: Placements, units: Sequence[frozenset[str]], count: int, base: frozenset[str]) -> Worst:
    """The `count` of `units` (targets, or all targets of a domain) whose loss, beside `base`, leaves least.

    All sets are looked at where that takes no more than `STEPS`. Else for each pattern that set which hurts it most,
    the most hurt patterns first: no set leaves less than the first of these, but others may leave more to rebuild.
    """
    sets = math.comb(len(units), count)
    most = max(STEPS // max(len(placements.all_patterns), 1), 1)
    candidates = combinations(units, count) if sets <= most else _worst_for_each(placements, units, count, base)[:most]
    unions = {frozenset().union(*each) for each in candidates}
    worst = min(unions, key=lambda gone: placements.harm(gone | base))
    return Worst(worst, len(unions), sets)


def _worst_for_each(
    placements: Placements, units: Sequence[frozenset[str]], count: int, base: frozenset[str]
) -> list[Sequence[frozenset[str]]]:
    found: list[tuple[int, list[list[str]], Sequence[frozenset[str]]]] = []
    for needed, homes in placements.all_patterns:
        held = {name: n for name, n in homes if name not in base}
        weight = {unit: sum(held.get(name, 0) for name in unit) for unit in units}
        order = {unit: (-weight[unit], -sum(placements.data[name] for name in unit), sorted(unit)) for unit in units}
        heaviest = sorted(units, key=order.__getitem__)[:count]
        left = sum(held.values()) - sum(weight[unit] for unit in heaviest) - needed
        found.append((left, [sorted(unit) for unit in heaviest], heaviest))
    return [heaviest for _, _, heaviest in sorted(found, key=lambda each: each[:2])]


def _add_shard(opened: Opened, survey: ShardSurvey, found: Placements, patterns: set[Pattern]) -> list[Survives]:
    """Add the copies of a shard's record, and its stripes; return what each survives."""
    found.parity |= {code.m for code in survey.shard.record.codes}
    each = [_add_copies(opened, survey.reference.record, survey.bad_records, patterns)]
    for stripe in survey.stripes:
        _add_stripe(stripe, found, patterns)
        each.append(stripe.survives(opened.domains, trusting=True))
    return each


def _add_copies(opened: Opened, reference: Reference, bad: Container[str], patterns: set[Pattern]) -> Survives:
    left = [name for name in reference.targets if name not in bad]
    patterns.add((1, tuple((name, 1) for name in sorted(left))))
    return survives(left, 1, opened.domains)


def _add_stripe(stripe: StripeSurvey, found: Placements, patterns: set[Pattern]) -> None:
    shape = stripe.want.shape
    homes = [None if fragment in stripe.bad else stripe.home(fragment) for fragment in range(shape.n)]
    empty = sum(not shape.stored(fragment) for fragment in range(shape.n))
    held = Counter(home for home in homes if home is not None)
    patterns.add((stripe.code.k - empty, tuple(sorted(held.items()))))
    for fragment, home in enumerate(homes[: stripe.code.k]):
        if home is not None:
            found.data[home] += shape.stored(fragment)
