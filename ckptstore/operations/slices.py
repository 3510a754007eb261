"""Boxes of global tensors, wherever their chunks lie: no block is read that holds nothing of them."""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ckptstore.buffers import Bytes
from ckptstore.dtypes import dtype_named
from ckptstore.errors import UsageError
from ckptstore.load.plan import Request, box_runs
from ckptstore.operations.assembly import cut_box
from ckptstore.source import Source

__all__ = ["Box", "boxes_in", "parse_slice", "read_boxes", "whole_box"]

Numbers = tuple[int, ...]
"""One number a dimension."""


class Box(NamedTuple):
    """Where a box of a tensor begins and how long it is, one number a dimension; `itemsize` in bytes."""

    fqn: str
    offsets: Numbers
    sizes: Numbers
    itemsize: int

    @property
    def nbytes(self) -> int:
        """Its size."""
        return math.prod(self.sizes) * self.itemsize


class _Piece(NamedTuple):
    """What one chunk has of a box: where that goes in the box, and its bytes."""

    box: int
    at: Numbers
    sizes: Numbers
    staged: Bytes


def whole_box(source: Source, fqn: str) -> Box:
    """All of a tensor."""
    table = source.index.tensors
    position = table.position(fqn)
    shape = tuple(table.shape[position])
    return Box(fqn, (0,) * len(shape), shape, dtype_named(table.dtype[position]).itemsize)


def boxes_in(box: Box, limit: int) -> Iterator[Box]:
    """The box in parts of at most `limit` bytes (or one item): their bytes, one after another, are the box's."""
    for start, sizes in cut_box(box.sizes, box.itemsize, limit):
        yield box._replace(offsets=_sum(box.offsets, start), sizes=sizes)


def read_boxes(source: Source, boxes: Sequence[Box]) -> list[Bytes]:
    """The bytes of each box, row-major. Raises as `Source.read`."""
    outs = [np.empty(box.nbytes, np.uint8) for box in boxes]
    requests: list[Request] = []
    beside: list[_Piece] = []
    for number, box in enumerate(boxes):
        for at, sizes, request in _requests(source, box, outs[number]):
            requests.append(request)
            if request.into.base is not outs[number]:
                beside.append(_Piece(number, at, sizes, request.into))
    source.read(requests)
    for piece in beside:
        _scatter(piece, boxes[piece.box], outs[piece.box])
    return outs


def parse_slice(text: str, box: Box) -> Box:
    """The part of a whole tensor that `0:10,:` names, a dimension after another; those left out are taken whole.

    As in Python, but that a number keeps its dimension. Raises `UsageError` for steps and numbers outside.
    """
    parts = text.split(",") if text.strip() else []
    if len(parts) > len(box.sizes):
        raise _bad_slice(text, f"{box.fqn!r:.100} has {len(box.sizes)} dimensions")
    ranges = [_range(text, part.strip(), size) for part, size in zip(parts, box.sizes, strict=False)]
    ranges += [range(size) for size in box.sizes[len(parts) :]]
    return box._replace(offsets=tuple(r.start for r in ranges), sizes=tuple(len(r) for r in ranges))


def _range(text: str, part: str, size: int) -> range:
    first, colon, last = part.partition(":")
    try:
        numbers = [int(number) if number.strip() else None for number in (first, last)]
    except ValueError:
        raise _bad_slice(text, f"{part!r} is no number and no range") from None
    if colon:
        return range(*slice(*numbers).indices(size))
    if numbers[0] is None or not -size <= numbers[0] < size:
        raise _bad_slice(text, f"{part!r} is none of {size} positions")
    return range(numbers[0] % size, numbers[0] % size + 1)


def _bad_slice(text: str, why: str) -> UsageError:
    return UsageError(f"--slice {text}: {why}", hint="a range for each dimension, as in --slice 0:10,:")


def _requests(source: Source, box: Box, out: Bytes) -> Iterator[tuple[Numbers, Numbers, Request]]:
    """Of each chunk that has some of the box: where that goes, its size, and the request for it.

    It is read to its place where it is one piece there.
    """
    chunks = list(_chunks(source, box))
    found = source.locate([(box.fqn, start) for start, _ in chunks])
    for (start, sizes), (shard, entry) in zip(chunks, found, strict=True):
        low = tuple(map(max, start, box.offsets))
        high = map(min, _sum(start, sizes), _sum(box.offsets, box.sizes))
        lengths = _difference(tuple(high), low)
        runs = box_runs(sizes, box.itemsize, _difference(low, start), lengths)
        at = _difference(low, box.offsets)
        there = box_runs(box.sizes, box.itemsize, at, lengths).starts
        first = int(there[0])
        into = out[first : first + runs.total] if len(there) == 1 else np.empty(runs.total, np.uint8)
        yield at, lengths, Request(shard, entry.offset, runs, into)


def _chunks(source: Source, box: Box) -> Iterator[tuple[Numbers, Numbers]]:
    """Offsets and sizes of the chunks that have an element in common with a box."""
    table = source.index.tensors
    if box.nbytes:
        for run in table.runs_of(table.position(box.fqn)):
            for start in run.starts(run.overlapping(box.offsets, box.sizes)):
                yield start, run.sizes


def _scatter(piece: _Piece, box: Box, out: Bytes) -> None:
    item = np.dtype(f"V{box.itemsize}")  # bits only: no dtype of numpy's is needed, nor alignment
    place = tuple(slice(at, at + size) for at, size in zip(piece.at, piece.sizes, strict=True))
    out.view(item).reshape(box.sizes)[place] = piece.staged.view(item).reshape(piece.sizes)


def _sum(a: Numbers, b: Numbers) -> Numbers:
    return tuple(x + y for x, y in zip(a, b, strict=True))


def _difference(a: Numbers, b: Numbers) -> Numbers:
    return tuple(x - y for x, y in zip(a, b, strict=True))
