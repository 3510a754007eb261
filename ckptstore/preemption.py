"""SIGTERM: what a machine gets seconds before it is taken away. The save in flight is finished, or told of.

    ckptstore.finish_on_sigterm(grace=25)        # in the main thread, before training

Nothing has to be cleaned up: a save that is not committed isn't visible, and the checkpoints before it stay as they
are. So all there is to do is to wait, for as long as it makes sense, and then to say what became of it.

Python runs signal handlers between two instructions of the main thread, which may be in a collective for minutes. The
interpreter itself writes each signal's number to a pipe at once (`signal.set_wakeup_fd`); a thread reads it and acts.
"""

import os
import select
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType, TracebackType
from typing import Self

from ckptstore.arguments import is_number
from ckptstore.errors import UsageError

TERMINATED = 128 + signal.SIGTERM
"""The exit status, as shells have it."""
POLL = 0.05  # seconds between two looks at the saves in flight, once a signal has come
HANDLED, CLOSED = 0xFF, 0xFE  # beside signal numbers, which end at 64

__all__ = ["Preemption", "SaveUnderWay", "finish_on_sigterm", "save_under_way"]


class SaveUnderWay:
    """A save between its beginning and its end in this process. `error`: what it failed with.

    One that failed is remembered until somebody was told: the process may be ended by a signal first.
    """

    def __init__(self, what: str) -> None:
        self.what = what
        self.error: BaseException | None = None
        self.told = False
        _UNDER_WAY.append(self)

    def end(self, error: BaseException | None = None) -> None:
        """It has ended."""
        self.error = error
        if error is not None and not self.told:
            _UNTOLD.append(self)
        _UNDER_WAY.remove(self)

    def tell(self) -> bool:
        """The caller is told of its end. False: somebody was before."""
        first, self.told = not self.told, True
        with suppress(ValueError):
            _UNTOLD.remove(self)
        return first

    @property
    def ended(self) -> bool:
        """Whether it has."""
        return self not in _UNDER_WAY


_UNDER_WAY: list[SaveUnderWay] = []
"""Without a lock, which a signal handler or a fork might find taken: each operation on it is atomic."""

_UNTOLD: list[SaveUnderWay] = []
"""Saves that failed in the background and nobody was told of: by the same rule."""


@contextmanager
def save_under_way(what: str) -> Iterator[None]:
    """For the length of a save: `what` says which."""
    save = SaveUnderWay(what)
    try:
        yield
    except BaseException as error:
        save.tell()  # by what is raised here
        save.end(error)
        raise
    save.end()


def finish_on_sigterm(grace: float = 10.0) -> "Preemption":
    """From now on a SIGTERM lets the saves in flight (`run.save`, `run.save_async`) finish, for `grace` seconds.

    What the handler found in place decides on the rest. If that was the default, the process ends when those saves
    have ended, with exit status 143. A handler of your own is called as ever, and it decides how the job ends: to stop
    at the next step and save once more, for one. Either way no save goes on after `grace` seconds, and a second SIGTERM
    ends the process at once. What became of each save is told on stderr; one that was cut off is not in the store.

    Use it as a context manager, or call its `close`, to put back what was there. Raises `UsageError` outside the main
    thread, which alone may set signal handlers, while another one is in place, and for a `grace` below 0.
    """
    if not (is_number(grace) and grace >= 0):
        raise UsageError(f"finish_on_sigterm(grace={grace!r}): seconds from 0 are wanted", hint="grace=25")
    if threading.current_thread() is not threading.main_thread():
        raise UsageError("finish_on_sigterm was called outside the main thread", hint="call it before threads start")
    if _IN_PLACE:
        raise UsageError("finish_on_sigterm is in place already", hint="close the other one first")
    return Preemption(grace)


