"""The sessions that this process has opened on runs: each save is the next of one."""

import threading
from collections.abc import Callable
from dataclasses import dataclass

from ckptstore.errors import ConflictError
from manifests import Group, paths

__all__ = ["Sessions"]


@dataclass
class _Session:
    """One opening of a run for saving, and how many saves have begun in it."""

    name: str
    begun: int = 0


class Sessions:
    """Of one open store, whose commit targets `group` gives. Thread-safe."""

    def __init__(self, group: Callable[[], Group]) -> None:
        self._group = group
        self._open: dict[str, _Session] = {}
        self._lock = threading.Lock()  # held over requests to the targets: a load must not wait for it

    def is_saving(self, run: str) -> bool:
        """Whether this process has opened a session on a run."""
        with self._lock:
            return run in self._open

    def next_save(self, run: str, job: str) -> tuple[str, int]:
        """Name the next save of a run: the session that this process holds on it, and the next ordinal in it.

        A session is opened for the first save, and again when another process of the same job has opened one since,
        so that what begins later is later. Raises `ConflictError` where the newer one is another job's.
        """
        group = self._group()
        with self._lock:
            mine = self._open.get(run)
            if mine is None or group.newest_session(run) != mine.name:
                if mine is not None:
                    _refuse_replaced(run, mine.name, group.newest_session(run, besides=job))
                mine = self._open[run] = _Session(group.open_session(run, job))
            mine.begun += 1
            return mine.name, mine.begun


def _refuse_replaced(run: str, mine: str, newest: str) -> None:
    if newest and paths.split_session(newest) > paths.split_session(mine):
        message = f"{run}: session {newest} has been opened since {mine}; this saver has been replaced"
        raise ConflictError(message, hint="another job saves this run: stop this one, or open the run again", run=run)
