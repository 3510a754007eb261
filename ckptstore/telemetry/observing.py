"""Observers of all that this process does, in every store it opens."""

from typing import Self

from ckptstore.arguments import check_observer
from ckptstore.events import Observer
from ckptstore.listening import subscribe, unsubscribe

__all__ = ["Observation", "observe"]


class Observation:
    """Observers that are told of everything, until `close` or the end of a `with` block."""

    def __init__(self, *observers: Observer) -> None:
        for observer in observers:
            check_observer(observer)
        self._observers = observers
        for observer in observers:
            subscribe(observer)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Tell them no more."""
        for observer in self._observers:
            unsubscribe(observer)


def observe(*observers: Observer) -> Observation:
    """Tell them from now on of all work of this process and every request to a target, in stores open already too.

    They are called from any thread. One that raises is told no more, which the log says. Raises `UsageError`.
    """
    return Observation(*observers)
