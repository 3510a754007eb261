"""What several ranks hold is written by one of them: by whoever has least to write.

DCP's own way of choosing asks for the item size of every dtype by `torch.iinfo`, which sub-byte and bits dtypes lack.
"""

import dataclasses
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch.distributed.checkpoint.planner import SavePlan, WriteItem

if TYPE_CHECKING:
    from torch.distributed.checkpoint.metadata import MetadataIndex

__all__ = ["Held", "held_by_several", "without_replicas"]


def without_replicas(plans: Sequence[SavePlan]) -> list[SavePlan]:
    """The plans with every item on one rank alone: the one with least to write so far."""
    writer: dict[MetadataIndex, int] = {}
    shared: dict[MetadataIndex, list[int]] = {}
    sizes: dict[MetadataIndex, int] = {}
    for rank, plan in enumerate(plans):
        for item in plan.items:
            first = writer.setdefault(item.index, rank)
            if first != rank:
                shared.setdefault(item.index, [first]).append(rank)
                sizes[item.index] = _size(item)
    bytes_of = [sum(_size(item) for item in plan.items if item.index not in shared) for plan in plans]
    for index, ranks in shared.items():  # what has one holder weighed first
        writer[index] = min(ranks, key=bytes_of.__getitem__)
        bytes_of[writer[index]] += sizes[index]
    return [
        dataclasses.replace(plan, items=[item for item in plan.items if writer[item.index] == rank])
        for rank, plan in enumerate(plans)
    ]


@dataclass(frozen=True)
class Held:
    """Keys that a rank holds, or that others hold as well, in the save that drew `token`."""

    token: bytes
    keys: frozenset[str]


def held_by_several(plans: Sequence[SavePlan]) -> list[SavePlan]:
    """The plans, each with those of the keys it came with (`Held`, in `storage_data`) that another rank holds as well.

    Nobody is told anything where a planner has dropped what one came with.
    """
    held = [plan.storage_data for plan in plans if isinstance(plan.storage_data, Held)]
    if len(held) < len(plans):
        return [dataclasses.replace(plan, storage_data=None) for plan in plans]
    holders = Counter(key for each in held for key in each.keys)
    several = {key for key, count in holders.items() if count > 1}
    told = [Held(each.token, frozenset(several & each.keys)) for each in held]
    return [dataclasses.replace(plan, storage_data=each) for plan, each in zip(plans, told, strict=True)]


def _size(item: WriteItem) -> int:
    """Bytes of a tensor; a byte object counts as one, since nobody has encoded it for the plan."""
    data = item.tensor_data
    return 1 if data is None else math.prod(data.chunk.sizes) * data.properties.dtype.itemsize
