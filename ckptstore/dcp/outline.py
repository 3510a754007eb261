"""What a rank needs of an index to plan a load: all but the references to shards, of which it reads from a few.

    rank 0 reads the index → outline to all → every rank plans, naming the shards it reads from → rank 0 hands those out

An index has a shard for every rank that saved, and for each tensor the number of every chunk's shard: both grow with
the job. The outline of a state that was cut evenly doesn't. So at a restart a rank has the same work in every job, and
only rank 0's grows. Outline and references come from an index that rank 0 has checked.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np
from msgspec.structs import replace

from ckptstore.events import Observer
from ckptstore.opened import Opened
from ckptstore.source import Source
from manifests import Index, Manifest

__all__ = ["Ascending", "Outline"]


class Ascending(Sequence[int]):
    """A long column of numbers, most of which are one more than the one before: as where each such row begins."""

    def __init__(self, numbers: Sequence[int]) -> None:
        column = np.asarray(numbers, np.int64)
        begins = np.flatnonzero(np.diff(column, prepend=column[:1]) != 1)
        self._begins: list[int] = begins.tolist()
        self._values: list[int] = column[begins].tolist()
        self._length = len(column)

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, at: int) -> int: ...
    @overload
    def __getitem__(self, at: slice) -> list[int]: ...
    def __getitem__(self, at: int | slice) -> int | list[int]:
        if isinstance(at, slice):
            return [self[i] for i in range(*at.indices(self._length))]
        if not 0 <= at < self._length:
            raise IndexError(at)
        row = bisect_right(self._begins, at) - 1
        return self._values[row] + at - self._begins[row]


@dataclass(frozen=True)
class Outline:
    """One checkpoint's manifest, and its index without shards. Pickles small."""

    manifest: Manifest
    index: Index

    @classmethod
    def of(cls, manifest: Manifest, index: Index) -> "Outline":
        """Of a checkpoint whose whole index was read."""
        tensors = index.tensors
        chunks = replace(tensors.chunks, shard=Ascending(tensors.chunks.shard))
        return cls(manifest, replace(index, shards=[], tensors=replace(tensors, chunks=chunks)))

    def source(self, opened: Opened, observer: Observer) -> Source:
        """The checkpoint, to be read once the references to the shards wanted are `handed`."""
        return Source(opened, self.manifest, self.index, observer, handed={})
