"""What one rank does in a save, and the small report of it that travels to rank 0."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec
import torch.distributed as dist
from torch.distributed.checkpoint.metadata import MetadataIndex
from torch.distributed.checkpoint.planner import SavePlan, SavePlanner, WriteItem, WriteItemType
from torch.distributed.checkpoint.storage import WriteResult

import erasure
from ckptstore.commit import shard_saver
from ckptstore.dcp.pieces import Pieces, address
from ckptstore.dcp.replicas import Held
from ckptstore.deadline import Deadline
from ckptstore.events import Observer, ignore
from ckptstore.opened import Opened
from ckptstore.placement import Place
from ckptstore.save.shard import SavedShard
from ckptstore.save.stream import Piece, lay_out, split

__all__ = ["RankReport", "RankSave", "report_of"]


class RankReport(msgspec.Struct, kw_only=True):
    """A rank's shards, and digests of what other ranks may hold as well. `called`: what it takes the save for."""

    rank: int
    called: str | None = None
    shards: list[SavedShard] = []
    digests: dict[str, int] = {}


def report_of(results: Sequence[WriteResult]) -> RankReport | None:
    """A rank's report among its results: the one that carries bytes, not a shard's number. None where there is none."""
    reports = [result.storage_data for result in results if isinstance(result.storage_data, bytes)]
    return msgspec.msgpack.decode(reports[0], type=RankReport) if reports else None


@dataclass
class RankSave:
    """One save on one rank. `items` are all that its planner planned, before replicas were given to one rank."""

    opened: Opened
    run: str
    rank: int
    places: Sequence[Place]
    called: str | None = None
    items: list[WriteItem] = field(default_factory=list)
    allow_pickle: bool = False
    private: bool = False
    observer: Observer = ignore
    deadline: Deadline = field(default_factory=Deadline)
    _token: bytes = field(default_factory=lambda: secrets.token_bytes(8))

    def write(self, plan: SavePlan, planner: SavePlanner) -> list[WriteResult]:
        """Write the shard (or shards, where one header can't hold all names); results in no particular order."""
        pieces = Pieces(planner, self.allow_pickle, self.private)
        mine = pieces.of(plan.items)
        report = RankReport(rank=self.rank, called=self.called, digests=self._digests(plan, pieces, mine))
        results: list[WriteResult] = []
        saver = shard_saver(self.opened, self.run, self.places, self.observer, self.deadline)
        for number, group in enumerate(split(mine) if mine else ()):
            report.shards.append(saver.save(lay_out(group), pieces.source, self.rank))
            results += [_result(piece, number) for piece in group]
        return [WriteResult(MetadataIndex(""), 0, msgspec.msgpack.encode(report)), *results]

    def held(self) -> Held:
        """Of what it planned, what another rank may hold under the same key: all that is no shard of a tensor."""
        return Held(self._token, frozenset(item.index.fqn for item in self.items if _is_plain(item)))

    def _digests(self, plan: SavePlan, pieces: Pieces, mine: list[Piece]) -> dict[str, int]:
        """CRC32C of what other ranks hold as well: those that differ under one key mustn't pass unnoticed.

        Rank 0 has said which keys those are. Of everything plain where it couldn't, or where DCP takes a plan that it
        cached, with what rank 0 said of an earlier save.
        """
        if not (dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1):
            return {}
        told = plan.storage_data
        keys = told.keys if isinstance(told, Held) and told.token == self._token else self.held().keys
        written = {address(item.index) for item in plan.items}
        compared = [item for item in self.items if _is_plain(item) and item.index.fqn in keys]
        elsewhere = [item for item in compared if address(item.index) not in written]
        plain = {address(item.index) for item in compared}
        here = [piece for piece in mine if (piece.fqn, tuple(piece.range or ())) in plain]
        return {piece.fqn: erasure.crc32c(pieces.source(piece)) for piece in [*here, *pieces.of(elsewhere)]}


def _is_plain(item: WriteItem) -> bool:
    return item.type is not WriteItemType.SHARD


def _result(piece: Piece, shard: int) -> WriteResult:
    index = MetadataIndex(piece.fqn) if piece.is_object else MetadataIndex(piece.fqn, piece.range)
    return WriteResult(index, piece.nbytes, shard)
