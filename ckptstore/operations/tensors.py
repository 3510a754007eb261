"""The tensors of a checkpoint, from its index alone."""

from typing import NamedTuple

from ckptstore.dtypes import OBJECT, nbytes_of
from manifests import Index

__all__ = ["TensorRow", "tensor_list"]


class TensorRow(NamedTuple):
    """One tensor or byte object. `nbytes` is None for an object: its shard's record knows."""

    fqn: str
    dtype: str
    shape: tuple[int, ...]
    nbytes: int | None
    chunks: int


def tensor_list(index: Index) -> list[TensorRow]:
    """All of them, in the index's order."""
    return [_row(index, fqn) for fqn in index.tensors]


def _row(index: Index, fqn: str) -> TensorRow:
    entry = index.tensors[fqn]
    is_object = entry.dtype == OBJECT
    nbytes = None if is_object else nbytes_of(entry.dtype, entry.shape)
    return TensorRow(fqn, entry.dtype, entry.shape, nbytes, len(entry.chunks))
