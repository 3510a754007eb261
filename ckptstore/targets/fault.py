"""A target that fails as told: for tests of everything above targets, and for drills.

    faults = FaultTarget(target)
    faults.inject("put", "data/*", error=unavailable("the disk sulks"), times=2)     # fails twice
    faults.inject("put_if_absent", error=unavailable("reply lost"), after=True)      # done, but the reply is lost
    faults.inject("get", "data/*", damage=flip_bit)                                  # every get gives wrong bytes
    faults.inject("put", "data/*", damage=cut_short(100))                            # 100 bytes of each are not written
    faults.inject(error=NoSpace("full"), skip=7)                                     # full from the eighth request on
    faults.inject(error=unavailable("down"))                                         # nothing works

`heal` ends all of them.
"""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TypeVar

from ckptstore.errors import TargetError, TargetUnavailable
from ckptstore.targets.base import Buffer, Reason, Target, as_buffers
from ckptstore.targets.wrapper import Wrapper

__all__ = ["Fault", "FaultTarget", "cut_short", "flip_bit", "unavailable"]

T = TypeVar("T")


@dataclass
class Fault:
    """One scripted fault; the fields are `FaultTarget.inject`'s. `hits` counts how often it struck."""

    verb: str
    path: str
    error: TargetError | None
    after: bool
    seconds: float
    damage: Callable[[bytes], bytes] | None
    skip: int
    times: int | None
    hits: int = field(default=0)


class FaultTarget(Wrapper):
    """Passes verbs on, but for the faults injected; the oldest that matches strikes. Thread-safe."""

    def __init__(self, inner: Target) -> None:
        super().__init__(inner)
        self._lock = threading.Lock()
        self._faults: list[Fault] = []

    def inject(
        self,
        verb: str = "*",
        path: str = "*",
        *,
        error: TargetError | None = None,
        after: bool = False,
        seconds: float = 0.0,
        damage: Callable[[bytes], bytes] | None = None,
        skip: int = 0,
        times: int | None = None,
    ) -> Fault:
        """Let calls of `verb` on paths that match `path` (shell patterns) fail, from now on.

        `error` is raised, `after` the call was carried out if so said; the call waits `seconds` first;
        `damage` changes what `get` and `get_into` give, and what `put` and `put_if_absent` store. The first `skip`
        calls that match are spared, and it ends after `times`.
        """
        fault = Fault(verb, path, error, after, seconds, damage, skip, times)
        with self._lock:
            self._faults.append(fault)
        return fault

    def heal(self) -> None:
        """End all faults."""
        with self._lock:
            self._faults.clear()

    def call(self, verb: str, path: str, operation: Callable[[], T]) -> T:
        """Do `operation`, or let the fault strike that is due."""
        fault = self._due(verb, path)
        if fault is None:
            return operation()
        time.sleep(fault.seconds)
        # one error is raised over and over: what an earlier raise noted of its frames, and of their buffers, is let go
        if fault.error is not None and not fault.after:
            raise fault.error.with_traceback(None)
        result = operation()
        if fault.error is not None:
            raise fault.error.with_traceback(None)
        return result

    def get(self, path: str, *, start: int = 0, length: int | None = None) -> Buffer:
        """As the inner target's, damaged if so told."""
        damage = self._damage("get", path)
        data = super().get(path, start=start, length=length)
        return damage(bytes(data)) if damage else data

    def get_into(self, path: str, into: memoryview, *, start: int = 0) -> None:
        """As the inner target's, damaged if so told."""
        damage = self._damage("get_into", path)
        super().get_into(path, into, start=start)
        if damage:
            into[:] = damage(bytes(into))

    def put(self, path: str, data: Buffer | Sequence[Buffer]) -> None:
        """As the inner target's, other bytes if so told."""
        damage = self._damage("put", path)
        super().put(path, damage(b"".join(as_buffers(data))) if damage else data)

    def put_if_absent(self, path: str, data: Buffer) -> bool:
        """As the inner target's, other bytes if so told."""
        damage = self._damage("put_if_absent", path)
        return super().put_if_absent(path, damage(bytes(data)) if damage else data)

    def _due(self, verb: str, path: str) -> Fault | None:
        with self._lock:
            return next((fault for fault in self._faults if _strikes(fault, verb, path, damaging=False)), None)

    def _damage(self, verb: str, path: str) -> Callable[[bytes], bytes] | None:
        with self._lock:
            due = (fault.damage for fault in self._faults if _strikes(fault, verb, path, damaging=True))
            return next(due, None)


def flip_bit(data: bytes) -> bytes:
    """`data` with one bit in its middle flipped."""
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :] if data else data


def cut_short(count: int) -> Callable[[bytes], bytes]:
    """Data without its last `count` bytes."""
    return lambda data: data[: max(len(data) - count, 0)]


def unavailable(message: str, *, target: str = "", reason: Reason = Reason.BROKEN) -> TargetUnavailable:
    """A transient error to inject."""
    return TargetUnavailable(message, target=target, reason=reason)


def _strikes(fault: Fault, verb: str, path: str, *, damaging: bool) -> bool:
    """Whether it strikes now; counts the call where it matches."""
    if damaging != (fault.damage is not None):
        return False
    if fault.verb not in {"*", verb} or not fnmatchcase(path, fault.path):
        return False
    if fault.skip > 0:
        fault.skip -= 1
        return False
    if fault.times is not None and fault.hits >= fault.times:
        return False
    fault.hits += 1
    return True
