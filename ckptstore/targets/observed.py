"""Tells whoever listens of each request to a target: how long it took, how many bytes, what came of it."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from ckptstore.errors import ObjectNotFound, TargetError
from ckptstore.events import RequestEnded
from ckptstore.listening import is_listened_to, tell
from ckptstore.targets.base import Buffer, as_buffers
from ckptstore.targets.wrapper import Wrapper

__all__ = ["ObservedTarget"]

T = TypeVar("T")


class ObservedTarget(Wrapper):
    """Stands next to the client, below retries and health: each try is a request, what `health` refuses is none.

    While nobody listens a verb costs one call more.
    """

    def call(self, verb: str, path: str, operation: Callable[[], T]) -> T:
        """Do `operation`, which moves no bytes of ours, and tell."""
        del path  # no label of a metric: there is no end of them
        return self._timed(verb, operation, lambda _: 0)

    def get(self, path: str, *, start: int = 0, length: int | None = None) -> Buffer:
        """As the inner target's."""
        return self._timed("get", lambda: self.inner.get(path, start=start, length=length), len)

    def get_into(self, path: str, into: memoryview, *, start: int = 0) -> None:
        """As the inner target's."""
        self._timed("get_into", lambda: self.inner.get_into(path, into, start=start), lambda _: into.nbytes)

    def put(self, path: str, data: Buffer | Sequence[Buffer]) -> None:
        """As the inner target's."""
        self._timed("put", lambda: self.inner.put(path, data), lambda _: sum(map(len, as_buffers(data))))

    def put_if_absent(self, path: str, data: Buffer) -> bool:
        """As the inner target's; no bytes where something was there already."""
        return self._timed(
            "put_if_absent", lambda: self.inner.put_if_absent(path, data), lambda created: len(data) if created else 0
        )

    def delete(self, paths: Sequence[str]) -> Mapping[str, TargetError]:
        """As the inner target's, which tells what failed in its answer: the first of it is the outcome."""
        begun = time.perf_counter()
        failed = self.inner.delete(paths)
        first = next(iter(failed.values()), None)
        self._tell("delete", begun, 0, "ok" if first is None else _outcome_of(first))
        return failed

    def _timed(self, verb: str, operation: Callable[[], T], size: Callable[[T], int]) -> T:
        if not is_listened_to():
            return operation()
        begun = time.perf_counter()
        try:
            result = operation()
        except TargetError as error:
            self._tell(verb, begun, 0, _outcome_of(error))
            raise
        self._tell(verb, begun, size(result), "ok")
        return result

    def _tell(self, verb: str, begun: float, count: int, outcome: str) -> None:
        tell(RequestEnded(self.name, verb, count, time.perf_counter() - begun, outcome))


def _outcome_of(error: TargetError) -> str:
    if isinstance(error, ObjectNotFound):
        return "absent"
    return str(error.fields.get("reason") or error.kind)
