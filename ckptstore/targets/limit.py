"""Limits: so many bytes a second over all targets of a piece of work, and so many requests at once."""

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TypeVar

from ckptstore.errors import StoreClosed
from ckptstore.targets.base import Buffer, Target, as_buffers
from ckptstore.targets.wrapper import Wrapper

__all__ = ["LimitTarget", "RateLimit"]

T = TypeVar("T")


class RateLimit:
    """A token bucket of `rate` bytes a second that holds nothing in store: whoever spends waits for those before.

    So what has begun by any time is at most `rate` times the seconds since the first, and one request. Thread-safe.
    """

    def __init__(
        self,
        rate: float,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] | None = None,
    ) -> None:
        self.rate = rate
        self._clock = clock
        self._ended = threading.Event()
        self._sleep = sleep or self._ended.wait
        self._lock = threading.Lock()
        self._free = 0.0  # when all that was spent is paid for

    def spend(self, count: int) -> None:
        """Wait until what was spent before is paid for. Raises `StoreClosed` once the work has ended."""
        with self._lock:
            now = self._clock()
            begin = max(now, self._free)
            self._free = begin + count / self.rate
        if begin > now:
            self._sleep(begin - now)
        if self._ended.is_set():
            raise StoreClosed("the work that this request belongs to has ended")

    def end(self) -> None:
        """Nobody waits any more, and nothing begins: what is queued would else keep threads for as long as it takes."""
        self._ended.set()


class LimitTarget(Wrapper):
    """Waits for `rate` before bytes are moved (after a `get`, which can't know how many), and for one of `slots`."""

    def __init__(self, inner: Target, *, rate: RateLimit | None, slots: AbstractContextManager[object] | None) -> None:
        super().__init__(inner)
        self._rate = rate
        self._slots = slots or nullcontext()

    def call(self, verb: str, path: str, operation: Callable[[], T]) -> T:  # noqa: ARG002 - all verbs alike
        """Do `operation` once a slot is free."""
        with self._slots:
            return operation()

    def get(self, path: str, *, start: int = 0, length: int | None = None) -> Buffer:
        """As the inner target's, paid for afterwards."""
        data = super().get(path, start=start, length=length)
        self._spend(len(data))
        return data

    def get_into(self, path: str, into: memoryview, *, start: int = 0) -> None:
        """As the inner target's."""
        self._spend(len(into))
        super().get_into(path, into, start=start)

    def put(self, path: str, data: Buffer | Sequence[Buffer]) -> None:
        """As the inner target's."""
        self._spend(sum(map(len, as_buffers(data))))
        super().put(path, data)

    def put_if_absent(self, path: str, data: Buffer) -> bool:
        """As the inner target's."""
        self._spend(len(data))
        return super().put_if_absent(path, data)

    def _spend(self, count: int) -> None:
        if self._rate is not None:
            self._rate.spend(count)
