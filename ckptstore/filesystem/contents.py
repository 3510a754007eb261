"""A checkpoint, or a file that waits to be committed, as files whose bytes can be read in any range."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ckptstore.buffers import Bytes
from ckptstore.filesystem.note import Written
from ckptstore.load.plan import Request, box_runs
from ckptstore.opened import Opened
from ckptstore.operations.assembly import tensor_bytes
from ckptstore.operations.restore import FileToWrite, files_of
from ckptstore.operations.slices import Box, read_boxes, whole_box
from ckptstore.source import Source
from manifests import Index, Manifest

__all__ = ["Contents", "read_ranges"]


@dataclass(eq=False)
class Contents:
    """What is committed never changes, so this holds as long as anybody wants to keep it."""

    opened: Opened
    manifest: Manifest
    index: Index

    @classmethod
    def of_checkpoint(cls, opened: Opened, manifest: Manifest) -> "Contents":
        """Of a committed one. Raises as `Source.open`."""
        return cls(opened, manifest, Source.open(opened, manifest).index)

    @classmethod
    def of_written(cls, opened: Opened, run: str, written: Written) -> "Contents":
        """Of one file, which no manifest names."""
        session, ordinal = written.key
        nobody = Manifest(
            kind="void", run=run, session=session, ordinal=ordinal, name=None, checkpoint_id=None, step=None
        )
        return cls(opened, nobody, written.index)

    @cached_property
    def files(self) -> dict[str, FileToWrite]:
        """By path in the checkpoint: those it was saved from, or would be restored to; without `objects.json`."""
        return {file.path: file for file in files_of(self.source()) if not file.objects}

    @cached_property
    def shards(self) -> frozenset[str]:
        """The ids of its shards."""
        return frozenset(shard.shard_id for shard in self.index.shards)

    def source(self) -> Source:
        """To read with: what it learns of targets out of reach, it forgets with this one."""
        return Source(self.opened, self.manifest, self.index, references=self.index.shards)


def read_ranges(source: Source, ranges: list[tuple[FileToWrite, int, int]]) -> list[bytes]:
    """Bytes `start` to `end` of each file, verified, all in one go. Raises as `Source.read`."""
    outs = [np.empty(end - start, np.uint8) for _, start, end in ranges]
    requests: list[Request] = []
    for out, (file, start, end) in zip(outs, ranges, strict=True):
        head = file.header[start:end]
        out[: len(head)] = np.frombuffer(head, np.uint8)
        for fqn, base in file.offsets:
            low, high = max(start - base, 0), min(end - base, tensor_bytes(source, fqn))
            if low < high:
                requests += _requests(source, fqn, low, out[base + low - start : base + high - start])
    source.read(requests)
    return [out.tobytes() for out in outs]


def _requests(source: Source, fqn: str, start: int, into: Bytes) -> Iterator[Request]:
    """What fills `into` with bytes of a tensor, from `start` on. One in several chunks is read here, by whole rows."""
    chunks = source.index.tensors[fqn].chunks
    if len(chunks) == 1:
        ((shard, entry),) = source.locate([(fqn, chunks[0].offsets)])
        yield Request(shard, entry.offset, box_runs([entry.nbytes], 1, [start], [into.size]), into)
        return
    whole = whole_box(source, fqn)
    row = whole.nbytes // whole.sizes[0]
    first, last = start // row, -(-(start + into.size) // row)
    box = Box(fqn, (first, *whole.offsets[1:]), (last - first, *whole.sizes[1:]), whole.itemsize)
    (rows,) = read_boxes(source, [box])
    into[:] = rows[start - first * row :][: into.size]
