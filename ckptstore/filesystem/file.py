"""An open file of the file system: read in ranges, or written stripe by stripe.

What an exception leaves half written is never published. fsspec closes files in ways that don't say why, so a file that
is written asks the interpreter, when it is closed, whether an exception is passing by that wasn't when it was opened.
"""

import sys
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from fsspec.spec import AbstractBufferedFile

from ckptstore.filesystem.contents import read_ranges
from ckptstore.filesystem.staging import FileWriter
from ckptstore.notices import FileDiscardedWarning

if TYPE_CHECKING:
    from ckptstore.filesystem.spec import CheckpointFileSystem
    from ckptstore.filesystem.view import Entry, View

BLOCK = 8 << 20
"""Bytes that are read ahead: a few blocks of each of a few fragments."""

__all__ = ["StoredFile", "UnfinishedFile"]


class StoredFile(AbstractBufferedFile):  # type: ignore[misc]
    """A file open for reading. It stays as it was when it was opened, whatever is committed meanwhile."""

    DEFAULT_BLOCK_SIZE = BLOCK

    def __init__(self, fs: "CheckpointFileSystem", path: str, view: "View", entry: "Entry", **options: Any) -> None:
        contents, self._file = view.open(entry)
        self._source = contents.source()
        self._details = fs.info_of(path, entry)
        options["size"] = self._file.size
        super().__init__(fs, path, mode="rb", **options)

    def _fetch_range(self, start: int, end: int) -> bytes:
        (data,) = read_ranges(self._source, [(self._file, start, max(start, min(end, self._file.size)))])
        return data


class UnfinishedFile(AbstractBufferedFile):  # type: ignore[misc]
    """A file open for writing. Holds a stripe in memory, beside those on their way in the store's window."""

    def __init__(self, fs: "CheckpointFileSystem", path: str, writer: FileWriter, *, autocommit: bool) -> None:
        self._writer = writer
        self._settled = False
        self._buffer = bytearray()
        self._passing = sys.exception()
        super().__init__(fs, path, mode="wb", block_size=writer.stripe_bytes, autocommit=autocommit)

    def write(self, data: Any) -> int:
        """Raises as `FileWriter.append`; the file is given up then."""
        if self.closed:
            raise ValueError("I/O operation on closed file.")
        view = memoryview(data).cast("B")
        done = 0
        while done < len(view):
            part = view[done : done + self.blocksize - len(self._buffer)]
            self._buffer += part
            done += len(part)
            if len(self._buffer) == self.blocksize:
                self._send()
        self.loc += done
        return done

    def flush(self, force: bool = False) -> None:  # noqa: ARG002 - as in fsspec
        """Nothing: what is written is sent a stripe at a time, and whole when the file is closed."""
        if self.closed:
            raise ValueError("Flush on closed file")

    def close(self) -> None:
        """Store and show the file; a marker commits its directory. Discards it where an exception passes by.

        Raises as `ShardSaver.save` and `commit_folder`.
        """
        if self.closed:
            return
        passing = sys.exception()
        if passing is not None and passing is not self._passing:
            self.discard()
            message = f"{self.path} is not stored: it was closed while {type(passing).__name__} was raised"
            warnings.warn(FileDiscardedWarning(message), stacklevel=2)
            return
        try:
            self._writer.finish(np.frombuffer(self._buffer, np.uint8))
        except BaseException:
            self.discard()
            raise
        self._end()
        if self.autocommit:
            self.commit()

    def commit(self) -> None:
        """Show a file that is closed, and do what its name means. Raises as `commit_folder`."""
        if self.stage():
            self.fs.placed(self.path)

    def stage(self) -> bool:
        """Show it; False for one that was discarded. Raises `ValueError` for one that is open, and discards it."""
        if not self.closed:
            self.discard()
            raise ValueError(f"{self.path} was never closed: it is not stored")
        if self._settled:
            return False
        self._settled = True
        self._writer.stage()
        return True

    def discard(self) -> None:
        """Remove what was put; the file that had this path before is as it was."""
        self._end()
        if not self._settled:
            self._settled = True
            self._writer.abandon()

    def readable(self) -> bool:
        """False."""
        return False

    def _send(self) -> None:
        try:
            self._writer.append(np.frombuffer(self._buffer, np.uint8))
        except BaseException:
            self.discard()
            raise
        self._buffer = bytearray()

    def _end(self) -> None:
        self.closed = True
        self._buffer = bytearray()

    def _dealloc_warn(self, _source: object) -> None:
        """Called by a text file over this one that nobody closed, before it closes this one (CPython's protocol)."""
        self.discard()

    def __exit__(self, kind: object, *exc: object) -> None:
        if kind is not None and not self.closed:
            self.discard()
        else:
            self.close()

    def __del__(self) -> None:
        if not self.closed and not sys.is_finalizing():
            self.discard()
