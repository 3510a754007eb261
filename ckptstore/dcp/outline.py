"""What a rank needs of an index to plan a load: all but the references to shards, of which it reads from a few.

    rank 0 reads the index → outline to all → every rank plans, naming the shards it reads from → rank 0 hands those out

An index has a shard for every rank that saved, and for each tensor the number of every chunk's shard: both grow with
the job. The outline of a state whose tensors are cut along one axis, or held by one rank, doesn't. So at a restart a
rank has the same work in every job, and only rank 0's grows. Cut along two axes (FSDP with tensor parallelism) a tensor
has as many runs as one of them has ranks, and so has its outline. Outline and references come from an index that rank 0
has checked.
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

__all__ = ["Outline", "Stepwise"]


class Stepwise(Sequence[int]):
    """A long column of numbers as rows of even steps: of each where it begins, its first number and its step."""

    def __init__(self, numbers: Sequence[int]) -> None:
        column = np.asarray(numbers, np.int64)
        steps = np.diff(column)
        changes = np.flatnonzero(np.diff(steps)) + 1  # where the step is another one than before
        self._begins: list[int] = []
        at = 0
        while at < len(column):
            self._begins.append(at)
            change = np.searchsorted(changes, at, "right")
            at = int(changes[change]) + 1 if change < len(changes) else len(column)
        self._values: list[int] = column[self._begins].tolist()
        self._steps: list[int] = [int(steps[at]) if at < len(steps) else 0 for at in self._begins]
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
        if not -self._length <= at < self._length:
            raise IndexError(at)
        at %= self._length
        row = bisect_right(self._begins, at) - 1
        return self._values[row] + (at - self._begins[row]) * self._steps[row]


@dataclass(frozen=True)
class Outline:
    """One checkpoint's manifest, and its index without shards. Pickles small."""

    manifest: Manifest
    index: Index

    @classmethod
    def of(cls, manifest: Manifest, index: Index) -> "Outline":
        """Of a checkpoint whose whole index was read."""
        tensors = index.tensors
        chunks = replace(tensors.chunks, shard=Stepwise(tensors.chunks.shard))
        return cls(manifest, replace(index, shards=[], tensors=replace(tensors, chunks=chunks)))

    def source(self, opened: Opened, observer: Observer) -> Source:
        """The checkpoint, to be read once it has the `references` to the shards wanted."""
        return Source(opened, self.manifest, self.index, observer)
