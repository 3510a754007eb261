"""The tensor table of an index: which shard holds which part of which tensor, in columns.

A checkpoint of 1,024 tensors on 1,024 ranks has a million chunks. As JSON objects they would be 80 MB; here
chunks of one size that lie side by side along one axis are one *run*, and a run is a row of six columns.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple

from manifests.errors import DuplicateName, shown
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
    """Chunks of one size side by side along `axis`; from each to the next the shard grows by `shard_step`."""

    length: int
    axis: int
    offsets: tuple[int, ...]
    sizes: tuple[int, ...]
    shard: int
    shard_step: int

    def chunks(self) -> Iterator[Chunk]:
        """Yield the chunks, first to last."""
        before, after = self.offsets[: self.axis], self.offsets[self.axis + 1 :]
        for i in range(self.length):
            here = tuple(o + i * self.sizes[self.axis] for o in self.offsets[self.axis : self.axis + 1])
            yield Chunk(before + here + after, self.sizes, self.shard + i * self.shard_step)


class RunColumns(Stored, kw_only=True):
    """Runs in columns: one number a run; in `offsets` and `sizes` one a dimension of the run's tensor."""

    count: list[int]
    axis: list[int]
    offsets: list[int]
    sizes: list[int]
    shard: list[int]
    shard_step: list[int]


class TensorTable(Stored, kw_only=True, dict=True):
    """All tensors and byte objects of a checkpoint in columns; `runs` counts the rows of each in `chunks`.

    `table[fqn]` gives the entry of one, in time proportional to its own chunks. A table is never changed.
    """

    fqn: list[str]
    dtype: list[str]
    shape: list[list[int]]
    runs: list[int]
    chunks: RunColumns

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
        position = self._positions[fqn]
        chunks = [chunk for run in self.runs_of(position) for chunk in run.chunks()]
        return TableEntry(fqn, self.dtype[position], tuple(self.shape[position]), chunks)

    def runs_of(self, position: int) -> Iterator[Run]:
        """Yield the runs of the tensor at `position`."""
        first, at = self._starts[position]
        dimensions = len(self.shape[position])
        columns = self.chunks
        for i in range(first, first + self.runs[position]):
            offsets, sizes = (tuple(c[at : at + dimensions]) for c in (columns.offsets, columns.sizes))
            yield Run(
                columns.count[i], columns.axis[i], offsets, sizes, columns.shard[i], columns.shard_step[i]
            )
            at += dimensions

    @cached_property
    def _positions(self) -> dict[str, int]:
        return {fqn: i for i, fqn in enumerate(self.fqn)}

    @cached_property
    def _starts(self) -> list[tuple[int, int]]:
        """For each tensor its first run, and the first of that run's numbers in `offsets` and `sizes`."""
        numbers = (runs * len(shape) for runs, shape in zip(self.runs, self.shape, strict=True))
        return list(zip(accumulate(self.runs, initial=0), accumulate(numbers, initial=0), strict=True))


class TableBuilder:
    """Builds a TensorTable from chunks in any order; the same chunks always give the same table."""

    def __init__(self) -> None:
        self._columns = RunColumns(count=[], axis=[], offsets=[], sizes=[], shard=[], shard_step=[])
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
            raise DuplicateName(f"{shown(fqn)} is in the table already", name=fqn)
        self._seen.add(fqn)
        runs = _runs(sorted(Chunk(tuple(offsets), tuple(sizes), shard) for offsets, sizes, shard in chunks))
        self._table.fqn.append(fqn)
        self._table.dtype.append(dtype)
        self._table.shape.append(list(shape))
        self._table.runs.append(len(runs))
        for run in runs:
            self._append(run)

    def _append(self, run: Run) -> None:
        columns = self._columns
        columns.count.append(run.length)
        columns.axis.append(run.axis)
        columns.offsets.extend(run.offsets)
        columns.sizes.extend(run.sizes)
        columns.shard.append(run.shard)
        columns.shard_step.append(run.shard_step)

    def build(self) -> TensorTable:
        """Return the table of everything added. Nothing may be added after that."""
        return self._table


def _runs(chunks: list[Chunk]) -> list[Run]:
    """Gather sorted chunks into runs, each as long as it can be."""
    runs: list[Run] = []
    position = 0
    while position < len(chunks):
        run = _run_from(chunks, position)
        runs.append(run)
        position += run.length
    return runs


def _run_from(chunks: list[Chunk], position: int) -> Run:
    first = chunks[position]
    if position + 1 == len(chunks) or (axis := _axis(first, chunks[position + 1])) is None:
        return Run(1, 0, *first, 0)
    step = chunks[position + 1].shard - first.shard
    run = Run(len(chunks) - position, axis, *first, step)
    for length, expected in enumerate(run.chunks()):
        if chunks[position + length] != expected:
            return run._replace(length=length)
    return run


def _axis(a: Chunk, b: Chunk) -> int | None:
    """Return the axis along which `b`, of the same sizes, directly follows `a`; None if there is none."""
    if a.sizes != b.sizes:
        return None
    differing = [i for i, (x, y) in enumerate(zip(a.offsets, b.offsets, strict=True)) if x != y]
    if len(differing) != 1 or b.offsets[differing[0]] != a.offsets[differing[0]] + a.sizes[differing[0]]:
        return None
    return differing[0]
