"""What a stored shard survives, counted from its record: what every command prints, and never rounded up."""

from collections.abc import Iterable, Mapping, Sequence

import erasure
from ckptstore.placement import Survives, survives
from manifests import ShardRecord

__all__ = ["homes_of", "record_survives", "stripe_survives", "weakest"]


def stripe_survives(shape: erasure.StripeShape, homes: Sequence[str | None], domains: Mapping[str, str]) -> Survives:
    """For fragments on `homes`. Empty fragments are known to be zeros: as good as stored, and never lost."""
    empty = sum(not shape.stored(fragment) for fragment in range(shape.n))
    return survives(homes, shape.k - empty, domains)


def homes_of(record: ShardRecord) -> set[str]:
    """The targets that hold fragments of a shard. Those that a record lists may have held some before they moved."""
    found = set()
    for stripe in record.stripes:
        code = record.codes[stripe.code]
        shape = erasure.StripeShape(code.k, code.m, stripe.length)
        found |= {record.targets[at] for f, at in enumerate(stripe.at) if at is not None and shape.stored(f)}
    return found


def record_survives(record: ShardRecord, domains: Mapping[str, str]) -> Survives:
    """For all stripes of a record; its own copies not counted."""
    each = set()
    for stripe in record.stripes:
        code = record.codes[stripe.code]
        homes = [None if at is None else record.targets[at] for at in stripe.at]
        each.add(stripe_survives(erasure.StripeShape(code.k, code.m, stripe.length), homes, domains))
    return weakest(each)


def weakest(each: Iterable[Survives]) -> Survives:
    """What all of several parts survive."""
    parts = list(each)
    return Survives(min(part.targets for part in parts), min(part.domains for part in parts))
