"""One shard made whole again: what is bad is rebuilt in its place, what has no place of its own gets one.

In place, only objects that fail their digest are overwritten, with the bytes they had: the store ends byte-equal.
Moved fragments leave the old objects alone; a new record says where they are now.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from ckptstore.errors import TargetError
from ckptstore.load.fetch import Fetcher, Fragment
from ckptstore.load.plan import Want
from ckptstore.load.reader import verified
from ckptstore.load.stripe import StripeRead
from ckptstore.opened import Opened
from ckptstore.operations.survey import ShardSurvey, StripeSurvey
from ckptstore.operations.traffic import Traffic
from ckptstore.placement import Place, full_tolerance, rehome
from ckptstore.tolerance import stripe_survives
from manifests import ShardRecord

__all__ = ["Rebuild", "StripePlan", "carry_out", "plan_rebuild"]


@dataclass
class StripePlan:
    """What to write of one stripe: fragment → target. `homes`: where every fragment is to be afterwards.

    `kept`: fragments stay where they are that were to move, for there they would be less safe.
    """

    survey: StripeSurvey
    writes: dict[int, str]
    homes: list[str | None]
    kept: bool = False

    @property
    def moved(self) -> int:
        """Fragments that change their target."""
        return sum(self.survey.home(fragment) != home for fragment, home in self.writes.items())

    @property
    def bytes(self) -> int:
        """Bytes to write."""
        return sum(self.survey.want.shape.stored(fragment) for fragment in self.writes)

    def count_writes(self, traffic: Traffic) -> None:
        """Add the bytes to write to each target."""
        for fragment, home in self.writes.items():
            traffic.write(home, self.survey.want.shape.stored(fragment))

    def count_reads(self, traffic: Traffic) -> None:
        """Add the bytes to read from each target, as `StripeRead` reads: what is to be written where all of it is good.

        Else k good blocks of the row; neighbouring blocks in one request. What is to be written is asked for first,
        though none of it may be there. Blocks that turn out bad come on top.
        """
        shape = self.survey.want.shape
        before: set[int] = set()
        read: set[int] = set()
        for row in range(-(-shape.span // shape.block)):
            chosen = self._read_in(row)
            for fragment in chosen:
                low, high = shape.block_range(fragment, row)
                traffic.read(self.survey.home(fragment) or "", high - low, requests=fragment not in before)
            before = set(chosen)
            read |= before
        for fragment in self.writes.keys() - read - self.survey.silent:
            traffic.gets.update(filter(None, [self.survey.home(fragment)]))

    def _read_in(self, row: int) -> list[int]:
        shape, survey = self.survey.want.shape, self.survey
        there = [fragment for fragment in range(shape.n) if row < shape.blocks(fragment)]
        wanted = [fragment for fragment in there if fragment in self.writes]
        good = {f for f in there if survey.home(f) and f not in survey.silent and row not in survey.bad.get(f, ())}
        if good.issuperset(wanted):
            return wanted
        zeros = shape.n - len(there)  # blocks past the end of short fragments, which nobody reads
        return sorted(good, key=lambda fragment: (fragment not in wanted, fragment))[: survey.code.k - zeros]


@dataclass
class Rebuild:
    """What was done to a shard. `record`: a new one, where fragments moved."""

    rebuilt: int = 0
    moved: int = 0
    bytes: int = 0
    failed: list[str] = field(default_factory=list)
    record: ShardRecord | None = None


def plan_rebuild(
    survey: ShardSurvey, places: Sequence[Place], replace: Mapping[str, str], known: Mapping[str, str]
) -> list[StripePlan]:
    """Decide for every fragment of every stripe; nothing is written. `known`: all of the store's targets, and domains.

    A fragment on a target that is merely out of reach is left alone: unreachable is not missing. Where moved fragments
    would be less safe than where they are, none of the stripe is.
    """
    plans = [_plan_stripe(stripe, places, replace, known) for stripe in survey.stripes]
    plans = [_in_place(plan) if _is_less_safe(plan, known) else plan for plan in plans]
    return [plan for plan in plans if plan.writes or plan.kept]


def carry_out(opened: Opened, survey: ShardSurvey, plans: Sequence[StripePlan]) -> Rebuild:
    """Read, rebuild and put what the plans say. Raises `DataLost`, `OutOfReach` where too few fragments are good."""
    done = Rebuild()
    fetcher = Fetcher(opened.targets, opened.executor, patience=opened.patience)
    homes: dict[int, list[str | None]] = {}
    wants = [_want(plan) for plan in plans]
    for plan, stripe in zip(plans, verified(wants, fetcher, opened.buffers), strict=True):
        stuck = _put(opened, plan, stripe, done)
        homes[plan.survey.want.number] = [
            _home_kept(plan, fragment) if fragment in stuck else home for fragment, home in enumerate(plan.homes)
        ]
    if done.moved:
        done.record = _new_record(survey.shard.record, homes)
    return done


def _want(plan: StripePlan) -> Want:
    """All blocks of the fragments to write."""
    want = plan.survey.want
    blocks = {(fragment, row) for fragment in plan.writes for row in range(want.shape.blocks(fragment))}
    return Want(want.shard, want.number, want.shape, blocks)


def _plan_stripe(
    stripe: StripeSurvey, places: Sequence[Place], replace: Mapping[str, str], known: Collection[str]
) -> StripePlan:
    shape = stripe.want.shape
    writable = {place.target for place in places}
    homes = _homes_now(stripe, replace, known)
    if places and (None in homes.values() or _could_be_safer(stripe, homes, places)):
        movable = [f for f, home in homes.items() if home is None or home in writable]
        homes |= dict(zip(movable, rehome([homes[f] for f in movable], places), strict=True))
    writes = {
        f: home
        for f, home in homes.items()
        if home in writable and home and (f in stripe.bad or home != stripe.home(f))
    }
    return StripePlan(stripe, writes, [homes.get(f) for f in range(shape.n)])


def _is_less_safe(plan: StripePlan, known: Mapping[str, str]) -> bool:
    """Whether fewer targets may be lost afterwards than now, once something moved."""
    if not plan.moved:
        return False
    bad = {*plan.survey.bad, *plan.survey.silent} - plan.writes.keys()
    homes = [None if fragment in bad else home for fragment, home in enumerate(plan.homes)]
    shape = plan.survey.want.shape
    return stripe_survives(shape, homes, known).targets < plan.survey.survives(known).targets


def _in_place(plan: StripePlan) -> StripePlan:
    homes = [plan.survey.home(fragment) for fragment in range(plan.survey.want.shape.n)]
    writes = {fragment: home for fragment, home in plan.writes.items() if home == homes[fragment]}
    return StripePlan(plan.survey, writes, homes, kept=True)


def _homes_now(stripe: StripeSurvey, replace: Mapping[str, str], known: Collection[str]) -> dict[int, str | None]:
    """Where each stored fragment belongs as things stand; None where its target is gone for good."""
    homes: dict[int, str | None] = {}
    for fragment in range(stripe.want.shape.n):
        if stripe.want.shape.stored(fragment):
            home = stripe.home(fragment)
            wanted = replace.get(home, home) if home else None
            homes[fragment] = wanted if wanted in known else None
    return homes


def _could_be_safer(stripe: StripeSurvey, homes: Mapping[int, str | None], places: Sequence[Place]) -> bool:
    """Whether homes are shared though there are enough targets not to."""
    counts = [list(homes.values()).count(home) for home in set(homes.values())]
    full = full_tolerance(stripe.code.k, stripe.code.m, places).targets
    left = sum(counts) - sum(sorted(counts, reverse=True)[:full])
    empty = stripe.want.shape.n - len(homes)
    return left < stripe.code.k - empty


def _put(opened: Opened, plan: StripePlan, stripe: StripeRead, done: Rebuild) -> set[int]:
    """Put the stripe's fragments where they belong; returns those that their target didn't take."""

    def put(item: tuple[int, str]) -> TargetError | None:
        fragment, home = item
        source = Fragment(plan.survey.want, fragment, home)
        try:
            opened.targets[home].put(source.path, stripe.stored(fragment).data)
        except TargetError as error:
            return error
        return None

    stuck = set()
    for (fragment, home), error in zip(plan.writes.items(), opened.executor.map(put, plan.writes.items()), strict=True):
        if error is not None:
            stuck.add(fragment)
            done.failed.append(error.message)
            continue
        done.bytes += plan.survey.want.shape.stored(fragment)
        if home == plan.survey.home(fragment):
            done.rebuilt += 1
        else:
            done.moved += 1
    return stuck


def _home_kept(plan: StripePlan, fragment: int) -> str | None:
    """Where a fragment is that could not be put where it was to be: a good one is still where it was."""
    return None if fragment in plan.survey.bad else plan.survey.home(fragment)


def _new_record(record: ShardRecord, homes: Mapping[int, Sequence[str | None]]) -> ShardRecord:
    """The record with the fragments' new homes; targets keep their positions, new ones follow."""
    added = [home for row in homes.values() for home in row if home is not None]
    targets = list(dict.fromkeys([*record.targets, *added]))
    stripes = [
        msgspec.structs.replace(stripe, at=[None if home is None else targets.index(home) for home in homes[number]])
        if number in homes
        else stripe
        for number, stripe in enumerate(record.stripes)
    ]
    return msgspec.structs.replace(record, targets=targets, stripes=stripes)
