"""Requests in, verified bytes out: stripes are read ahead as far as the window allows, and copied in order."""

from collections import deque
from collections.abc import Iterator, Sequence

import numpy as np

from ckptstore.buffers import BufferPool, Bytes
from ckptstore.errors import DataLost, OutOfReach
from ckptstore.events import Observer, Progress, ignore
from ckptstore.load.fetch import Fetcher
from ckptstore.load.plan import Request, Want, plan_wants
from ckptstore.load.stripe import StripeRead

__all__ = ["read", "verified"]


def read(requests: Sequence[Request], fetcher: Fetcher, buffers: BufferPool, observer: Observer = ignore) -> None:
    """Fill every request's `into`. Raises `DataLost`, `OutOfReach` or `CorruptError`; no unverified byte is copied."""
    wants = plan_wants(requests)
    total = sum(want.shape.length for want in wants)
    for stripe in verified(wants, fetcher, buffers):
        for request in stripe.want.requests:
            _copy(request, stripe)
        observer(Progress("load", stripe.want.shape.length, total))


def verified(wants: Sequence[Want], fetcher: Fetcher, buffers: BufferPool) -> Iterator[StripeRead]:
    """Each stripe with its wanted blocks good, in order; its buffer is used again once the next one is asked for."""
    ahead: deque[StripeRead] = deque()
    waiting = deque(wants)
    try:
        while ahead or waiting:
            _read_ahead(ahead, waiting, fetcher, buffers)
            if not ahead[0].finish(hurried=True):
                ahead[0] = _hedged(ahead[0], buffers)
            yield ahead[0]
            buffers.give(ahead.popleft().buffer)
    finally:
        for stripe in ahead:
            stripe.abandon()
            buffers.give(stripe.buffer)


def _read_ahead(ahead: deque[StripeRead], waiting: deque[Want], fetcher: Fetcher, buffers: BufferPool) -> None:
    while waiting:
        size = waiting[0].shape.n * waiting[0].shape.span
        buffer = buffers.take_now(size) if ahead else buffers.take(size)
        if buffer is None:
            return
        ahead.append(StripeRead(waiting.popleft(), buffer, fetcher))
        ahead[-1].start()


def _hedged(stripe: StripeRead, buffers: BufferPool) -> StripeRead:
    """The stripe finished, with other fragments in the place of those that are late, where memory and fragments do."""
    buffer = buffers.take_now(stripe.buffer.size)
    if buffer is not None:
        other = stripe.hedge(buffer)
        try:
            other.start()
            other.finish()
        except BaseException as error:
            other.abandon()
            buffers.give(buffer)
            if not isinstance(error, DataLost | OutOfReach):
                raise
        else:
            stripe.let_go(buffers.give)
            return other
    stripe.finish()  # it takes those that are late
    return stripe


def _copy(request: Request, stripe: StripeRead) -> None:
    """Copy what this stripe holds of a request's runs."""
    begin, data = stripe.want.stripe.offset, stripe.data
    nbytes = request.runs.nbytes
    starts = request.offset + request.runs.starts - begin
    first = int(np.searchsorted(starts, -nbytes, "right"))
    last = int(np.searchsorted(starts, data.size, "left"))
    whole = _whole_runs(starts[first:last], nbytes, data)
    for run in range(first, last):
        if not (whole and first + whole[0] <= run < first + whole[1]):
            low, high = max(int(starts[run]), 0), min(int(starts[run]) + nbytes, data.size)
            at = run * nbytes + low - int(starts[run])
            request.into[at : at + high - low] = data[low:high]
    if whole:
        low, high = first + whole[0], first + whole[1]
        target = request.into[low * nbytes : high * nbytes].reshape(high - low, nbytes)
        target[:] = _strided(data, int(starts[low]), high - low, int(starts[low + 1] - starts[low]), nbytes)


def _whole_runs(
    starts: "np.ndarray[tuple[int], np.dtype[np.int64]]", nbytes: int, data: Bytes
) -> tuple[int, int] | None:
    """The runs that lie whole in the stripe, where they are evenly spaced: many short ones are copied in one call."""
    low = int(np.searchsorted(starts, 0, "left"))
    high = int(np.searchsorted(starts, data.size - nbytes, "right"))
    if high - low < 2:  # noqa: PLR2004 - a spacing takes two
        return None
    steps = np.diff(starts[low:high])
    return (low, high) if (steps == steps[0]).all() else None


def _strided(data: Bytes, start: int, count: int, step: int, nbytes: int) -> Bytes:
    return np.lib.stride_tricks.as_strided(data[start:], (count, nbytes), (step, 1), writeable=False)
