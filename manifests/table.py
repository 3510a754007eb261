"""The tensor table of an index: which shard holds which part of which tensor, in columns.

A checkpoint of 1,024 tensors on 1,024 ranks has a million chunks. As JSON objects they would be 80 MB; here
chunks of one size side by side along one axis are one *run*, and only their shards are listed one by one.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple

from manifests.errors import shown
from manifests.format_errors import DuplicateName
from manifests.stored import Stored


class Chunk(NamedTuple):
    """A box of a tensor, one number a dimension, and the position of its shard in the index's `shards`."""

    offsets: tuple[int, ...]
    sizes: tuple[int, ...]
    shard: int


class TableEntry(NamedTuple):
    """A tensor, or a byte object: dtype "object", no shape, one chunk without dimensions."""

    fqn: str
    dtype: str
    shape: tuple[int, ...]
    chunks: list[Chunk]


class Run(NamedTuple):
    """`length` boxes of one size, side by side along `axis`; the first is at `offsets`."""

    length: int
    axis: int
    offsets: tuple[int, ...]
    sizes: tuple[int, ...]

    def starts(self, positions: Iterable[int] | None = None) -> Iterator[tuple[int, ...]]:
        """Yield the offsets of each box, or of those at `positions`. A box without dimensions is alone in its run."""
        chosen = range(self.length) if positions is None else positions
        if not self.offsets:
            yield from (() for _ in chosen)
            return
        before, after = self.offsets[: self.axis], self.offsets[self.axis + 1 :]
        first, step = self.offsets[self.axis], self.sizes[self.axis]
        for i in chosen:
            yield (*before, first + i * step, *after)

    def overlapping(self, offsets: Sequence[int], sizes: Sequence[int]) -> range:
        """The positions of the boxes that have an element in common with the box of `sizes` at `offsets`."""
        low, high = 0, self.length
        for axis, (own, size, begin, length) in enumerate(zip(self.offsets, self.sizes, offsets, sizes, strict=True)):
            if not (size and length):
                return range(0)
            if axis == self.axis:
                low = max(low, (begin - own) // size)
                high = min(high, -(-(begin + length - own) // size))
            elif own + size <= begin or begin + length <= own:
                return range(0)
        return range(low, high)

    def at(self, wanted: Collection[tuple[int, ...]]) -> Iterator[tuple[int, tuple[int, ...]]]:
        """Yield the position and the offsets of each box that begins at one of the offsets `wanted`."""
        if self.length <= len(wanted) or not all(self.sizes) or not self.sizes:
            yield from ((i, start) for i, start in enumerate(self.starts()) if start in wanted)
            return
        before, after = self.offsets[: self.axis], self.offsets[self.axis + 1 :]
        first, step = self.offsets[self.axis], self.sizes[self.axis]
        for start in wanted:
            if (start[: self.axis], start[self.axis + 1 :]) == (before, after):
                position, rest = divmod(start[self.axis] - first, step)
                if rest == 0 and 0 <= position < self.length:
                    yield position, start


class ChunkColumns(Stored, kw_only=True):
    """Chunks in columns: one number a run (`offsets` and `sizes`: a dimension of a run; `shard`: a chunk)."""

    count: list[int]
    axis: list[int]
    offsets: list[int]
    sizes: list[int]
    shard: Sequence[int]


class _Place(NamedTuple):
    """Where a tensor begins in the columns: its run, that run's dimensions, its chunk."""

    run: int
    dimension: int
    chunk: int


class TensorTable(Stored, kw_only=True, dict=True):
    """All tensors and byte objects of a checkpoint in columns; `runs` counts the runs of each in `chunks`.

    `table[fqn]` gives the entry of one, in time proportional to its own chunks. A table is never changed.
    """

    fqn: list[str]
    dtype: list[str]
    shape: list[list[int]]
    runs: list[int]
    chunks: ChunkColumns

    @property
    def fqns(self) -> list[str]:
        """The names, in the order in which they were added."""
        return self.fqn

    def __len__(self) -> int:
        return len(self.fqn)

    def __contains__(self, fqn: object) -> bool:
        return fqn in self._positions

    def __iter__(self) -> Iterator[str]:
        return iter(self.fqn)

    def __getitem__(self, fqn: str) -> TableEntry:
        position = self.position(fqn)
        boxes = ((start, run.sizes) for run in self.runs_of(position) for start in run.starts())
        first, end = self._places[position].chunk, self._places[position + 1].chunk
        chunks = [Chunk(*box, shard) for box, shard in zip(boxes, self.chunks.shard[first:end], strict=True)]
        return TableEntry(fqn, self.dtype[position], tuple(self.shape[position]), chunks)

    def position(self, fqn: str) -> int:
        """Where a tensor or byte object stands in the columns. Raises KeyError."""
        return self._positions[fqn]

    def find(self, fqn: str, wanted: Collection[tuple[int, ...]]) -> dict[tuple[int, ...], Chunk]:
        """The chunks of a tensor that begin at the offsets `wanted`, in less time than listing all its chunks takes."""
        position = self.position(fqn)
        first = self._places[position].chunk
        found: dict[tuple[int, ...], Chunk] = {}
        for run in self.runs_of(position):
            found |= {start: Chunk(start, run.sizes, self.chunks.shard[first + i]) for i, start in run.at(wanted)}
            first += run.length
        return found

    def runs_of(self, position: int) -> Iterator[Run]:
        """Yield the runs of the tensor at `position`."""
        columns = self.chunks
        dimensions = len(self.shape[position])
        first, at, _ = self._places[position]
        for run in range(first, first + self.runs[position]):
            offsets, sizes = columns.offsets[at : at + dimensions], columns.sizes[at : at + dimensions]
            yield Run(columns.count[run], columns.axis[run], tuple(offsets), tuple(sizes))
            at += dimensions

    @cached_property
    def _positions(self) -> dict[str, int]:
        return {fqn: i for i, fqn in enumerate(self.fqn)}

    @cached_property
    def _places(self) -> list[_Place]:
        """The place of each tensor, and the end of the columns."""
        chunks = list(accumulate(self.chunks.count, initial=0))
        dimensions = accumulate((n * len(shape) for n, shape in zip(self.runs, self.shape, strict=True)), initial=0)
        return [
            _Place(run, dimension, chunks[run])
            for run, dimension in zip(accumulate(self.runs, initial=0), dimensions, strict=True)
        ]


class TableBuilder:
    """Builds a TensorTable from chunks in any order; the same chunks always give the same table."""

    def __init__(self) -> None:
        self._shards: list[int] = []
        self._columns = ChunkColumns(count=[], axis=[], offsets=[], sizes=[], shard=self._shards)
        self._table = TensorTable(fqn=[], dtype=[], shape=[], runs=[], chunks=self._columns)
        self._seen: set[str] = set()

    def add(
        self,
        fqn: str,
        dtype: str,
        shape: Sequence[int],
        chunks: Iterable[tuple[Sequence[int], Sequence[int], int]],
    ) -> None:
        """Add one tensor or byte object. `chunks`: (offsets, sizes, shard). Raises DuplicateName."""
        if fqn in self._seen:
            raise DuplicateName(f"{shown(fqn)} is in the table already", field="fqn", name=fqn)
        self._seen.add(fqn)
        ordered = sorted((tuple(offsets), tuple(sizes), shard) for offsets, sizes, shard in chunks)
        self._table.fqn.append(fqn)
        self._table.dtype.append(dtype)
        self._table.shape.append(list(shape))
        self._table.runs.append(self._append([box[:2] for box in ordered]))
        self._shards.extend(shard for _, _, shard in ordered)

    def _append(self, boxes: list["_Box"]) -> int:
        """Append sorted boxes as runs, each as long as it can be; return how many runs."""
        columns = self._columns
        position = runs = 0
        while position < len(boxes):
            offsets, sizes = boxes[position]
            axis, length = _run_at(boxes, position)
            columns.count.append(length)
            columns.axis.append(axis)
            columns.offsets.extend(offsets)
            columns.sizes.extend(sizes)
            position += length
            runs += 1
        return runs

    def build(self) -> TensorTable:
        """Return the table of everything added. Nothing may be added after that."""
        return self._table


_Box = tuple[tuple[int, ...], tuple[int, ...]]


def _run_at(boxes: list[_Box], position: int) -> tuple[int, int]:
    """Return the axis and the length of the longest run that begins with the box at `position`."""
    offsets, sizes = boxes[position]
    axis = _axis(boxes[position], boxes[position + 1]) if position + 1 < len(boxes) else None
    if axis is None:
        return 0, 1
    before, at, after = offsets[:axis], offsets[axis], offsets[axis + 1 :]
    for following in range(position + 1, len(boxes)):
        at += sizes[axis]
        if boxes[following] != ((*before, at, *after), sizes):
            return axis, following - position
    return axis, len(boxes) - position


def _axis(a: _Box, b: _Box) -> int | None:
    """Return the axis along which `b`, of the same sizes, directly follows `a`; None if there is none."""
    if a[1] != b[1]:
        return None
    differing = [i for i, (x, y) in enumerate(zip(a[0], b[0], strict=True)) if x != y]
    if len(differing) != 1 or b[0][differing[0]] != a[0][differing[0]] + a[1][differing[0]]:
        return None
    return differing[0]
