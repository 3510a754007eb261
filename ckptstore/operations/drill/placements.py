"""What the records say is where, and which set of targets leaves least of it when it is lost."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations

import erasure
from ckptstore.errors import CkptStoreError
from ckptstore.opened import Opened
from ckptstore.operations.drill.restoring import shards_of
from ckptstore.placement import Survives, survives
from ckptstore.selection import key_of
from ckptstore.source import Source
from ckptstore.tolerance import record_survives, weakest
from manifests import Checkpoint, History, Reference, ShardRecord

STEPS = 500_000
"""Times that the search looks at what one set leaves of one pattern of placement: a second or two."""

__all__ = ["Placements", "Worst", "gather", "worst_set"]

Pattern = tuple[int, tuple[tuple[str, int], ...]]
"""How many living things are needed, and how many each target has: all stripes placed alike are one pattern."""


@dataclass
class Placements:
    """Of all checkpoints that are to be drilled.

    `patterns`: of each checkpoint, by key; `data`: bytes of data fragments on each target; `survive`: what each
    checkpoint survives by its records, by key; `parity`: the m of their codes.
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
    """What the records of checkpoints say. One whose records can't be read is left out: its restore says why."""
    found = Placements()
    members, standings = opened.group.members, opened.group.standings
    needed = len(members.targets) - members.t
    votes = survives(history.heard, needed, opened.domains)
    silent = [name for name in members.targets if name in standings and standings[name].state == "unreachable"]
    voters = tuple((name, 1) for name in sorted({*history.heard, *silent}))  # what is silent may well be there
    for checkpoint in chosen:
        patterns: set[Pattern] = {(needed, voters)}
        try:
            each = [votes, *_add(opened, checkpoint, found, patterns)]
        except CkptStoreError:
            continue
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


def _add(opened: Opened, checkpoint: Checkpoint, found: Placements, patterns: set[Pattern]) -> list[Survives]:
    """Add a checkpoint's stripes and documents; return what each survives."""
    source = Source.open(opened, checkpoint.manifest)
    each = [_add_copies(opened, checkpoint.manifest.copies[0].index, patterns)]
    for shard, reference in zip(shards_of(source), source.index.shards, strict=True):
        each += [_add_copies(opened, reference.record, patterns), record_survives(shard.record, opened.domains)]
        _add_stripes(shard.record, found, patterns)
    return each


def _add_copies(opened: Opened, reference: Reference, patterns: set[Pattern]) -> Survives:
    patterns.add((1, tuple((name, 1) for name in sorted(reference.targets))))
    return survives(reference.targets, 1, opened.domains)


def _add_stripes(record: ShardRecord, found: Placements, patterns: set[Pattern]) -> None:
    found.parity |= {code.m for code in record.codes}
    for stripe in record.stripes:
        code = record.codes[stripe.code]
        shape = erasure.StripeShape(code.k, code.m, stripe.length, record.digest.block)
        homes = [None if at is None else record.targets[at] for at in stripe.at]
        empty = sum(not shape.stored(fragment) for fragment in range(shape.n))
        held = Counter(home for home in homes if home is not None)
        patterns.add((code.k - empty, tuple(sorted(held.items()))))
        for fragment, home in enumerate(homes[: code.k]):
            if home is not None:
                found.data[home] += shape.stored(fragment)
