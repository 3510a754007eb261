"""Health: a target that is out of reach is left alone for a while, so it costs one time-out and not one a request."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from ckptstore.errors import TargetError, TargetUnavailable
from ckptstore.targets.base import Reason, Target
from ckptstore.targets.retry import DEADLINE
from ckptstore.targets.wrapper import Wrapper

__all__ = ["HealthTarget"]

COOL_DOWN = 5.0  # seconds of the first rest; doubled each time the target is found dead again
LONGEST = 60.0
PATIENCE = {Reason.TIMEOUT: 0.0, Reason.UNREACHABLE: 1.0}
"""For how many seconds a target may fail in this way, and in no other, before it is left alone. A time-out was patient
already; a server that restarts refuses for about a second, and refusals are cheap."""

T = TypeVar("T")


class HealthTarget(Wrapper):
    """Fails fast, with reason `resting`, while the inner target is thought dead; all threads share what one found.

    After `cool_down` seconds one request is let through. It succeeds, and everybody may ask again; or it
    fails, and the rest is twice as long, up to a minute. An answer of any kind, a refusal or an error 503
    too, is a sign of life; but one that has been busy or broken connections for `patience` seconds, and has done
    nothing else, is left alone too: each further request would take as long.
    """

    def __init__(
        self,
        inner: Target,
        *,
        cool_down: float = COOL_DOWN,
        patience: float = DEADLINE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(inner)
        self._cool_down = cool_down
        self._patience = {Reason.BUSY: patience, Reason.BROKEN: patience, **PATIENCE}
        self._clock = clock
        self._lock = threading.Lock()
        self._failing: dict[Reason, tuple[float, float]] = {}  # since when, and when last
        self._found_dead = 0
        self._dead_of: TargetUnavailable | None = None
        self._until = 0.0

    def call(self, verb: str, path: str, operation: Callable[[], T]) -> T:
        """Do `operation` unless the target rests, and learn from how it ends."""
        looking = self._admit(verb, path)
        try:
            result = operation()
        except TargetError as error:
            self._learn(error, looking=looking)
            raise
        self._learn(None, looking=looking)
        return result

    def delete(self, paths: Sequence[str]) -> Mapping[str, TargetError]:
        """As the inner target's, which tells what failed in its answer."""
        looking = self._admit("delete", paths[0] if paths else "")
        failed = self.inner.delete(paths)
        unavailable = (error for error in failed.values() if isinstance(error, TargetUnavailable))
        self._learn(next(unavailable, None), looking=looking)
        return failed

    def _admit(self, verb: str, path: str) -> bool:
        """Whether this request is the one that looks if a dead target is back. Raises if it must not be sent."""
        with self._lock:
            if self._dead_of is None:
                return False
            now = self._clock()
            if now >= self._until:
                self._until = now + self._cool_down  # the others rest while this one looks
                return True
            error, wait = self._dead_of, self._until - now
        message = f"{self.name} is left alone for {wait:.1f} s more, {verb} was not sent, after: {error.message}"
        raise TargetUnavailable(message, hint=error.hint, **{**error.fields, "path": path, "reason": Reason.RESTING})

    def _learn(self, error: TargetError | None, *, looking: bool) -> None:
        reason = error.fields.get("reason", Reason.BROKEN) if isinstance(error, TargetUnavailable) else None
        with self._lock:
            if reason is None or (reason == Reason.BUSY and not self._was_busy):
                self._found_dead, self._dead_of = 0, None
                self._failing = {of: times for of, times in self._failing.items() if of == reason}
            if reason is not None and ((looking and self._dead_of) or self._out_of_patience(reason)):
                assert isinstance(error, TargetUnavailable)
                self._dead_of = error
                self._until = self._clock() + min(self._cool_down * 2**self._found_dead, LONGEST)
                self._found_dead += 1

    @property
    def _was_busy(self) -> bool:
        return self._dead_of is not None and self._dead_of.fields.get("reason") == Reason.BUSY

    def _out_of_patience(self, reason: Reason) -> bool:
        if self._dead_of is not None or reason not in self._patience:
            return False
        now, patience = self._clock(), self._patience[reason]
        since, last = self._failing.get(reason, (now, now))
        if now - last > max(patience, self._cool_down):  # nobody asked in between, so nobody knows
            since = now
        self._failing[reason] = since, now
        return now - since >= patience
