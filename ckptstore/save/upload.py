"""A shard's fragments on their way to their targets, and what becomes of a target that fails meanwhile."""

import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future, wait

from ckptstore.errors import TargetError
from ckptstore.events import Observer, TargetFailed
from ckptstore.placement import Place
from ckptstore.save.copies import check_size
from ckptstore.targets.base import Target

__all__ = ["Uploader"]


class Uploader:
    """Puts fragments on a thread pool. A target that fails one put is asked no more: it costs its fragments only."""

    def __init__(
        self, targets: Mapping[str, Target], places: Sequence[Place], executor: Executor, observer: Observer
    ) -> None:
        self.places = places
        self.failed: dict[str, TargetError] = {}
        self.missing: Counter[str] = Counter()
        self._targets = targets
        self._executor = executor
        self._observer = observer
        self._lock = threading.Lock()
        self._running: dict[Future[None], str] = {}
        self._given_up = False
        self._last: dict[str, tuple[str, int]] = {}
        self._stripes: list[list[int | None]] = []

    def send(
        self,
        parts: Sequence[tuple[str, memoryview]],
        homes: Sequence[int],
        at: list[int | None],
        done: Callable[[], None],
    ) -> None:
        """Start putting a stripe: `parts[i]` (path, bytes) to `homes[i]`, noted in `at[i]` once there.

        Empty parts are not stored. `done` is called once, by whichever thread ends last.
        """
        left = _Countdown(len(parts), done)
        self._stripes.append(at)

        def put(i: int) -> None:
            try:
                path, data = parts[i]
                name = self.places[homes[i]].target
                if len(data) and self._put(name, path, data):
                    at[i] = homes[i]
                    self._last[name] = path, len(data)
            finally:
                left.down()

        for i in range(len(parts)):
            self._running[self._executor.submit(put, i)] = self.places[homes[i]].target

    def finish(self, timeout: float | None = None) -> set[str]:
        """Wait for every put; returns the targets whose puts have not ended within `timeout` seconds.

        Raises what was no `TargetError`. Those that go on keep their buffers; what still waits is not sent any more.
        """
        ended, late = wait(self._running, timeout)
        self._given_up = bool(late)
        for put in ended:
            put.result()
        return {self._running[put] for put in late}

    def check_kept(self) -> None:
        """Ask each living target for the size of what it took last; of one that keeps it otherwise nothing counts.

        One request a target: a service or proxy that changes what is put does so with every object.
        """
        chosen = [place.target for place in self.living if place.target in self._last]
        errors = self._executor.map(self._look, chosen)
        for name, error in zip(chosen, errors, strict=True):
            if error is not None:
                self._note(name, error)
                self._forget(name)

    def _look(self, name: str) -> TargetError | None:
        try:
            check_size(self._targets[name], *self._last[name])
        except TargetError as error:
            return error
        return None

    def _forget(self, name: str) -> None:
        for at in self._stripes:
            for fragment, home in enumerate(at):
                if home is not None and self.places[home].target == name:
                    at[fragment] = None
                    self.missing[name] += 1

    @property
    def living(self) -> list[Place]:
        """The places that have not failed."""
        return [place for place in self.places if place.target not in self.failed]

    def _put(self, name: str, path: str, data: memoryview) -> bool:
        if name not in self.failed and not self._given_up:
            try:
                self._targets[name].put(path, data)
            except TargetError as error:
                self._note(name, error)
            else:
                return True
        with self._lock:
            self.missing[name] += 1
        return False

    def _note(self, name: str, error: TargetError) -> None:
        with self._lock:
            first = name not in self.failed
            self.failed.setdefault(name, error)
        if first:
            self._observer(TargetFailed("save", name, error.message))


class _Countdown:
    """Calls `then` when the last of `count` threads comes down."""

    def __init__(self, count: int, then: Callable[[], None]) -> None:
        self._left = count
        self._then = then
        self._lock = threading.Lock()

    def down(self) -> None:
        with self._lock:
            self._left -= 1
            last = self._left == 0
        if last:
            self._then()
