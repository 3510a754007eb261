"""What a pass of verify has found good so far, in a file, so that the next one goes on where it ended.

JSON lines: first what the pass is, then a line for each checkpoint found good. A checkpoint is looked at again all the
same where it has got a new version since. The file is gone once a pass has come to its end.
"""

import fcntl
import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, Self

from ckptstore.errors import UsageError
from ckptstore.operations.checking import new_health
from ckptstore.operations.findings import Counts
from ckptstore.operations.health import CheckpointHealth
from ckptstore.operations.subsets import Window
from ckptstore.placement import Survives
from ckptstore.selection import key_of
from manifests import Checkpoint

FORMAT = 1
LONGEST = 7 * 86400
"""Seconds from the beginning of a pass after which what it found says too little of today."""
WHAT = ("store", "targets", "run", "checkpoint", "read_data", "subset")
"""What a pass is known by: one that differs in any of it is another."""

__all__ = ["Journal"]


class Journal:
    """The file of one pass, open and locked. `window`: the part that it reads, on whatever day it began."""

    def __init__(self, path: str | os.PathLike[str], about: Mapping[str, Any], window: Window) -> None:
        """Open it, or begin it. Raises `UsageError` for another pass's, or one in use; `OSError`."""
        self._path = Path(path)
        self._file: IO[bytes] = self._path.open("a+b")
        try:
            self._lock()
            self._lines = self._read()
            if not self._lines:
                header = {"ckpt": "verify", "format": FORMAT, **about, "window": [window.start, window.width]}
                header["begun"] = time.time()
                self._lines = [header]
                self._write(header)
            self.window = self._checked(about)
            self._good = {(line["run"], line["key"]): line for line in self._lines[1:]}
        except (KeyError, TypeError, ValueError) as error:
            self._file.close()
            raise self._refusal("is no file of an unfinished verify") from error
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
        if line is None or line["version"] != _version(checkpoint):
            return None
        health = new_health(checkpoint)
        health.tolerance = Survives(line["targets"], line["domains"])
        health.counts = Counts(line["expected"], line["checked"])
        health.earlier = True
        return health

    def add(self, checkpoint: Checkpoint, health: CheckpointHealth) -> None:
        """Write down that it is good, once."""
        if self.find(checkpoint) is not None:
            return
        counts, tolerance = health.counts, health.tolerance
        self._write(
            {
                "run": health.run,
                "key": health.key,
                "version": _version(checkpoint),
                "targets": tolerance.targets,
                "domains": tolerance.domains,
                "expected": counts.expected,
                "checked": counts.checked,
            }
        )

    def _lock(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise self._refusal("is in use by another verify") from error

    def _read(self) -> list[dict[str, Any]]:
        """The whole lines; half of one, which a killed process left, is cut off."""
        self._file.seek(0)
        data = self._file.read()
        whole = data[: data.rfind(b"\n") + 1]
        if data and not whole:
            raise ValueError("not one whole line")
        lines = [json.loads(line) for line in whole.splitlines()]
        if lines and (lines[0]["ckpt"], lines[0]["format"]) != ("verify", FORMAT):
            raise ValueError("another kind of file")
        self._file.truncate(len(whole))
        return lines

    def _checked(self, about: Mapping[str, Any]) -> Window:
        header = self._lines[0]
        for name in WHAT:
            if header[name] != about[name]:
                raise self._refusal(f"is of another pass: its {name} is {header[name]}, not {about[name]}")
        days = (time.time() - header["begun"]) / 86400
        if not 0 <= days * 86400 <= LONGEST:
            raise self._refusal(f"is of a pass that began {days:.1f} days ago: remove it, and begin anew")
        start, width = header["window"]
        return Window(int(start), int(width))

    def _write(self, line: Mapping[str, Any]) -> None:
        self._file.write(json.dumps(line).encode() + b"\n")
        self._file.flush()

    def _refusal(self, reason: str) -> UsageError:
        return UsageError(f"resume: {self._path} {reason}", hint="name a file of its own for this pass")


def _version(checkpoint: Checkpoint) -> str:
    """What is different for every version of a checkpoint."""
    return f"{checkpoint.manifest.version} {checkpoint.manifest.copies[0].index.path}"
