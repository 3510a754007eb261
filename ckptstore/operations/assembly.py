"""Chunks of tensors from many shards into one flat buffer, each at its place in its global tensor; memory is bounded.

What lies in one piece in its tensor is read straight into the buffer; what does not (a column of a matrix, say) by way
of a buffer beside it.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ckptstore.buffers import Bytes
from ckptstore.dtypes import dtype_named, nbytes_of
from ckptstore.load.plan import Request, Shard, box_runs
from ckptstore.source import Source

__all__ = ["Part", "cut_box", "parts_of", "read_parts", "tensor_bytes"]


@dataclass(frozen=True)
class Part:
    """A box of a stored chunk: where it is stored, and where it goes in a global tensor that starts at `base`."""

    shard: Shard
    offset: int
    itemsize: int
    base: int
    shape: tuple[int, ...]
    origin: tuple[int, ...]
    sizes: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        """Its size."""
        return math.prod(self.sizes) * self.itemsize


def tensor_bytes(source: Source, fqn: str) -> int:
    """The size of a whole tensor."""
    entry = source.index.tensors[fqn]
    return nbytes_of(entry.dtype, entry.shape)


def parts_of(source: Source, fqn: str, base: int, limit: int) -> Iterator[Part]:
    """The parts of a tensor that is to stand at `base`, none larger than `limit` bytes."""
    table = source.index.tensors[fqn]
    itemsize = dtype_named(table.dtype).itemsize
    stored = source.locate([(fqn, chunk.offsets) for chunk in table.chunks])
    for chunk, (shard, entry) in zip(table.chunks, stored, strict=True):
        for at, sizes in cut_box(chunk.sizes, itemsize, limit):
            start = int(box_runs(chunk.sizes, itemsize, at, sizes).starts[0])
            origin = tuple(a + b for a, b in zip(chunk.offsets, at, strict=True))
            yield Part(shard, entry.offset + start, itemsize, base, table.shape, origin, sizes)


def read_parts(source: Source, parts: Sequence[Part], into: Bytes) -> None:
    """Read parts, each to its place in `into`. Raises `DataLost`, `OutOfReach`, `CorruptError`."""
    requests, beside = [], []
    for part in parts:
        runs = box_runs(part.shape, part.itemsize, part.origin, part.sizes)
        if len(runs.starts) == 1:
            start = part.base + int(runs.starts[0])
            requests.append(_request(part, into[start : start + part.nbytes]))
        else:
            beside.append((part, np.empty(part.nbytes, np.uint8)))
            requests.append(_request(*beside[-1]))
    source.read(requests)
    for part, staged in beside:
        _scatter(part, staged, into)


def _request(part: Part, into: Bytes) -> Request:
    return Request(part.shard, part.offset, box_runs([part.nbytes], 1, [0], [part.nbytes]), into)


def cut_box(sizes: tuple[int, ...], itemsize: int, limit: int) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Cut a box into parts (start, lengths) of at most `limit` bytes, or one item, each one piece of it row-major."""
    nbytes = math.prod(sizes) * itemsize
    axis = next((d for d, length in enumerate(sizes) if length > 1), None)
    if not nbytes:
        return
    if axis is None or nbytes <= limit:
        yield (0,) * len(sizes), sizes
        return
    step = max(limit * sizes[axis] // nbytes, 1)
    for first in range(0, sizes[axis], step):
        part = (*sizes[:axis], min(step, sizes[axis] - first), *sizes[axis + 1 :])
        for start, lengths in cut_box(part, itemsize, limit):
            yield (*start[:axis], start[axis] + first, *start[axis + 1 :]), lengths


def _scatter(part: Part, staged: Bytes, into: Bytes) -> None:
    item = np.dtype(f"V{part.itemsize}")  # bits only: no dtype of numpy's is needed, nor alignment
    whole = into[part.base : part.base + math.prod(part.shape) * part.itemsize].view(item).reshape(part.shape)
    box = tuple(slice(at, at + size) for at, size in zip(part.origin, part.sizes, strict=True))
    whole[box] = staged.view(item).reshape(part.sizes)
