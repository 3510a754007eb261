"""Jobs in processes of their own, that die or stop at a request of theirs, or whenever they are told."""

import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from ckptstore.errors import CkptStoreError
from tests.faults.crash.killing import Signaller, When, one_by_one
from tests.faults.crash.world import World

SPAWN = multiprocessing.get_context("spawn")
LIMIT = 120.0  # seconds that any job may take on a busy machine
POLL = 0.005

__all__ = ["Job"]


class Job:
    """`work(store, *arguments)` in a process of its own, which begins at once.

    At its request `at` it sends itself `number`: SIGKILL, or SIGSTOP, after which it waits for `go_on`.
    """

    def __init__(
        self,
        world: World,
        work: Callable[..., Any],
        *arguments: object,
        at: int | None = None,
        when: When = "before",
        number: signal.Signals = signal.SIGKILL,
    ) -> None:
        self._pipe, theirs = SPAWN.Pipe()
        line = theirs, world, work, arguments, Signaller(at, when, number)
        self.process = SPAWN.Process(target=_run, args=line, daemon=True)
        self.process.start()
        theirs.close()

    def outcome(self) -> Any:
        """What it returned, or the error of ours that it raised; None where it was killed."""
        try:
            assert self._pipe.poll(LIMIT), "the job doesn't end"
            answer = self._pipe.recv()
        except EOFError:
            answer = None
        self.process.join(LIMIT)
        return answer

    def result(self) -> Any:
        """What it returned. Raises what it raised."""
        answer = self.outcome()
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def is_stopped(self) -> bool:
        """Wait until it has stopped; False where it ended without."""
        end = time.monotonic() + LIMIT
        while time.monotonic() < end and not self._pipe.poll():
            if os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WNOHANG | os.WNOWAIT) is not None:
                return True
            time.sleep(POLL)
        return False

    def send(self, number: signal.Signals) -> None:
        """Send it a signal."""
        os.kill(self.process.pid or 0, number)

    def go_on(self) -> None:
        """Let it go on."""
        self.send(signal.SIGCONT)


def _run(
    pipe: Connection, world: World, work: Callable[..., Any], arguments: tuple[object, ...], killer: Signaller
) -> None:
    try:
        with one_by_one():
            answer = work(world.open(killer if killer.at else None), *arguments)
    except CkptStoreError as error:
        answer = error
    pipe.send(answer)
