"""What a target is: one place that fails on its own, and the verbs every part of ckptstore uses on it.

What the *service* behind a target must guarantee, and `testing.TargetTests` checks:

- read after write: an object put successfully is seen by the next `get`, `head` and `list`, by anyone;
- whole or nothing: a reader never sees part of an object that is being put;
- `put_if_absent` has one winner, however many race, where `can_put_if_absent` is true;
- `modified` times come from one clock, the target's own.

A verb raises `ckptstore.errors.TargetError` and, after a fork, `ForkedClient`; nothing else. Transient or
permanent is decided where the error is made. A `TargetUnavailable` tells its `reason`, one of the words of
`Reason`.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from ckptstore.errors import ShortObject, TargetError, TargetUnusable

__all__ = [
    "Buffer",
    "Entry",
    "Reason",
    "Target",
    "as_buffers",
    "check_path",
    "check_paths",
    "check_prefix",
    "check_range",
]

Buffer = bytes | bytearray | memoryview
"""Bytes to put. A sequence of them is one object, concatenated, without a copy where the service allows it."""


class Reason(StrEnum):
    """Why a target was unavailable, as far as what to do about it differs."""

    TIMEOUT = "timeout"
    """No answer in time: asking again costs as much, so nobody asks for a while."""
    UNREACHABLE = "unreachable"
    """Refused, or no such host: quick to find out. A server that restarts does so for a moment."""
    GONE = "gone"
    """The root, the bucket or the device is not there or broken: asking again tells nothing new, and costs little."""
    BUSY = "busy"
    """It answered, but not now: throttled, 5xx, or two requests for one name at once. Alive."""
    BROKEN = "broken"
    """The connection failed in the middle of a request."""
    RESTING = "resting"
    """Not asked: it was out of reach a moment ago (`health`)."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One object in a listing: its path in the target, size in bytes, time of its last put by the target's clock."""

    path: str
    size: int
    modified: datetime


class Target(ABC):
    """One place that fails on its own. Blocking, thread-safe; clients are made lazily, never carried across a fork."""

    def __init__(self, name: str, *, can_put_if_absent: bool = True) -> None:
        self.name = name
        self.can_put_if_absent = can_put_if_absent

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name} at {self.url}>"

    @property
    @abstractmethod
    def url(self) -> str:
        """Where it is, for people: no secret in it. `open_target` with the same options opens the same place."""

    @abstractmethod
    def get(self, path: str, *, start: int = 0, length: int | None = None) -> Buffer:
        """`length` bytes from `start`; to the end where it is None. `ShortObject` if the object ends before."""

    @abstractmethod
    def put(self, path: str, data: Buffer | Sequence[Buffer]) -> None:
        """Make the object hold exactly `data`, durably, over whatever was there."""

    @abstractmethod
    def put_if_absent(self, path: str, data: Buffer) -> bool:
        """True: this call created it. False: something is there already, be it the same bytes. One request.

        A lost reply raises `TargetUnavailable`, and so does a conflict where nothing is found: it may or may not have
        been created, or be so later. Nothing below tries again; whoever needs to know reads back.
        """

    @abstractmethod
    def head(self, path: str) -> Entry:
        """Size and time of one object; `ObjectNotFound` where there is none."""

    @abstractmethod
    def list(self, prefix: str) -> Iterator[Entry]:
        """Every object whose path starts with `prefix` (empty, or ending in `/`), all pages, in no fixed order."""

    @abstractmethod
    def list_folders(self, prefix: str) -> Sequence[str]:
        """Sorted names of the immediate sub-folders of `prefix`: one request a page, not one an object."""

    @abstractmethod
    def delete(self, paths: Sequence[str]) -> Mapping[str, TargetError]:
        """Delete each; absent is deleted. Returns what could not be, by path, and raises nothing of that.

        An answer of 200 proves nothing alone: S3 tells in its body which of a thousand it left.
        """

    @abstractmethod
    def close(self) -> None:
        """Release sockets and threads. A closed target is used no more."""

    def create_root(self) -> None:
        """Make the place where objects will be: a directory. A bucket must be there already, so others do nothing."""
        return

    def kinds(self) -> Iterator[tuple[str, str]]:
        """Path and kind, in words, of everything that is there: "a file", "a folder", "a symbolic link" and others.

        Nothing where all there can be is objects.
        """
        return iter(())

    def get_into(self, path: str, into: memoryview, *, start: int = 0) -> None:
        """Fill `into` (bytes) from `start`; `ShortObject` if there are fewer. Override where a copy can go."""
        into[:] = self.get(path, start=start, length=len(into))

    def no_ranges(self, path: str) -> TargetUnusable:
        """The error for an answer that holds more than the range asked for."""
        message = f"{self.name}: {path}: the service does not answer ranges"
        return TargetUnusable(message, target=self.name, path=path)

    def short(self, path: str, *, start: int, wanted: int | None, size: int | None = None) -> ShortObject:
        """The error for an object that ends before `start + wanted`. `size` is its length in bytes, where known."""
        range_ = f"{'all' if wanted is None else wanted} bytes from {start}"
        held = "too few bytes" if size is None else f"{size} bytes"
        message = f"{self.name}: {path} has {held}, {range_} were wanted"
        hint = f"verify what is stored there: ckpt verify --read-data (target {self.name})"
        return ShortObject(message, target=self.name, path=path, size=size, hint=hint)


def as_buffers(data: Buffer | Sequence[Buffer]) -> Sequence[memoryview]:
    """The pieces of one object as byte views, empty ones left out: none at all for an empty object."""
    pieces = [data] if isinstance(data, bytes | bytearray | memoryview) else data
    return [view for view in (memoryview(piece).cast("B") for piece in pieces) if len(view)]


def check_path(path: str) -> str:
    """`path` if it can name an object on every kind of target; else `TargetUnusable`. Guards against traversal."""
    parts = path.split("/")
    if any(part in {"", ".", ".."} for part in parts) or not path.isprintable() or "\\" in path:
        message = f"{path!r} can't name an object: it must be relative, printable, without empty, '.' or '..' parts"
        raise TargetUnusable(message, path=path)
    return path


def check_paths(paths: Sequence[str]) -> Sequence[str]:
    """`paths` if all of them can name objects; else `TargetUnusable`."""
    return [check_path(path) for path in paths]


def check_prefix(prefix: str) -> str:
    """`prefix` if it is empty or a path followed by `/`; else `TargetUnusable`."""
    if not prefix:
        return prefix
    if not prefix.endswith("/"):
        raise TargetUnusable(f"{prefix!r} must be empty or end in '/': a prefix names whole folders", path=prefix)
    check_path(prefix[:-1])
    return prefix


def check_range(target: Target, path: str, size: int, start: int, length: int | None) -> int:
    """How many bytes a read of `length` from `start` gives of an object of `size`; `ShortObject` if it ends before."""
    count = size - start if length is None else length
    if count < 0 or start + count > size:
        raise target.short(path, start=start, wanted=length, size=size)
    return count
