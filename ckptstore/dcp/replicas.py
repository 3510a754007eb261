"""What several ranks hold is written by one of them: by whoever has least to write.

DCP's own way of choosing asks for the item size of every dtype by `torch.iinfo`, which sub-byte and bits dtypes lack.
"""

import dataclasses
import math
from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

from torch.distributed.checkpoint.planner import SavePlan, WriteItem

if TYPE_CHECKING:
    from torch.distributed.checkpoint.metadata import MetadataIndex

__all__ = ["without_replicas"]


def without_replicas(plans: Sequence[SavePlan]) -> list[SavePlan]:
    """The plans with every item on one rank alone: the one with least to write so far."""
    holders: dict[MetadataIndex, list[int]] = defaultdict(list)
    sizes: dict[MetadataIndex, int] = {}
    for rank, plan in enumerate(plans):
        for item in plan.items:
            holders[item.index].append(rank)
            sizes[item.index] = _size(item)
    bytes_of = [0] * len(plans)
    writer: dict[MetadataIndex, int] = {}
    for index in sorted(holders, key=lambda index: len(holders[index]) > 1):  # what has one holder weighs first
        ranks = holders[index]
        writer[index] = min(ranks, key=bytes_of.__getitem__)
        bytes_of[writer[index]] += sizes[index]
    return [
        dataclasses.replace(plan, items=[item for item in plan.items if writer[item.index] == rank])
        for rank, plan in enumerate(plans)
    ]


def _size(item: WriteItem) -> int:
    """Bytes of a tensor; a byte object counts as one, since nobody has encoded it for the plan."""
    data = item.tensor_data
    return 1 if data is None else math.prod(data.chunk.sizes) * data.properties.dtype.itemsize
