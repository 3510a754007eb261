"""SIGINT and SIGTERM: the first ends the command after it has cleaned up, the second at once."""

import os
import signal
import sys
from collections.abc import Callable
from types import FrameType

from ckptstore.cli.failures import INTERRUPTED, SIGNALLED, TERMINATED, Terminated, failure_of

__all__ = ["leave", "stop_on_signals"]


def stop_on_signals() -> None:
    """From now on the first of them raises `KeyboardInterrupt` (its subclass `Terminated` for SIGTERM)."""
    for each in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(each) is not signal.SIG_IGN:  # as nohup and `&` in a script have it
            signal.signal(each, _first)


def leave(perform: Callable[[], int]) -> int:
    """Return the code that `perform` returns; after a signal leave with it here.

    That waits for no thread that waits for a target.
    """
    from ckptstore.cli.streams import flush_streams, with_streams

    try:
        code = perform()
    except KeyboardInterrupt as error:  # before there was a command, or while it was told how it had ended
        from ckptstore.cli.output import Output

        output, failure = Output("", as_json="--json" in sys.argv), failure_of(error)
        code = with_streams(lambda: output.failure(failure))
    if code in {INTERRUPTED, TERMINATED}:
        flush_streams()
        os._exit(code)
    return code


def _first(signum: int, _frame: FrameType | None) -> None:
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, _second)
    SIGNALLED.append(Terminated() if signum == signal.SIGTERM else KeyboardInterrupt())
    raise SIGNALLED[0]


def _second(signum: int, _frame: FrameType | None) -> None:
    os._exit(128 + signum)
