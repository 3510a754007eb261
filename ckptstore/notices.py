"""Warnings that callers may filter by their class, shown at the caller's own line of code."""

import sys
import warnings
from collections.abc import Callable

OWN = __name__.partition(".")[0]

__all__ = ["FileDiscardedWarning", "PruneFailedWarning", "SaveFailedWarning", "warner"]


class SaveFailedWarning(UserWarning):
    """A save failed, and few enough in a row have."""


class PruneFailedWarning(UserWarning):
    """A save is committed, and the prune after it could not remove everything."""


class FileDiscardedWarning(UserWarning):
    """A file was closed while an exception was raised, and is not stored."""


def warner() -> Callable[[Warning], None]:
    """What gives warnings at the line that called into ckptstore, from a thread in the background too."""
    frame = sys._getframe(1)  # noqa: SLF001 - no public way to it is as quick
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == OWN:
        frame = frame.f_back
    file, line = frame.f_code.co_filename, frame.f_lineno
    return lambda warning: warnings.warn_explicit(warning, type(warning), file, line)
