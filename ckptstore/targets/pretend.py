"""Targets that are only looked at, and made to seem empty or slow: for drills on a store in use.

    looked_at = ReadOnlyTarget(target)       # nothing is ever changed through it, whoever tries
    EmptyTarget(looked_at)                   # answers, and has nothing: a disk that was replaced
    ThrottledTarget(looked_at, rate=1 << 20) # a MiB a second for all readers together

What is denied, slow to answer or corrupt comes from `fault`.
"""

import threading
import time
from collections.abc import Callable
from typing import TypeVar, cast

from ckptstore.errors import ObjectNotFound, TargetUnusable
from ckptstore.targets.base import Buffer, Target
from ckptstore.targets.wrapper import Wrapper

WRITES = ("put", "put_if_absent", "delete")
ROTTEN = 4096
"""Bytes between two flipped bits: every block of a fragment, and every document, is hit at least once."""

T = TypeVar("T")

__all__ = ["EmptyTarget", "ReadOnlyTarget", "ThrottledTarget", "rot"]


class ReadOnlyTarget(Wrapper):
    """Passes on what reads; refuses what writes by `TargetUnusable`, before anything is sent.

    `bytes_read` counts since it was made. Thread-safe.
    """

    def __init__(self, inner: Target) -> None:
        super().__init__(inner)
        self.bytes_read = 0
        self._lock = threading.Lock()

    def call(self, verb: str, path: str, operation: Callable[[], T]) -> T:
        """Do `operation` if it changes nothing."""
        if verb in WRITES:
            raise TargetUnusable(f"{self.name}: {verb} of {path} while it is only looked at", target=self.name)
        return operation()

    def get(self, path: str, *, start: int = 0, length: int | None = None) -> Buffer:
        """As the inner target's, counted."""
        data = super().get(path, start=start, length=length)
        self._count(len(data))
        return data

    def get_into(self, path: str, into: memoryview, *, start: int = 0) -> None:
        """As the inner target's, counted."""
        super().get_into(path, into, start=start)
        self._count(len(into))

    def create_root(self) -> None:
        """Nothing is made."""
        raise TargetUnusable(f"{self.name}: its root is not made while it is only looked at", target=self.name)

    def _count(self, nbytes: int) -> None:
        with self._lock:
            self.bytes_read += nbytes


class EmptyTarget(Wrapper):
    """There, and empty. Writes go on to the inner target, which is to refuse them."""

    def call(self, verb: str, path: str, operation: Callable[[], T]) -> T:
        """No object, and nothing to list."""
        if verb in ("get", "get_into", "head"):
            raise ObjectNotFound(f"{self.name} has no {path}", target=self.name, path=path)
        if verb in ("list", "list_folders"):
            return cast("T", [])
        return operation()


class ThrottledTarget(Wrapper):
    """Gives at most `rate` bytes a second, to all readers together: each waits until the link has had time for it."""

    def __init__(self, inner: Target, *, rate: int) -> None:
        super().__init__(inner)
        self._rate = rate
        self._free_at = 0.0
        self._lock = threading.Lock()

    def call(self, verb: str, path: str, operation: Callable[[], T]) -> T:  # noqa: ARG002 - a wrapper's signature
        """As the inner target's."""
        return operation()

    def get(self, path: str, *, start: int = 0, length: int | None = None) -> Buffer:
        """As the inner target's, later."""
        data = super().get(path, start=start, length=length)
        self._wait(len(data))
        return data

    def get_into(self, path: str, into: memoryview, *, start: int = 0) -> None:
        """As the inner target's, later."""
        super().get_into(path, into, start=start)
        self._wait(len(into))

    def _wait(self, nbytes: int) -> None:
        with self._lock:
            self._free_at = max(self._free_at, time.monotonic()) + nbytes / self._rate
            until = self._free_at
        time.sleep(max(until - time.monotonic(), 0.0))


def rot(data: bytes) -> bytes:
    """`data` with a bit flipped in each `ROTTEN` bytes."""
    rotten = bytearray(data)
    for at in range(0, len(rotten), ROTTEN):
        rotten[at] ^= 1
    return bytes(rotten)
