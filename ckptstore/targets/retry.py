"""Retries: one policy for every target. What is worth another try was decided where the error was made.

A `put_if_absent` is never tried again: a try whose reply was lost may take effect after a later one was answered. The
commit protocol above puts again, and settles what happened by reading back, under rules that allow for that.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import TypeVar

from ckptstore.errors import TargetError, TargetUnavailable
from ckptstore.targets.base import Buffer, Reason, Target
from ckptstore.targets.wrapper import Wrapper

__all__ = ["DEADLINE", "RetryTarget", "worth_another_try"]

DEADLINE = 30.0
"""Seconds that one verb may take with all its tries. Longer than a throttled service needs to recover (20 s
in the cases seen), short enough that a training job notices."""

T = TypeVar("T")


class RetryTarget(Wrapper):
    """Tries transient errors again, with jittered exponential backoff, until `deadline` seconds after the first try.

    All verbs but `put_if_absent`, which is one request. Fails at once on a permanent error, and on a
    target that `health` lets rest. Raises the last error, which then says how many tries there were (`tries`) and how
    long they took (`seconds`).
    """

    def __init__(self, inner: Target, *, deadline: float = DEADLINE) -> None:
        super().__init__(inner)
        self.deadline = deadline

    def call(self, verb: str, path: str, operation: Callable[[], T]) -> T:
        """Do `operation` until it succeeds or there is no more point."""
        begun = time.monotonic()
        try:
            return operation()
        except TargetUnavailable as error:
            if not worth_another_try(error):
                raise
            return self._again(verb, path, operation, error, begun)

    def put_if_absent(self, path: str, data: Buffer) -> bool:
        """As the inner target's: one request, whatever comes of it (`manifests.Register` says why)."""
        return self.inner.put_if_absent(path, data)

    def delete(self, paths: Sequence[str]) -> Mapping[str, TargetError]:
        """Tries those again that failed for a transient reason; returns what still could not be."""
        failed: dict[str, TargetError] = {}
        left = list(paths)

        def attempt() -> None:
            nonlocal left
            found = self.inner.delete(left)
            failed.update({path: error for path, error in found.items() if not error.transient})
            left = [path for path in left if path in found and found[path].transient]
            if left:
                raise found[left[0]]

        try:
            self.call("delete", left[0] if left else "", attempt)
        except TargetUnavailable as error:
            failed.update(dict.fromkeys(left, error))
        return failed

    def _again(self, verb: str, path: str, operation: Callable[[], T], first: TargetUnavailable, begun: float) -> T:
        """Go on after the first failure. tenacity is imported only now: where nothing fails it costs nothing."""
        left = self.deadline - (time.monotonic() - begun)
        failures = [first]
        replay = iter([first])

        def attempt() -> T:
            for error in replay:  # tenacity counts the try that was made already, and waits after it
                raise error
            try:
                return operation()
            except TargetUnavailable as error:
                failures.append(error)
                raise

        try:
            result: T = import_module("ckptstore.targets.backoff").retrying(left)(attempt)
        except TargetUnavailable as last:
            raise _exhausted(last, failures, verb, path, time.monotonic() - begun) from last
        return result


def worth_another_try(error: BaseException) -> bool:
    """Whether the next try may end differently within a deadline."""
    if not isinstance(error, TargetError) or not error.transient:
        return False
    return error.fields.get("reason") not in {Reason.RESTING, Reason.GONE}


def _exhausted(
    last: TargetUnavailable, failures: Sequence[TargetUnavailable], verb: str, path: str, seconds: float
) -> TargetUnavailable:
    cause = next((error for error in reversed(failures) if error.fields.get("reason") != Reason.RESTING), last)
    message = f"{cause.message} ({verb} tried {len(failures)} times in {seconds:.1f} s)"
    fields = {**cause.fields, "path": path, "tries": len(failures), "seconds": seconds}
    return TargetUnavailable(message, hint=cause.hint, **fields)
