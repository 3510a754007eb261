"""A checkpoint's index as DCP's `Metadata`, whose chunks are listed where somebody asks for them.

A tensor that 16,384 ranks saved has as many chunks, and a rank that loads wants one of them. DCP's own planners list
all of every tensor; ours asks for those that lie in what this rank has.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

import torch
from torch.distributed.checkpoint.metadata import (
    STORAGE_TYPES,
    BytesStorageMetadata,
    ChunkStorageMetadata,
    Metadata,
    TensorProperties,
    TensorStorageMetadata,
)

from ckptstore.dcp.layout import PlannerData
from ckptstore.dcp.tensors import torch_dtype
from ckptstore.dtypes import OBJECT
from manifests import FORMAT, Index, TensorTable
from manifests.table import Run

__all__ = ["SavedTensor", "metadata_of"]


class SavedTensor(TensorStorageMetadata):
    """A tensor of the table; `chunks` are made when they are first asked for. Pickles as what DCP knows."""

    def __init__(self, table: TensorTable, position: int) -> None:
        self.properties = TensorProperties(dtype=torch_dtype(table.dtype[position]))
        self.size = torch.Size(table.shape[position])
        self._table = table
        self._position = position

    def __getattr__(self, name: str) -> Any:
        if name != "chunks":
            raise AttributeError(name)
        self.chunks: list[ChunkStorageMetadata] = self._listed(lambda run: range(run.length))
        return self.chunks

    def __reduce__(self) -> tuple[Any, ...]:
        return TensorStorageMetadata, (self.properties, self.size, self.chunks)

    def within(self, boxes: Collection[tuple[Sequence[int], Sequence[int]]]) -> TensorStorageMetadata:
        """The same tensor with those chunks alone that have something in common with a box (offsets, sizes)."""

        def overlapping(run: Run) -> Sequence[int]:
            return sorted({at for offsets, extent in boxes for at in run.overlapping(offsets, extent)})

        return TensorStorageMetadata(self.properties, self.size, self._listed(overlapping))

    def _listed(self, chosen: Callable[[Run], Iterable[int]]) -> list[ChunkStorageMetadata]:
        """The chunks of each run that are `chosen`, in the table's order."""
        chunks: list[ChunkStorageMetadata] = []
        for run in self._table.runs_of(self._position):
            sizes = torch.Size(run.sizes)  # one for all chunks of a run: there may be a million
            chunks += [ChunkStorageMetadata(torch.Size(start), sizes) for start in run.starts(chosen(run))]
        return chunks


def metadata_of(index: Index) -> Metadata:
    """Chunks stand in the table's order, which is where a `MetadataIndex` hint points."""
    table = index.tensors
    paths = ((fqn, tuple(path)) for fqn, path in index.planner_data)
    return Metadata(
        state_dict_metadata={fqn: _entry(table, position) for position, fqn in enumerate(table.fqns)},
        planner_data=PlannerData(paths, structure=index.structure),
        version=".".join(map(str, FORMAT)),
    )


def _entry(table: TensorTable, position: int) -> STORAGE_TYPES:
    if table.dtype[position] == OBJECT:
        return BytesStorageMetadata()
    return SavedTensor(table, position)
