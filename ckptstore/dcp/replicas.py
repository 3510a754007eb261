"""What several ranks hold is written by one of them: by whoever has least to write.

DCP's own way of choosing asks for the item size of every dtype by `torch.iinfo`, which sub-byte and bits dtypes lack.
"""

import dataclasses
import math
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from torch.distributed.checkpoint.planner import SavePlan, WriteItem

if TYPE_CHECKING:
    from torch.distributed.checkpoint.metadata import MetadataIndex

__all__ = ["held_by_several", "without_replicas"]


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


def held_by_several(plans: Sequence[SavePlan]) -> list[SavePlan]:
    """The plans, each with those of the keys it came with (in `storage_data`) that another rank holds as well.

    Where one says nothing of its keys, as a plan sent empty because it was cached, nobody is told anything.
    """
    if any(plan.storage_data is None for plan in plans):
        return [dataclasses.replace(plan, storage_data=None) for plan in plans]
    holders = Counter(key for plan in plans for key in plan.storage_data)
    several = {key for key, count in holders.items() if count > 1}
    return [dataclasses.replace(plan, storage_data=frozenset(several & plan.storage_data)) for plan in plans]


def _size(item: WriteItem) -> int:
    """Bytes of a tensor; a byte object counts as one, since nobody has encoded it for the plan."""
    data = item.tensor_data
    return 1 if data is None else math.prod(data.chunk.sizes) * data.properties.dtype.itemsize
