"""Whether the interpreter is ending: then thread pools take no more work, so nothing can be saved or read any more.

It ends when its main thread does, though other threads may go on for long; `atexit` runs later still.
"""

import threading
from collections.abc import Callable
from typing import Any

from ckptstore.errors import StoreClosed

__all__ = ["at_end", "check_not_ending"]

_ENDING = threading.Event()


def at_end(function: Callable[..., Any], *arguments: Any) -> bool:
    """Call `function` just before the interpreter stops all thread pools. False: it has stopped them."""
    try:
        threading._register_atexit(function, *arguments)  # type: ignore[attr-defined]  # noqa: SLF001
    except RuntimeError:
        return False
    return True


def check_not_ending() -> None:
    """Raise `StoreClosed` from the end of the main thread on."""
    if _ENDING.is_set():
        message = "the interpreter is ending: its main thread has ended, so nothing can be saved or read any more"
        hint = "let the main thread wait for those that save (thread.join()), and save before it ends, not in atexit"
        raise StoreClosed(message, hint=hint)


if not at_end(_ENDING.set):
    _ENDING.set()
