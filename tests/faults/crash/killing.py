"""A process that dies at a request: from then on nothing it does reaches any target."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal, TypeVar
from unittest import mock

from ckptstore import opened
from ckptstore.targets import Target
from ckptstore.targets.wrapper import Wrapper
from manifests import registers

T = TypeVar("T")
When = Literal["before", "after"]

__all__ = ["KillTarget", "Killed", "Killer", "Signaller", "When", "one_by_one"]


class Killed(BaseException):
    """The process is dead."""


class Killer:
    """Counts the requests of all targets of one process; at number `at`, from 1, the process dies.

    "before": that request is not made. "after": it takes effect, and nobody learns of it.
    """

    def __init__(self, at: int | None = None, when: When = "before") -> None:
        self.at, self.when = at, when
        self.count = 0
        self.struck = False
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        """Go to another process: without a lock, and nothing counted."""
        return type(self), (self.at, self.when)

    def call(self, operation: Callable[[], T]) -> T:
        """Perform one request, unless the process is dead or dies now."""
        with self._lock:
            if self.struck:
                raise Killed
            self.count += 1
            due = self.count == self.at
            if due and self.when == "before":
                self.die()
        result = operation()
        if due and self.when == "after":
            self.die()
        return result

    def die(self) -> None:
        """Die, in this thread and with its next request in every other."""
        self.struck = True
        raise Killed


class Signaller(Killer):
    """Sends its own process a signal: SIGKILL ends it for good, SIGSTOP until somebody lets it go on."""

    def __init__(self, at: int | None, when: When, number: signal.Signals) -> None:
        super().__init__(at, when)
        self.number = number

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.at, self.when, self.number)

    def die(self) -> None:
        """Strike the whole process."""
        os.kill(os.getpid(), self.number)


class KillTarget(Wrapper):
    """A target of a process that dies as its `Killer` says."""

    def __init__(self, inner: Target, killer: Killer) -> None:
        super().__init__(inner)
        self.killer = killer

    def call(self, verb: str, path: str, operation: Callable[[], T]) -> T:
        """Make one request."""
        return self.killer.call(operation)


@contextmanager
def one_by_one() -> Iterator[None]:
    """Let requests be made one after the other, in the same order each time: so point i is the same point each time."""
    with mock.patch.object(registers, "_MAX_THREADS", 1), mock.patch.object(opened, "THREADS", 1):
        yield
