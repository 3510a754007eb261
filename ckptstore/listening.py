"""Who is told what this process does: observers of all of its work, beside the one that a caller may give.

`work` tells of the beginning and the end of a piece of work; requests to targets are told by `targets.observed`.
"""

import itertools
import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from ckptstore.arguments import check_observer
from ckptstore.errors import CkptStoreError
from ckptstore.events import Event, Observer, Progress, WorkBegan, WorkEnded, ignore
from ckptstore.redaction import redacted

__all__ = ["Work", "is_listened_to", "subscribe", "tell", "unsubscribe", "work"]

_LISTENERS: list[Observer] = []
_NUMBERS = itertools.count(1)


def subscribe(observer: Observer) -> None:
    """Tell `observer` from now on of everything this process does, in all of its stores. Raises `UsageError`."""
    check_observer(observer)
    _LISTENERS.append(observer)


def unsubscribe(observer: Observer) -> None:
    """Tell it no more. One that isn't listening is left as it is."""
    if observer in _LISTENERS:
        _LISTENERS.remove(observer)


def is_listened_to() -> bool:
    """Whether anybody listens: an event for nobody needn't be made."""
    return bool(_LISTENERS)


def tell(event: Event) -> None:
    """Tell all listeners. One that raises is told no more: a save must not fail of being watched."""
    for listener in tuple(_LISTENERS):
        try:
            listener(event)
        except Exception as error:  # noqa: BLE001
            unsubscribe(listener)
            message = "%r raised %s at %s, and is told nothing more: %s"
            about = (type(error).__name__, type(event).__name__, redacted(str(error)))
            logging.getLogger("ckptstore").error(message, listener, *about)  # noqa: TRY400 - a traceback may hold secrets


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

    def observe(self, event: Event) -> None:
        """An `Observer`: tells the caller's, and all listeners."""
        if isinstance(event, Progress) and event.work == self.name and self.name in {"save", "load"}:
            with self._lock:
                self.bytes += event.done
        if self._observer not in _LISTENERS:  # else it would be told twice
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
        under_way.observe(WorkEnded(*about, outcome, message))

    if not dry_run:
        under_way.observe(WorkBegan(number, name, run, step))
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
