"""Earlier drills, from the JSON that `ckpt drill --report-dir` wrote. What is none is told by why."""

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import msgspec

from ckptstore.operations.drill.report import FORMAT, DrillReport

LARGEST = 64 << 20
"""Bytes of a file that is read: a drill of a thousand checkpoints is below one MiB."""

__all__ = ["read_earlier"]


def read_earlier(folder: Path) -> Iterator[tuple[Path, DrillReport | str]]:
    """Each file that may be a drill's, and the drill, or why it can't be told of; in the order of their names."""
    for path in sorted(folder.glob("drill-*.json")):
        yield path, _read(path)


def _read(path: Path) -> DrillReport | str:
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
