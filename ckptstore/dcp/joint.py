"""`JointReader`: what `run.load` reads with. Rank 0 has chosen the checkpoint and read its index, for all ranks.

    each rank: plans by the outline, keeps its reads, and tells rank 0 what shards they need, and digests of them
    rank 0:    hands each rank the references it asked for, and says who reads what all want alike

So what a rank sends, receives and does grows with what it loads, not with the number of ranks. `dcp.load` with the
stock planner can't do the same: its planner wants the metadata of every chunk on every rank.
"""

from collections import Counter
from dataclasses import dataclass

import torch.distributed as dist
from torch.distributed.checkpoint.planner import LoadItemType, LoadPlan, LoadPlanner
from torch.futures import Future

from ckptstore.config import Config
from ckptstore.dcp.outline import Outline
from ckptstore.dcp.pieces import address
from ckptstore.dcp.reader import StoreReader
from ckptstore.dcp.sharing import Key, Sharing, digest_of, key_of_item, share_out
from ckptstore.events import Observer, ignore
from ckptstore.opened import shared
from ckptstore.source import Source
from manifests import ShardReference

__all__ = ["JointReader"]


@dataclass(frozen=True)
class _Asked:
    """What a rank tells rank 0: the shards that it has no reference to yet, and digests of the tensors it reads."""

    shards: tuple[int, ...]
    reads: frozenset[bytes]


@dataclass(frozen=True)
class _Handed:
    """What rank 0 gives a rank: the references, and by digest, in the order of the broadcasts, who reads for all."""

    references: dict[int, ShardReference]
    owners: dict[bytes, int]


class JointReader(StoreReader):
    """Reads what rank 0 has found, of which the others have the outline. Goes with our own planner."""

    def __init__(
        self,
        config: Config,
        run: str,
        found: Source | Outline,
        group: dist.ProcessGroup | None,
        observer: Observer = ignore,
    ) -> None:
        super().__init__(config, run=run, observer=observer)
        self.sharing = Sharing(group)
        """Of what every rank wants alike; without a group of ranks each reads everything it wants."""
        self._found = found
        self._plan = LoadPlan([])
        self._keys: dict[bytes, Key] = {}

    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        """Keep the reads, and ask rank 0 for what they need."""
        self._plan = plan
        numbers: set[int] = set()
        if isinstance(self._found, Outline):
            numbers = {
                chunk.shard for chunk in self._source.chunks([address(item.storage_index) for item in plan.items])
            }
        if self.sharing.group is not None:
            counts = Counter(key_of_item(item) for item in plan.items if item.type is LoadItemType.TENSOR)
            self._keys = {digest_of(key): key for key, count in counts.items() if count == 1}
        asked = _Asked(tuple(sorted(numbers)), frozenset(self._keys))
        return LoadPlan([], storage_data=asked, planner_data=plan.planner_data)

    def prepare_global_plan(self, plans: list[LoadPlan]) -> list[LoadPlan]:
        """Hand out what the ranks asked for."""
        asked: list[_Asked] = [plan.storage_data for plan in plans]
        common = frozenset.intersection(*(each.reads for each in asked))
        owners = share_out({digest: self._keys[digest] for digest in common}, len(plans))
        shards = self._source.index.shards
        handed = [_Handed({number: shards[number] for number in each.shards}, owners) for each in asked]
        told = zip(plans, handed, strict=True)
        return [LoadPlan([], storage_data=each, planner_data=plan.planner_data) for plan, each in told]

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future[None]:
        """Read, verify, rebuild, deliver what this rank planned."""
        handed: _Handed = plan.storage_data
        if isinstance(self._found, Outline):
            self._source.references = handed.references
        self.sharing.owners = {self._keys[digest]: rank for digest, rank in handed.owners.items()}
        return self._deliver(self._plan, planner, self.sharing)

    def _open(self) -> Source:
        if isinstance(self._found, Outline):
            return self._found.source(shared(self.config), self.observer)
        return self._found
