"""A checkpoint's index as DCP's `Metadata`."""

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
from manifests import FORMAT, Index, TableEntry

__all__ = ["metadata_of"]


def metadata_of(index: Index) -> Metadata:
    """Chunks stand in the table's order, which is where a `MetadataIndex` hint points."""
    return Metadata(
        state_dict_metadata={fqn: _entry(index.tensors[fqn]) for fqn in index.tensors},
        planner_data=PlannerData(((fqn, tuple(path)) for fqn, path in index.planner_data), structure=index.structure),
        version=".".join(map(str, FORMAT)),
    )


def _entry(entry: TableEntry) -> STORAGE_TYPES:
    if entry.dtype == OBJECT:
        return BytesStorageMetadata()
    chunks = [ChunkStorageMetadata(torch.Size(chunk.offsets), torch.Size(chunk.sizes)) for chunk in entry.chunks]
    return TensorStorageMetadata(TensorProperties(dtype=torch_dtype(entry.dtype)), torch.Size(entry.shape), chunks)
