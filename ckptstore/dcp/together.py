"""The ranks of a job as its saves use them: a gloo group of their own, and a roll of how far each rank is.

The group's collectives never mix with those of the training loop, and none waits longer than `save_timeout`. A rank
whose targets hang gives its part up before that and tells the others why, so the group stays in order. One that is
frozen or gone can tell nothing: the others find it in the roll, which lies in the job's rendezvous store.
"""

import itertools
import queue
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from enum import IntEnum
from typing import Any

import torch.distributed as dist

from ckptstore.errors import SaveStalled

OWN_PART = 0.8
"""Of `save_timeout`: what a rank gives its own part. Its report must reach ranks that wait no longer than all of it."""
STORE_SECONDS = 5.0  # for the rendezvous store to say how far the ranks are; a process that is frozen may hold it
AFTER_A_STALL = (
    "look whether the save is there all the same: ckpt ls; once every rank is back, the next save works; "
    "where one has died, restart the job"
)

__all__ = ["OWN_PART", "Ranks", "Step", "is_distributed", "leads"]

_NUMBERS = itertools.count()  # every rank makes its groups in the same order, as torch wants it


class Step(IntEnum):
    """How far a rank is in a save."""

    BEGUN = 0
    PLANNED = 1
    WRITTEN = 2


def is_distributed() -> bool:
    """Whether this process is one of several ranks."""
    return dist.is_available() and dist.is_initialized()


def leads(group: Any = None) -> bool:
    """Whether this process is rank 0 of a group, or the only one."""
    return not is_distributed() or dist.get_rank(group) == 0


def _told(rank: int, behind: list[int], seconds: float, *, timed_out: bool) -> str:
    """What became of a save on `rank` after so many `seconds`, of which the ranks `behind` are the cause."""
    if rank in behind:
        others = [other for other in behind if other != rank]
        return (
            f"rank {rank} was behind{f', as were ranks {others}' if others else ''}: the other ranks gave the save up"
        )
    who = f"ranks {behind}" if behind else "a rank that can't be told (the rendezvous store is silent too)"
    what = "it is stalled or gone" if timed_out else "a connection was closed: it is gone, or gave the save up"
    return f"rank {rank} waited {seconds:.1f} s for {who}: {what}"


class Ranks:
    """All ranks of the job, for the saves of one run: one at a time, called by every rank in the same order."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._group: dist.ProcessGroup | None = None
        self._world: dist.ProcessGroup | None = None
        self._roll = ""
        self._saves = 0
        self._began = 0.0

    @contextmanager
    def together(self) -> Iterator["dist.ProcessGroup | None"]:
        """The group for one save; none where this process is alone.

        Raises `SaveStalled` where its collectives fail: the next save makes a group anew.
        """
        if not is_distributed():
            yield None
            return
        try:
            yield self._begin()
        except RuntimeError as error:  # gloo's: it timed out, or a connection is gone
            self._group = None
            raise self._stalled() from error

    def reached(self, step: Step) -> None:
        """Note how far this rank is."""
        if self._roll:
            self._store().set(f"{self._roll}/{dist.get_rank()}", str(self._saves * len(Step) + step))

    def _begin(self) -> dist.ProcessGroup:
        if self._world is not dist.group.WORLD:  # torch.distributed was started again
            self._world, self._group = dist.group.WORLD, None
        if self._group is None:
            self._roll, self._saves = f"ckptstore/saves/{next(_NUMBERS)}", 0
        self._saves += 1
        self._began = time.monotonic()
        self.reached(Step.BEGUN)
        if self._group is None:
            self._group = dist.new_group(backend="gloo", timeout=timedelta(seconds=self._seconds))
        return self._group

    def _stalled(self) -> SaveStalled:
        seconds = time.monotonic() - self._began
        ranks = self._behind()
        message = _told(dist.get_rank(), ranks, seconds, timed_out=seconds >= self._seconds)
        return SaveStalled(message, hint=AFTER_A_STALL, ranks=ranks)

    def _behind(self) -> list[int]:
        """The ranks that are furthest behind; rank 0, which commits, where all are as far; none if nobody can say.

        The first rank that looks decides for all: a rank that was frozen may have moved on when the next one looks.
        """
        answer: queue.SimpleQueue[list[int]] = queue.SimpleQueue()

        def ask() -> None:
            with suppress(RuntimeError):
                found = " ".join(map(str, self._look()))
                decided = self._store().compare_set(f"{self._roll}/stalled/{self._saves}", "", found)
                answer.put([int(rank) for rank in decided.split()])

        threading.Thread(target=ask, name="ckptstore-roll", daemon=True).start()
        try:
            return answer.get(timeout=STORE_SECONDS)
        except queue.Empty:
            return []

    def _look(self) -> list[int]:
        noted = [self._noted(rank) for rank in range(dist.get_world_size())]
        if min(noted) == max(noted):
            return [0]
        return [rank for rank, far in enumerate(noted) if far == min(noted)]

    def _noted(self, rank: int) -> int:
        key = f"{self._roll}/{rank}"
        return int(self._store().get(key)) if self._store().check([key]) else -1

    @staticmethod
    def _store() -> Any:
        return dist.distributed_c10d._get_default_store()  # noqa: SLF001 - torch has no public way to it
