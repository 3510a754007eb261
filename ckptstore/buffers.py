"""Stripe buffers: allocated once, reused, never more than the window.

Memory touched for the first time costs up to 2 CPU-seconds per GiB on virtual machines, so a buffer that was
returned is preferred over a fresh one, and the window is what bounds a save's or a load's memory.
"""

import mmap
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]

__all__ = ["BufferPool", "Bytes"]


class BufferPool:
    """At most `limit` bytes of buffers at a time, over all sizes; a single larger one is lent alone. Thread-safe."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._lent = 0
        self._free: dict[int, list[Bytes]] = {}
        self._changed = threading.Condition()

    def take(self, size: int, timeout: float | None = None) -> Bytes:
        """A buffer of exactly `size` bytes with arbitrary content; waits until the window has room for it.

        Raises `TimeoutError` where it has none within `timeout` seconds.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: self._has_room(size), timeout):
                raise TimeoutError(f"the window of {self.limit} bytes had no room for {size} more")
            return self._take(size)

    def take_now(self, size: int) -> Bytes | None:
        """The same without waiting: None where the window has no room.

        Whoever holds a buffer already asks this way: two that each hold some and wait for more would wait for ever.
        """
        with self._changed:
            return self._take(size) if self._has_room(size) else None

    def give(self, buffer: Bytes) -> None:
        """Return a buffer that `take` lent."""
        with self._changed:
            self._lent -= buffer.size
            self._free.setdefault(buffer.size, []).append(buffer)
            self._trim()
            self._changed.notify_all()

    @contextmanager
    def lent(self, size: int) -> Iterator[Bytes]:
        """A buffer for the length of a block."""
        buffer = self.take(size)
        try:
            yield buffer
        finally:
            self.give(buffer)

    def _has_room(self, size: int) -> bool:
        return self._lent == 0 or self._lent + size <= self.limit

    def _take(self, size: int) -> Bytes:
        self._lent += size
        if self._free.get(size):
            return self._free[size].pop()
        self._trim()
        return _allocate(size)

    def _trim(self) -> None:
        """Let go of free buffers until the window holds them and what is lent."""
        for size in sorted(self._free, reverse=True):
            while self._free[size] and self._lent + self._free_bytes() > self.limit:
                self._free[size].pop()

    def _free_bytes(self) -> int:
        return sum(size * len(buffers) for size, buffers in self._free.items())


def _allocate(size: int) -> Bytes:
    """Fresh pages of their own: unlike memory of the heap, the system has them back when a buffer is let go."""
    if not size:
        return np.empty(0, np.uint8)
    return np.frombuffer(mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS), np.uint8)
