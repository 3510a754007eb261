"""From tensor slices to byte ranges to the blocks of a stripe: reads no more than what was asked for."""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

import erasure
from ckptstore.buffers import Bytes
from manifests import ShardRecord, Stripe

__all__ = ["Request", "Runs", "Shard", "Want", "box_runs", "plan_wants", "whole_shard", "whole_stripe"]


@dataclass(frozen=True, slots=True)
class Runs:
    """Equal runs of consecutive bytes, ascending: where each starts (relative to its tensor) and how long all are."""

    starts: NDArray[np.int64]
    nbytes: int

    @property
    def total(self) -> int:
        """Bytes of all runs."""
        return len(self.starts) * self.nbytes


@dataclass(frozen=True, eq=False)
class Shard:
    """A shard open for reading: its record, and where its fragments lie."""

    run: str
    record: ShardRecord


@dataclass(frozen=True, eq=False)
class Request:
    """Bytes wanted of a shard: `runs` counted from `offset` in its stream, to stand one after another in `into`."""

    shard: Shard
    offset: int
    runs: Runs
    into: Bytes


@dataclass(frozen=True, eq=False)
class Want:
    """What is wanted of one stripe: (fragment, block) pairs, data fragments only, and the requests that want them."""

    shard: Shard
    number: int
    shape: erasure.StripeShape
    blocks: set[tuple[int, int]] = field(default_factory=set)
    requests: list[Request] = field(default_factory=list)

    @property
    def stripe(self) -> Stripe:
        """Its row in the record."""
        return self.shard.record.stripes[self.number]


def box_runs(shape: Sequence[int], itemsize: int, offsets: Sequence[int], lengths: Sequence[int]) -> Runs:
    """The runs of the box `[offset, offset + length)` of each dimension in a row-major tensor of `shape`.

    Trailing dimensions that are wanted whole join one run. An empty box has no runs.
    """
    if math.prod(lengths) == 0:
        return Runs(np.empty(0, np.int64), 0)
    joined = len(shape)
    while joined and lengths[joined - 1] == shape[joined - 1]:
        joined -= 1
    outer = max(joined - 1, 0)  # the first dimension cut short still is one run, from its offset
    strides = [itemsize * math.prod(shape[d + 1 :]) for d in range(len(shape))]
    starts = np.zeros(1, np.int64)
    for d in range(outer):
        steps = (offsets[d] + np.arange(lengths[d], dtype=np.int64)) * strides[d]
        starts = (starts[:, None] + steps[None, :]).reshape(-1)
    if outer < len(shape):
        starts = starts + offsets[outer] * strides[outer]
    return Runs(starts, itemsize * math.prod(lengths[outer:]))


def plan_wants(requests: Iterable[Request]) -> list[Want]:
    """What to read of each stripe so that every request is answered, shard by shard and in stripe order."""
    wants: dict[tuple[int, int], Want] = {}
    by_shard: dict[int, list[Request]] = defaultdict(list)
    for request in requests:
        by_shard[id(request.shard)].append(request)
    for group in by_shard.values():
        for request in sorted(group, key=lambda r: r.offset):
            _add(request, wants)
    return list(wants.values())


def whole_shard(shard: Shard) -> list[Want]:
    """What to read of each stripe to have all of the stream, in order; answers no request."""
    return [whole_stripe(shard, number) for number in range(len(shard.record.stripes))]


def whole_stripe(shard: Shard, number: int) -> Want:
    """The same of one stripe."""
    want = _open_want(shard, number)
    want.blocks.update((f, block) for f in range(want.shape.k) for block in range(want.shape.blocks(f)))
    return want


def _add(request: Request, wants: dict[tuple[int, int], Want]) -> None:
    if not request.runs.total:
        return
    record = request.shard.record
    first = request.offset + request.runs.starts
    offsets = np.array([stripe.offset for stripe in record.stripes], np.int64)
    low = int(np.searchsorted(offsets, first[0], "right")) - 1
    high = int(np.searchsorted(offsets, first[-1] + request.runs.nbytes, "left"))
    for number in range(low, high):
        want = wants.get((id(request.shard), number)) or _open_want(request.shard, number)
        blocks = _blocks(want, first, request.runs.nbytes)
        if blocks:
            want.blocks.update(blocks)
            want.requests.append(request)
            wants[id(request.shard), number] = want


def _open_want(shard: Shard, number: int) -> Want:
    stripe = shard.record.stripes[number]
    code = shard.record.codes[stripe.code]
    return Want(shard, number, erasure.StripeShape(code.k, code.m, stripe.length, shard.record.digest.block))


def _blocks(want: Want, starts: NDArray[np.int64], nbytes: int) -> set[tuple[int, int]]:
    """The blocks that hold the runs' bytes in this stripe.

    All blocks of the data fragments are numbered in a row, so that a run covers consecutive ones; the sum over the
    edges of the runs counts the runs on every block.
    """
    begin, shape = want.stripe.offset, want.shape
    here = starts[np.searchsorted(starts, begin - nbytes, "right") : np.searchsorted(starts, begin + shape.length)]
    first = np.maximum(here - begin, 0)
    last = np.minimum(here + nbytes - begin, shape.length) - 1
    in_row = -(-shape.span // shape.block)
    edges = np.bincount(_block_of(shape, first), minlength=shape.k * in_row + 1)
    edges -= np.bincount(_block_of(shape, last) + 1, minlength=shape.k * in_row + 1)
    return {divmod(number, in_row) for number in np.flatnonzero(np.cumsum(edges)).tolist()}


def _block_of(shape: erasure.StripeShape, at: NDArray[np.int64]) -> NDArray[np.int64]:
    """The number, over all data fragments, of the block that holds each byte of the stripe."""
    return at // shape.span * -(-shape.span // shape.block) + at % shape.span // shape.block
