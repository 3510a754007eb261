"""What a pass of verify has found good so far, in a file, so that the next one goes on where it ended.

JSON lines: first what the pass is, then a line for each checkpoint found good. A checkpoint is looked at again all the
same where it has got a new version since. The file is gone once a pass has come to its end.
"""

import fcntl
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Annotated, Any, Literal, Self

import msgspec

from ckptstore.errors import UsageError
from ckptstore.operations.checking import new_health
from ckptstore.operations.findings import Counts
from ckptstore.operations.health import CheckpointHealth
from ckptstore.operations.subsets import Window
from ckptstore.placement import Survives
from ckptstore.selection import key_of
from manifests import Checkpoint

LONGEST = 7 * 86400
"""Seconds from the beginning of a pass after which what it found says too little of today."""

Count = Annotated[int, msgspec.Meta(ge=0)]
Place = Annotated[str, msgspec.Meta(pattern="^(0[0-9a-f]{16}|10{16})$")]
"""On the circle of 2^64, in hexadecimal: wider than an integer of JSON may be."""

__all__ = ["Journal"]


class Header(msgspec.Struct, frozen=True):
    """What a pass is known by: one that differs in any of `WHAT` is another. `window`: start and width."""

    store: str
    targets: list[str]
    run: str | None
    checkpoint: str | None
    read_data: bool
    subset: str | None
    window: tuple[Place, Place]
    begun: float
    ckpt: Literal["verify"] = "verify"
    format: Literal[1] = 1


WHAT = Header.__struct_fields__[:6]


class Line(msgspec.Struct, frozen=True):
    """A checkpoint found good, and what it survives."""

    run: str
    key: str
    version: str
    targets: Count
    domains: Count
    expected: Count
    checked: Count


class Journal:
    """The file of one pass, open and locked. `window`: the part that it reads, on whatever day it began."""

    def __init__(self, path: str | os.PathLike[str], about: Mapping[str, Any], window: Window) -> None:
        """Open it, or begin it. Raises `UsageError` for another pass's, or one in use; `OSError`."""
        self._path = Path(path)
        self._file: IO[bytes] = self._path.open("a+b")
        try:
            self._lock()
            self._good: dict[tuple[str, str], Line] = {}
            self._header = self._read() or self._begin(about, window)
            self.window = self._checked(about)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            self._file.close()
            raise self._refusal(f"is no file of an unfinished verify: {error}") from error
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Close it; remove it where the pass came to its end."""
        if kind is None:
            self._path.unlink(missing_ok=True)
        self._file.close()

    def find(self, checkpoint: Checkpoint) -> CheckpointHealth | None:
        """What an earlier part of the pass found of it, where that was good and it is what it was."""
        line = self._good.get((checkpoint.manifest.run, key_of(checkpoint)))
        if line is None or line.version != _version(checkpoint):
            return None
        health = new_health(checkpoint)
        health.tolerance = Survives(line.targets, line.domains)
        health.counts = Counts(line.expected, line.checked)
        health.earlier = True
        return health

    def add(self, checkpoint: Checkpoint, health: CheckpointHealth) -> None:
        """Write down that it is good, once."""
        if self.find(checkpoint) is not None:
            return
        counts, tolerance = health.counts, health.tolerance
        found = (tolerance.targets, tolerance.domains, counts.expected, counts.checked)
        self._write(Line(health.run, health.key, _version(checkpoint), *found))

    def _lock(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise self._refusal("is in use by another verify") from error
        if not os.fstat(self._file.fileno()).st_nlink:  # that one has come to its end since we opened it
            raise self._refusal("was of a verify that has just ended: run this one again")

    def _begin(self, about: Mapping[str, Any], window: Window) -> Header:
        header = Header(**about, window=(f"{window.start:017x}", f"{window.width:017x}"), begun=time.time())
        self._write(header)
        return header

    def _read(self) -> Header | None:
        """The whole lines; half of one, which a killed process left, is cut off. None where there is nothing yet."""
        self._file.seek(0)
        data = self._file.read()
        whole = data[: data.rfind(b"\n") + 1]
        if not data:
            return None
        first, *others = whole.splitlines() or [data]
        header = msgspec.json.decode(first, type=Header)
        lines = [msgspec.json.decode(line, type=Line) for line in others]
        self._good = {(line.run, line.key): line for line in lines}
        self._file.truncate(len(whole))
        return header

    def _checked(self, about: Mapping[str, Any]) -> Window:
        header = self._header
        for name in WHAT:
            if getattr(header, name) != about[name]:
                raise self._refusal(f"is of another pass: its {name} is {getattr(header, name)}, not {about[name]}")
        seconds = time.time() - header.begun
        if not 0 <= seconds <= LONGEST:
            raise self._refusal(f"is of a pass that began {seconds / 86400:.1f} days ago: remove it, and begin anew")
        return Window(*(int(place, 16) for place in header.window))

    def _write(self, line: msgspec.Struct) -> None:
        self._file.write(msgspec.json.encode(line) + b"\n")
        self._file.flush()

    def _refusal(self, reason: str) -> UsageError:
        return UsageError(f"resume: {self._path} {reason}", hint="name a file of its own for this pass")


def _version(checkpoint: Checkpoint) -> str:
    """What is different for every version of a checkpoint."""
    return f"{checkpoint.manifest.version} {checkpoint.manifest.copies[0].index.path}"
