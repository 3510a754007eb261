"""A checkpoint as a DCP folder, as `FileSystemWriter` of one rank would write it: `__0_0.distcp` and `.metadata`.

torch's own writer holds on to every tensor until the last is written; here one chunk at a time is in memory.
"""

import os
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch
from torch.distributed.checkpoint.filesystem import _StorageInfo
from torch.distributed.checkpoint.metadata import (
    STORAGE_TYPES,
    BytesStorageMetadata,
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    StorageMeta,
    TensorProperties,
    TensorStorageMetadata,
)

from ckptstore.dcp.layout import Layout
from ckptstore.dcp.metadata import metadata_of
from ckptstore.dcp.objects import to_torch_zip
from ckptstore.dcp.structure_json import torch_paths
from ckptstore.dcp.tensors import torch_dtype
from ckptstore.events import Observer, Progress, ignore
from ckptstore.formats.choosing import Chosen
from ckptstore.formats.names import DCP_METADATA
from ckptstore.formats.torch_dtypes import check_torch_dtypes
from ckptstore.load.plan import Request, box_runs
from ckptstore.operations.assembly import Part, parts_of, tensor_bytes
from ckptstore.operations.placing import FileToWrite, RestorePlan, checked, publish, staging
from ckptstore.source import Source

DATA = "__0_0.distcp"

__all__ = ["export_dcp", "plan_dcp_export"]


def plan_dcp_export(source: Source, place: Path, chosen: Chosen, *, force: bool = False) -> RestorePlan:
    """What would be written into the folder `place`. Raises `UnsupportedValue` naming dtypes, `UsageError`."""
    check_torch_dtypes(source, chosen)
    size = sum(tensor_bytes(source, fqn) for fqn in chosen.tensors)
    files = (FileToWrite(DATA, size), FileToWrite(DCP_METADATA, 0))
    plan = RestorePlan(place, files, chosen.kept, (), fresh=not place.exists(), marker=DCP_METADATA)
    return checked(plan, place, force=force)


def export_dcp(source: Source, plan: RestorePlan, chosen: Chosen, observer: Observer = ignore) -> None:
    """Write it. Raises `DataLost`, `OutOfReach`, `CorruptError`, `OSError`; what was there before is untouched then."""
    with staging(plan) as stage:
        with (stage / DATA).open("xb") as file:
            writer = _Writer(source, file, chosen)
            for done in writer.write():
                observer(Progress("export", done, plan.bytes))
            _flush(file)
        with (stage / DCP_METADATA).open("xb") as file:
            pickle.dump(writer.metadata(place=plan.folder), file)
            _flush(file)
        publish(plan, stage)


class _Writer:
    """Writes archives one after the other, and keeps where each is."""

    def __init__(self, source: Source, file: BinaryIO, chosen: Chosen) -> None:
        self._source = source
        self._file = file
        self._chosen = chosen
        self._limit = source.opened.config.window_bytes // 2
        self._entries: dict[str, STORAGE_TYPES] = {}
        self._stored: dict[MetadataIndex, _StorageInfo] = {}

    def write(self) -> Iterator[int]:
        """Yields the bytes of each chunk when it is written."""
        for fqn in self._chosen.objects:
            name = self._chosen.called(fqn)
            self._entries[name] = BytesStorageMetadata()
            self._append(MetadataIndex(name), to_torch_zip(self._source.read_object(fqn, self._limit), key=fqn))
        for fqn in self._chosen.tensors:
            yield from self._write_tensor(fqn, self._chosen.called(fqn))

    def _write_tensor(self, fqn: str, name: str) -> Iterator[int]:
        table = self._source.index.tensors[fqn]
        dtype = torch_dtype(table.dtype)
        chunks = []
        for part in parts_of(self._source, fqn, 0, self._limit):
            self._append(MetadataIndex(name, torch.Size(part.origin)), self._read(part, dtype))
            chunks.append(ChunkStorageMetadata(torch.Size(part.origin), torch.Size(part.sizes)))
            yield part.nbytes
        if not chunks:  # a tensor without elements
            origin = torch.Size([0] * len(table.shape))
            self._append(MetadataIndex(name, origin), torch.empty(table.shape, dtype=dtype))
            chunks.append(ChunkStorageMetadata(origin, torch.Size(table.shape)))
        self._entries[name] = TensorStorageMetadata(TensorProperties(dtype=dtype), torch.Size(table.shape), chunks)

    def _read(self, part: Part, dtype: torch.dtype) -> torch.Tensor:
        into = np.empty(part.nbytes, np.uint8)
        runs = box_runs([part.nbytes], 1, [0], [part.nbytes])
        self._source.read([Request(part.shard, part.offset, runs, into)])
        return torch.from_numpy(into).view(dtype).reshape(part.sizes)

    def _append(self, index: MetadataIndex, value: Any) -> None:
        start = self._file.tell()
        if isinstance(value, bytes):
            self._file.write(value)
        else:
            torch.save(value, self._file)
        self._stored[index] = _StorageInfo(DATA, start, self._file.tell() - start)

    def metadata(self, place: Path) -> Metadata:
        """What the folder says of itself. `place`: where it will be."""
        layout = Layout.of(metadata_of(self._source.index))
        paths = {} if self._chosen.prefix else torch_paths(layout.root)
        return Metadata(
            state_dict_metadata=self._entries,
            planner_data={name: paths.get(name, (name,)) for name in self._entries},
            storage_data=self._stored,
            storage_meta=StorageMeta(checkpoint_id=str(place)),
            version="1.0.0",
        )


def _flush(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())