class Preemption:
    """What `finish_on_sigterm` put in place."""

    def __init__(self, grace: float) -> None:
        self.grace = grace
        self._sent = self._handled = 0
        self._reading, self._writing = os.pipe()
        os.set_blocking(self._writing, False)
        self._before = signal.signal(signal.SIGTERM, self._handle)
        self._woken_before = signal.set_wakeup_fd(self._writing, warn_on_full_buffer=False)
        self._thread = threading.Thread(target=self._watch, name="ckptstore-sigterm", daemon=True)
        self._thread.start()
        _IN_PLACE.append(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Put back what was there."""
        if self in _IN_PLACE:
            self.put_back()
            os.write(self._writing, bytes([CLOSED]))
            self._thread.join()
            os.close(self._reading)
            os.close(self._writing)

    def put_back(self) -> None:
        """The handlers that were there before."""
        _IN_PLACE.remove(self)
        signal.signal(signal.SIGTERM, self._before)
        signal.set_wakeup_fd(self._woken_before)

    def _handle(self, signum: int, frame: FrameType | None) -> None:
        os.write(self._writing, bytes([HANDLED]))  # the number of the signal may have gone to asyncio's pipe
        if callable(self._before):
            self._before(signum, frame)

    def _watch(self) -> None:
        while not self._sent:
            if self._closed(None):
                return
        deadline = time.monotonic() + self.grace
        waiting = list(_UNDER_WAY)
        _tell(f"SIGTERM: {_named(waiting) or 'no save'} in flight, {self.grace:g} s to finish")
        while (why := self._why_end(waiting, deadline)) is None:
            if self._closed(POLL):
                return
        _end(why, waiting)

    def _why_end(self, waiting: list[SaveUnderWay], deadline: float) -> str | None:
        if self._sent > 1:
            return "a second SIGTERM"
        if _UNDER_WAY and time.monotonic() >= deadline:
            return f"{self.grace:g} s are over"
        if self._before is signal.SIG_DFL and all(save.ended for save in waiting):
            return "nothing is in flight"
        return None

    def _closed(self, seconds: float | None) -> bool:
        """Listen for so long; count the signals, each once, whether the pipe, the handler or both tell of it."""
        ready, _, _ = select.select([self._reading], [], [], seconds)
        heard = os.read(self._reading, 1024) if ready else b""
        self._handled += heard.count(HANDLED)
        self._sent = max(self._sent + heard.count(signal.SIGTERM), self._handled)
        others = bytes(byte for byte in heard if byte not in {HANDLED, CLOSED})
        if others and self._woken_before != -1:
            os.write(self._woken_before, others)
        return CLOSED in heard


_IN_PLACE: list[Preemption] = []
"""None or one."""


def _end(why: str, waiting: list[SaveUnderWay]) -> None:
    before = [save for save in _UNTOLD if save not in waiting and not save.told]
    for save in [*before, *waiting]:
        if save.ended:
            _tell(f"{save.what}: {'committed' if save.error is None else f'failed: {save.error}'}")
    for save in _UNDER_WAY[:]:  # they may end meanwhile
        _tell(f"{save.what}: cut off; it is not in the store unless ckpt ls lists it, all before it is")
    _tell(f"ends: {why}")
    os._exit(TERMINATED)


def _named(saves: list[SaveUnderWay]) -> str:
    return ", ".join(save.what for save in saves)


def _tell(text: str) -> None:
    os.write(2, f"ckptstore: {text}\n".encode())  # not sys.stderr, whose lock the main thread may hold


_mask = threading.local()
"""The forking thread's signals before a fork."""


def _before_fork() -> None:
    """A child that gets SIGTERM before it has its own handlers back would write to the pipe of its parent."""
    _mask.before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})


def _in_parent() -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, _mask.before)


def _in_child() -> None:
    """SIGTERM is for whoever started the child to send, and nothing is in flight here."""
    while _IN_PLACE:
        _IN_PLACE[0].put_back()
    _UNDER_WAY.clear()
    _UNTOLD.clear()
    signal.pthread_sigmask(signal.SIG_SETMASK, _mask.before)


os.register_at_fork(before=_before_fork, after_in_parent=_in_parent, after_in_child=_in_child)
