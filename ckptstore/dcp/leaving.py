"""At exit: what still runs is finished first, and a failure that nobody was told of gives the process status 1."""

import atexit
import multiprocessing
import os
import sys
from collections.abc import Callable

from ckptstore.ending import at_end
from ckptstore.errors import SaveStalled

FAILED = 1

__all__ = ["finish_at_exit"]


def finish_at_exit(finish: Callable[[], list[tuple[str, BaseException]]]) -> None:
    """Call `finish` when the interpreter ends; it returns what failed, each as (what it was, why).

    It is called before the interpreter stops all thread pools: from then on a save could no longer upload, and `atexit`
    runs too late. An interpreter that has stopped them refuses saves, so there will be nothing to finish.
    """
    at_end(_leave_after, finish)


def _leave_after(finish: Callable[[], list[tuple[str, BaseException]]]) -> None:
    failures = finish()
    for what, error in failures:
        sys.stderr.write(f"ckptstore: {what} failed: {type(error).__name__}: {error}\n")
    if any(isinstance(error, SaveStalled) for _, error in failures):
        _leave()  # the interpreter would wait for the threads that hang
    elif failures and multiprocessing.parent_process() is not None:
        raise failures[0][1]  # what multiprocessing starts leaves without atexit; nothing else changes its status
    elif failures:
        atexit.register(_leave)


def _leave() -> None:
    """Do what is left to do at exit, and leave: an exception raised by now would not change the exit status."""
    atexit.unregister(_leave)
    atexit._run_exitfuncs()  # noqa: SLF001 - as multiprocessing does
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(FAILED)
