"""Earlier drills, from the JSON that `ckpt drill --report-dir` wrote. What is none is named and skipped."""

from collections.abc import Collection
from datetime import datetime
from pathlib import Path

import msgspec

from ckptstore.errors import UsageError
from ckptstore.operations.drill import DrillReport
from ckptstore.operations.drill.report import FORMAT
from ckptstore.operations.report.content import Drills
from ckptstore.redaction import redacted

LARGEST = 64 << 20
"""Bytes of a file that is read: a drill of a thousand checkpoints is below one MiB."""

__all__ = ["check_folder", "read_drills"]


def check_folder(folder: Path) -> None:
    """Raise `UsageError` for what is no folder."""
    if not folder.is_dir():
        hint = f"drills write there: ckpt drill --report-dir {folder}"
        raise UsageError(f"reports = '{folder}': no such folder", hint=hint, key="reports")


def read_drills(folder: Path | None, store: str, runs: Collection[str]) -> Drills:
    """The drills of these runs of a store, in the order of their times."""
    if folder is None:
        return Drills()
    found: list[tuple[datetime, str, DrillReport]] = []
    skipped: dict[str, str] = {}
    for path in sorted(folder.glob("drill-*.json")):
        drill = _read(path)
        if isinstance(drill, str):
            skipped[path.name] = redacted(drill)
        elif drill.store != store:
            skipped[path.name] = redacted(f"a drill of another store, {drill.store}")
        elif drill.run in runs:
            found.append((datetime.fromisoformat(drill.began), path.stem, drill))
    in_order = sorted(found, key=lambda each: each[:2])  # of one second too: the second one's name has a number more
    return Drills(str(folder), [drill for _, _, drill in in_order], skipped)


def _read(path: Path) -> DrillReport | str:
    """The drill, or why it can't be told of."""
    try:
        return _decode(_bytes_of(path))
    except OSError as error:
        return f"can't be read: {error.strerror or error}"
    except ValueError as error:  # of JSON, of types, of UTF-8 and of a time
        return f"no report of a drill: {error}"


def _bytes_of(path: Path) -> bytes:
    if not path.is_file():  # nothing may come out of a pipe, ever
        raise ValueError("no regular file")
    if path.stat().st_size > LARGEST:
        raise ValueError(f"larger than {LARGEST >> 20} MiB")
    return path.read_bytes()


def _decode(data: bytes) -> DrillReport:
    """Raises `ValueError`."""
    number = msgspec.json.decode(data, type=_Format).format
    if number != FORMAT:
        raise ValueError(f"it is of format {number}, and this release reads format {FORMAT}")
    drill = msgspec.json.decode(data, type=DrillReport)
    if datetime.fromisoformat(drill.began).tzinfo is None:
        raise ValueError(f"began {drill.began!r:.80} has no time zone")
    return drill


class _Format(msgspec.Struct):
    format: int
