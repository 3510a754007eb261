"""What happens during long work, told as it happens: progress bars, metrics and reports listen here."""

from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["Event", "FragmentDamaged", "Observer", "Progress", "TargetFailed", "ignore"]


@dataclass(frozen=True, slots=True)
class Event:
    """Base of all."""


@dataclass(frozen=True, slots=True)
class Progress(Event):
    """`done` more of `total` bytes of `work` ("save", "load", "verify" …) are through."""

    work: str
    done: int
    total: int


@dataclass(frozen=True, slots=True)
class TargetFailed(Event):
    """A target stopped answering during `work`; it is asked no more while the work lasts."""

    work: str
    target: str
    reason: str


@dataclass(frozen=True, slots=True)
class FragmentDamaged(Event):
    """A fragment, or a block of it, was missing, unreachable, short or corrupt: rebuilt from others, or refused."""

    target: str
    path: str
    reason: str


Observer = Callable[[Event], None]
"""Called from any thread: must be quick and must not raise."""


def ignore(event: Event) -> None:
    """The observer that doesn't care."""
