"""Counts requests and bytes by verb, so that a test can hold a promise about how much is read."""

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TypeVar

from ckptstore.targets.base import Buffer, Target, as_buffers
from ckptstore.targets.wrapper import Wrapper

__all__ = ["MeterTarget"]

T = TypeVar("T")


class MeterTarget(Wrapper):
    """`requests`: how many of each verb were begun. `sizes`: bytes got or put by each verb, where they succeeded.

    `paths`: what was asked for, as (verb, path), in order. Thread-safe; `reset` starts over.
    """

    def __init__(self, inner: Target) -> None:
        super().__init__(inner)
        self._lock = threading.Lock()
        self.reset()

    def reset(self) -> None:
        """Forget what was counted."""
        self.requests: Counter[str] = Counter()
        self.sizes: Counter[str] = Counter()
        self.paths: list[tuple[str, str]] = []

    @property
    def bytes_read(self) -> int:
        """Bytes that `get` and `get_into` gave."""
        return self.sizes["get"] + self.sizes["get_into"]

    @property
    def bytes_written(self) -> int:
        """Bytes that `put` and `put_if_absent` took."""
        return self.sizes["put"] + self.sizes["put_if_absent"]

    def call(self, verb: str, path: str, operation: Callable[[], T]) -> T:
        """Count one request."""
        with self._lock:
            self.requests[verb] += 1
            self.paths.append((verb, path))
        return operation()

    def get(self, path: str, *, start: int = 0, length: int | None = None) -> Buffer:
        """As the inner target's, its bytes counted."""
        data = super().get(path, start=start, length=length)
        self._add("get", len(data))
        return data

    def get_into(self, path: str, into: memoryview, *, start: int = 0) -> None:
        """As the inner target's, its bytes counted."""
        super().get_into(path, into, start=start)
        self._add("get_into", len(into))

    def put(self, path: str, data: Buffer | Sequence[Buffer]) -> None:
        """As the inner target's, its bytes counted."""
        super().put(path, data)
        self._add("put", sum(map(len, as_buffers(data))))

    def put_if_absent(self, path: str, data: Buffer) -> bool:
        """As the inner target's, its bytes counted where they were taken."""
        created = super().put_if_absent(path, data)
        self._add("put_if_absent", len(data) if created else 0)
        return created

    def _add(self, verb: str, count: int) -> None:
        with self._lock:
            self.sizes[verb] += count
