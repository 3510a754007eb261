"""An open store with limits: so many bytes a second, so many requests at once, for one piece of work.

Training goes on beside it: what else this process does with the store isn't slowed down.
"""

import copy
import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypedDict

from ckptstore.arguments import is_number, is_whole
from ckptstore.errors import UsageError
from ckptstore.load.patience import Patience
from ckptstore.opened import THREADS, Opened
from ckptstore.targets import LimitTarget, RateLimit

MOST_JOBS = 1024


class Pace(TypedDict, total=False):
    """`limit_rate`: bytes a second at most. `jobs`: requests at once."""

    limit_rate: float | None
    jobs: int | None


class How(Pace, total=False):
    """Of a verify also `resume`: the file in which it keeps what it found good, and goes on from."""

    resume: str | os.PathLike[str] | None


class Work(Pace, total=False):
    """Of a repair also `shard`: "i/N", the part of the work to do."""

    shard: str | None


__all__ = ["MOST_JOBS", "How", "Pace", "Work", "check_pace", "paced"]


class _Unhurried(Patience):
    """A read that waits for its turn is not late."""

    def may_hedge(self, reads: int) -> bool:  # noqa: ARG002 - as its base
        """Never."""
        return False


@contextmanager
def paced(opened: Opened, *, limit_rate: float | None = None, jobs: int | None = None) -> Iterator[Opened]:
    """The same store, by way of targets that wait: `limit_rate` in bytes a second, `jobs` requests at once.

    Raises `UsageError` as `check_pace`.
    """
    check_pace(limit_rate, jobs)
    if limit_rate is None and jobs is None:
        yield opened
        return
    _ = opened.buffers  # shared: the window bounds the process
    view = copy.copy(opened)
    rate = None if limit_rate is None else RateLimit(float(limit_rate))
    slots = None if jobs is None else threading.BoundedSemaphore(jobs)
    view.targets = {name: LimitTarget(target, rate=rate, slots=slots) for name, target in opened.targets.items()}
    view.executor = ThreadPoolExecutor(jobs or THREADS, thread_name_prefix="ckptstore-paced")
    view.__dict__.pop("group", None)  # made when it is asked for, of targets with limits
    if rate is not None:
        view.__dict__["patience"] = _Unhurried()
    try:
        yield view
    finally:
        if rate is not None:
            rate.end()
        view.executor.shutdown(wait=False)


def check_pace(limit_rate: object, jobs: object) -> None:
    """Raise `UsageError`, naming which, for what is no number of bytes a second or of requests."""
    if limit_rate is not None and not (is_number(limit_rate) and 0 < limit_rate < float("inf")):  # type: ignore[operator]
        message = f"limit_rate = {limit_rate!r:.80}: bytes a second, above 0, are wanted"
        raise UsageError(message, hint="limit_rate=100 * 2**20")
    if jobs is not None and not (is_whole(jobs) and 1 <= jobs <= MOST_JOBS):  # type: ignore[operator]
        message = f"jobs = {jobs!r:.80}: how many requests at once, from 1 to {MOST_JOBS}, is wanted"
        raise UsageError(message, hint=f"jobs=8; {THREADS} unless told")
