"""The beginning and the end of a piece of work, told to the observer of a caller and to all who listen."""

import itertools
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from ckptstore.arguments import check_observer
from ckptstore.errors import CkptStoreError
from ckptstore.events import Event, Observer, Progress, WorkBegan, WorkEnded, ignore
from ckptstore.listening import is_listening, tell, tell_one
from ckptstore.redaction import redacted

IN_BYTES = ("save", "load")
"""The works whose progress is told in bytes of the state."""
_NUMBERS = itertools.count(1)

__all__ = ["Work", "work"]


class Work:
    """A piece of work under way. Whoever does it passes `observe` on as its observer, and may set the rest.

    `bytes` adds up by itself where the work tells its progress in bytes, as save and load do. `outcome`: set it to
    "failed" where that is the result of work that raises nothing.
    """

    def __init__(self, name: str, run: str, step: int | None, observer: Observer) -> None:
        self.name = name
        self.run = run
        self.step = step
        self.bytes = 0
        self.outcome = "ok"
        self._observer = observer
        self._lock = threading.Lock()

    def announce(self, event: Event) -> None:
        """The beginning and the end: an observer that was made before there were such fails nothing by raising."""
        if not is_listening(self._observer):
            tell_one(self._observer, event)
        tell(event)

    def observe(self, event: Event) -> None:
        """An `Observer`: tells the caller's, and all listeners."""
        if isinstance(event, Progress) and event.work == self.name and self.name in IN_BYTES:
            with self._lock:
                self.bytes += event.done
        if not is_listening(self._observer):  # else it would be told twice
            self._observer(event)
        tell(event)


@contextmanager
def work(
    name: str, run: str, step: int | None = None, observer: Observer = ignore, *, dry_run: bool = False
) -> Iterator[Work]:
    """Tell `observer` and all listeners that the work of the block begins, and how it ended.

    A dry run is no work: of it neither is told. Raises `UsageError` for what is no observer.
    """
    check_observer(observer)
    under_way, number, begun = Work(name, run, step, observer), next(_NUMBERS), time.monotonic()

    def end(outcome: str, message: str = "") -> None:
        if dry_run:
            return
        seconds = time.monotonic() - begun
        about = (number, name, run, under_way.step, seconds, under_way.bytes)
        under_way.announce(WorkEnded(*about, outcome, message))

    if not dry_run:
        under_way.announce(WorkBegan(number, name, run, step))
    try:
        yield under_way
    except BaseException as error:
        end(_outcome_of(error), redacted(str(error)))
        raise
    end(under_way.outcome)


def _outcome_of(error: BaseException) -> str:
    if isinstance(error, CkptStoreError):
        return error.kind
    return "interrupted" if isinstance(error, KeyboardInterrupt | SystemExit) else "error"
