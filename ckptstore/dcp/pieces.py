"""From a DCP save plan to the pieces of a shard, everything checked before the first byte is written."""

import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch.distributed.checkpoint.metadata import MetadataIndex
from torch.distributed.checkpoint.planner import SavePlanner, WriteItem, WriteItemType

from ckptstore.buffers import Bytes
from ckptstore.dcp.objects import from_torch_zip
from ckptstore.dcp.tensors import check_tensor, dtype_name
from ckptstore.dtypes import OBJECT, nbytes_of
from ckptstore.errors import UnsupportedValue
from ckptstore.save.snapshot import lies_flat, object_bytes, tensor_bytes
from ckptstore.save.stream import Piece
from ckptstore.source import Address

__all__ = ["Pieces", "address", "check_paths"]


def address(index: MetadataIndex) -> Address:
    """What `MetadataIndex` means, without its hint."""
    return index.fqn, tuple(index.offset or ())


@dataclass
class Pieces:
    """What one rank writes: the items of its plan as pieces, and where their bytes come from.

    `private`: the state is a copy that nobody else knows of.
    """

    planner: SavePlanner
    allow_pickle: bool = False
    private: bool = False

    def of(self, items: Iterable[WriteItem]) -> list[Piece]:
        """One piece an item. Byte objects are encoded here; `UnsupportedValue` names what can't be stored."""
        return [self._object(item) if item.type is WriteItemType.BYTE_IO else self._tensor(item) for item in items]

    def source(self, piece: Piece) -> Bytes:
        """The bytes of a piece."""
        if piece.is_object:
            return object_bytes(piece.key)
        return tensor_bytes(self._resolve(piece.key))

    def _object(self, item: WriteItem) -> Piece:
        stream = self.planner.resolve_data(item)
        assert isinstance(stream, io.BytesIO), f"{item.index.fqn}: the planner gave {type(stream)} for a byte object"
        data = stream.getvalue()
        if not getattr(self.planner, "typed_objects", False):
            data = from_torch_zip(data, key=item.index.fqn, allow_pickle=self.allow_pickle)
        return Piece(data, item.index.fqn, OBJECT, [len(data)], len(data))

    def _tensor(self, item: WriteItem) -> Piece:
        tensor = self._resolve(item)
        check_tensor(tensor, item.index.fqn)
        plan = item.tensor_data
        assert plan is not None, f"{item.index.fqn}: the planner says nothing of its tensor"
        dtype = dtype_name(plan.properties.dtype)
        return Piece(
            key=item,
            fqn=item.index.fqn,
            dtype=dtype,
            shape=tuple(plan.chunk.sizes),
            nbytes=nbytes_of(dtype, plan.chunk.sizes),
            global_shape=tuple(plan.size),
            range=tuple(plan.chunk.offsets),
            stays=self.private and lies_flat(tensor),
        )

    def _resolve(self, item: WriteItem) -> torch.Tensor:
        tensor = self.planner.resolve_data(item)
        assert isinstance(tensor, torch.Tensor), f"{item.index.fqn}: the planner gave {type(tensor)} for a tensor"
        return tensor


def check_paths(planner_data: object) -> None:
    """Refuse what a planner wants stored beside the tensors unless it is {key: path of str and int}."""
    if planner_data is None:
        return
    if not isinstance(planner_data, dict):
        raise UnsupportedValue(f"planner_data of type {type(planner_data).__name__} can't be stored", key="")
    for fqn, path in planner_data.items():
        if not (isinstance(path, Sequence) and all(type(part) in (str, int) for part in path)):
            raise UnsupportedValue(f"planner_data of {fqn!r} is no path of str and int: {path!r}", key=fqn)
