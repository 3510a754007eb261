"""The standard streams of a command: an answer that can't be written is told in one line, not in a traceback.

A full disk shows only when a buffer is written out, which the interpreter would do at exit, so it is done before. What
can't be said on stderr is not said: it costs no answer.
"""

import errno
import io
import os
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout, suppress
from typing import Any, TextIO, cast

from ckptstore.cli.failures import failure_of

__all__ = ["OutputError", "flush_streams", "hold_descriptors", "with_streams"]

UNWRITABLE = (OSError, ValueError)
"""What a stream raises: the system's errors; that it is closed; that its encoding lacks a character."""


class OutputError(Exception):
    """The answer can't be written. Without a reason: whoever read it has seen enough."""

    def __init__(self, reason: str = "") -> None:
        super().__init__(f"the output can't be written: {reason}")
        self.reason = reason


def with_streams(perform: Callable[[], int]) -> int:
    """Return the code that `perform` returns once all it wrote is written, else say why not and return FAILED.

    After a signal it is the signal's code.
    """
    with redirect_stderr(cast("TextIO", _Stream(sys.stderr))):
        try:
            with redirect_stdout(cast("TextIO", _Answer(sys.stdout))):
                code = perform()
                sys.stdout.flush()
                return code
        except OutputError as error:
            if error.reason:
                sys.stderr.write(f"error: {error}\n")
            return failure_of(error).code


def hold_descriptors() -> None:
    """Open what a caller closed of the first three: else a target's file gets the number, and what is printed to it."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest that is free


def flush_streams() -> None:
    """Before an exit that is none of the interpreter's."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            with suppress(*UNWRITABLE):
                stream.flush()


class _Stream:
    """A text stream in all but what becomes of a write that fails."""

    def __init__(self, stream: TextIO | None) -> None:
        self._stream: TextIO = io.StringIO() if stream is None else stream
        self._error: Exception | None = OSError(errno.EBADF, "it is closed") if stream is None else None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Raises `OutputError`, if this is the answer."""
        self._attempt(lambda: self._stream.write(text))
        return len(text)

    def write_bytes(self, data: memoryview) -> None:
        """As `write`, of bytes as they are."""
        self._attempt(lambda: self._stream.buffer.write(data))

    def flush(self) -> None:
        """As `write`."""
        self._attempt(self._stream.flush)

    def _attempt(self, write: Callable[[], object]) -> None:
        """Once it has failed it fails for ever: Typer tries a stream out, and swallows what that raises."""
        if self._error is None:
            try:
                write()
            except UNWRITABLE as error:
                self._error = error
                self._silence()

    def _silence(self) -> None:
        """The interpreter would exit with 120 for what is left when it flushes at exit."""
        with suppress(*UNWRITABLE):
            os.dup2(os.open(os.devnull, os.O_WRONLY), self._stream.fileno())


class _Answer(_Stream):
    def _attempt(self, write: Callable[[], object]) -> None:
        super()._attempt(write)
        if self._error is not None:
            told = getattr(self._error, "strerror", None) or str(self._error)
            raise OutputError("" if isinstance(self._error, BrokenPipeError) else told) from self._error
