"""What a target is: one place that fails on its own, and the verbs every part of ckptstore uses on it.

What the *service* behind a target must guarantee, and `testing.TargetTests` checks:

- read after write: an object put successfully is seen by the next `get`, `head` and `list`, by anyone;
- whole or nothing: a reader never sees part of an object that is being put;
- `put_if_absent` has one winner, however many race, where `can_put_if_absent` is true;
- `modified` times come from one clock, the target's own.

Paths are ASCII, relative, `/`-separated and name objects exactly. A verb raises `ckptstore.errors.TargetError`
(transient or permanent is decided where the error is made) and nothing else.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from ckptstore.errors import ShortObject, TargetError

Buffer = bytes | bytearray | memoryview
"""Bytes to put. A sequence of them is one object, concatenated, without a copy where the service allows it."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One object in a listing: its path in the target, size in bytes, and time of its last put by the target's clock."""

    path: str
    size: int
    modified: datetime


class Target(ABC):
    """One place that fails on its own. Blocking, thread-safe; made after a fork, never carried across it."""

    def __init__(self, name: str, *, domain: str = "", can_put_if_absent: bool = True) -> None:
        self.name = name
        self.domain = domain or name
        self.can_put_if_absent = can_put_if_absent

    @property
    @abstractmethod
    def url(self) -> str:
        """Where it is, for people: no secret in it."""

    @abstractmethod
    def get(self, path: str, *, start: int = 0, length: int | None = None) -> Buffer:
        """`length` bytes from `start`; to the end where it is None. `ShortObject` if the object ends before."""

    @abstractmethod
    def put(self, path: str, data: Buffer | Sequence[Buffer]) -> None:
        """Make the object hold exactly `data`, durably, over whatever was there."""

    @abstractmethod
    def put_if_absent(self, path: str, data: Buffer) -> bool:
        """True: this call created it. False: something is there already. A lost reply raises: read back to settle."""

    @abstractmethod
    def head(self, path: str) -> Entry:
        """Size and time of one object; `ObjectNotFound` where there is none."""

    @abstractmethod
    def list(self, prefix: str) -> Iterator[Entry]:
        """Every object whose path starts with `prefix` (which ends in `/` or is empty), all pages, in no fixed order."""

    @abstractmethod
    def list_folders(self, prefix: str) -> list[str]:
        """Names of the immediate sub-folders under `prefix`: one request a page, not one an object."""

    @abstractmethod
    def delete(self, paths: Sequence[str]) -> Mapping[str, TargetError]:
        """Delete each; absent is deleted. Returns what could not be, by path: an answer of 200 proves nothing alone."""

    @abstractmethod
    def close(self) -> None:
        """Release sockets and threads. A closed target is used no more."""

    def get_into(self, path: str, into: memoryview, *, start: int = 0) -> None:
        """Fill `into` with the bytes from `start`; `ShortObject` if there are fewer. Override where a copy can go."""
        data = self.get(path, start=start, length=len(into))
        if len(data) != len(into):
            message = f"{self.name}: {path} has {len(data)} of the {len(into)} bytes wanted from {start}"
            raise ShortObject(message, target=self.name, path=path)
        into[:] = data
