"""A rank that dies by SIGKILL in the middle of a save, at the same point every time."""

import os
import signal
import threading

from ckptstore.events import Event, Progress

__all__ = ["DieInSave"]


class DieInSave:
    """An observer of a save: kills its process when half of this rank's shard is uploaded. Thread-safe.

    Nothing is caught, flushed or cleaned up. Watching the store from outside would miss the moment on a busy
    machine: a save of the demo lasts half a second.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._done = 0

    def __call__(self, event: Event) -> None:
        """Count what is through."""
        if isinstance(event, Progress) and event.work == "save":
            with self._lock:
                self._done += event.done
                if 2 * self._done >= event.total:
                    os.kill(os.getpid(), signal.SIGKILL)
