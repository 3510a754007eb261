"""What happens during long work, told as it happens: progress bars, metrics and reports listen here."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

__all__ = [
    "Event",
    "FragmentDamaged",
    "Observer",
    "Progress",
    "RequestEnded",
    "RunListed",
    "RunVerified",
    "TargetFailed",
    "WorkBegan",
    "WorkEnded",
    "ignore",
]


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


@dataclass(frozen=True, slots=True)
class WorkBegan(Event):
    """`work` on a run begins in this process. `number` is that of its end too; `step` where it is known by now."""

    number: int
    work: str
    run: str
    step: int | None


@dataclass(frozen=True, slots=True)
class WorkEnded(Event):
    """It has ended after `seconds`, with `bytes` of the state moved (0 where its work moves none).

    `outcome`: "ok", the `kind` of an error of ours, "failed", "interrupted" or "error"; `message` of what it raised.
    """

    number: int
    work: str
    run: str
    step: int | None
    seconds: float
    bytes: int
    outcome: str
    message: str


@dataclass(frozen=True, slots=True)
class RequestEnded(Event):
    """One request to one target, each try on its own, with the bytes it got or put.

    `outcome`: "ok", "absent" (no such object, which is an answer), a `targets.Reason`, or the `kind` of the error.
    """

    target: str
    verb: str
    bytes: int
    seconds: float
    outcome: str


@dataclass(frozen=True, slots=True)
class RunVerified(Event):
    """All of a run was looked at: how many live checkpoints are in which state, and how many findings of which kind.

    `targets`, `domains`: what the worst of them survives, -1 where it doesn't load, None where there is none.
    `expected`, `checked`: objects. `by`: "listing", or "data" where bytes were read: what that found stays so until
    bytes are read again, whatever a listing says.
    """

    run: str
    states: Mapping[str, int]
    findings: Mapping[str, int]
    targets: int | None
    domains: int | None
    expected: int
    checked: int
    by: str = "listing"


@dataclass(frozen=True, slots=True)
class RunListed(Event):
    """The latest checkpoint of a run: when it was saved (since 1970 by the saver's clock, in seconds), step and bytes.

    `interval`: seconds that usually pass between saves, None where there were too few to tell. All of it is None where
    there is no checkpoint.
    """

    run: str
    saved: float | None
    step: int | None
    bytes: int | None
    interval: float | None


Observer = Callable[[Event], None]
"""Called from any thread: must be quick and must not raise."""


def ignore(event: Event) -> None:
    """The observer that doesn't care."""
