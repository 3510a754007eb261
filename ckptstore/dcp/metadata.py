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
from manifests import FORMAT, Index, TensorTable

__all__ = ["metadata_of"]


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
    chunks = []
    for run in table.runs_of(position):
        sizes = torch.Size(run.sizes)  # one for all chunks of a run: there may be a million
        chunks += [ChunkStorageMetadata(torch.Size(start), sizes) for start in run.starts()]
    properties = TensorProperties(dtype=torch_dtype(table.dtype[position]))
    return TensorStorageMetadata(properties, torch.Size(table.shape[position]), chunks)
