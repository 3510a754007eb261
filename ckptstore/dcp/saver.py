"""The saves of one run in this process, one at a time: by the caller, or in the background.

In the background the training loop pays one copy of its state; a thread then saves the copy. Whatever a background save
fails with is told once: by its handle's `result`, else by the next save or by closing the store, else at exit, which
then has a non-zero status.
"""

import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Generic, TypeVar

from ckptstore.config import Config
from ckptstore.dcp.job import JobState, taken
from ckptstore.dcp.leaving import finish_at_exit
from ckptstore.dcp.save_planner import CheckpointSavePlanner
from ckptstore.dcp.staged import Stage
from ckptstore.dcp.state import check_state, save_state
from ckptstore.dcp.together import Ranks
from ckptstore.ending import check_not_ending
from ckptstore.names import check_chosen
from ckptstore.preemption import SaveUnderWay, save_under_way
from manifests import Manifest

Result = TypeVar("Result")

__all__ = ["SaveHandle", "Saver", "finish_saves"]


class SaveHandle(Generic[Result]):
    """A save under way. `result` tells what it failed with; until then nobody was told."""

    def __init__(self, future: "Future[Result]", under_way: SaveUnderWay) -> None:
        self._future = future
        self._under_way = under_way

    def result(self, timeout: float | None = None) -> Result:
        """Wait for the commit; raises what the save raised, `TimeoutError` after `timeout` seconds."""
        self._future.exception(timeout)  # a time-out tells nothing of the save
        self._under_way.tell()
        return self._future.result()

    def done(self) -> bool:
        """Whether it has ended, well or not."""
        return self._future.done()

    def settle(self) -> None:
        """Wait for its end; raise what it raised unless `result` was asked for, which told the caller already."""
        error = self._future.exception()
        if error is not None and self._under_way.tell():
            raise error


class Saver:
    """The saves of one run. `of` gives the one that this process has for a run; every rank calls it alike."""

    def __init__(self, config: Config, run: str) -> None:
        self.config = config
        self.run = run
        self._ranks = Ranks(config.save_timeout)
        self._stage: Stage | None = None
        self._thread: ThreadPoolExecutor | None = None
        self._last: SaveHandle[Any] | None = None

    @classmethod
    def of(cls, config: Config, run: str) -> "Saver":
        """Made when first asked for."""
        key = (os.getpid(), repr(config), run)
        if key not in _SAVERS:
            _SAVERS[key] = cls(config, run)
        return _SAVERS[key]

    def save(
        self, state: dict[str, Any] | JobState, *, step: int | None = None, name: str | None = None, **options: Any
    ) -> Manifest:
        """Save now, after the one in the background, whose failure is raised if nobody was told. See `save_state`."""
        state_dict, step = taken(state, step)
        _check(state_dict, name)
        self._settle()
        with save_under_way(self._named(step, name)):
            return save_state(self.config, self.run, state_dict, step=step, name=name, ranks=self._ranks, **options)

    def save_async(
        self,
        state: dict[str, Any] | JobState,
        *,
        step: int | None = None,
        name: str | None = None,
        wrap: Callable[[Callable[[], Manifest]], Result],
        **options: Any,
    ) -> SaveHandle[Result]:
        """Copy now, save later. `wrap` is given what saves, in the background, and makes the handle's result of it."""
        state_dict, step = taken(state, step)
        _check(state_dict, name)
        CheckpointSavePlanner().set_up_planner(state_dict)  # what can't be saved is refused before it is copied
        self._settle()
        self._stage = self._stage or Stage()
        self._thread = self._thread or ThreadPoolExecutor(1, thread_name_prefix="ckptstore-save")
        staged = self._stage.copy(state_dict)
        under_way = SaveUnderWay(self._named(step, name))

        def save() -> Manifest:
            about = {"step": step, "name": name, "private": True, **options}
            return save_state(self.config, self.run, staged, ranks=self._ranks, **about)

        future = self._thread.submit(wrap, save)
        future.add_done_callback(lambda done: under_way.end(done.exception()))
        self._last = handle = SaveHandle(future, under_way)
        return handle

    def close(self) -> BaseException | None:
        """Wait for the last save to end, let go of thread and memory. Returns its failure, if nobody has been told."""
        try:
            self._settle()
        except BaseException as error:  # noqa: BLE001 - torch's CheckpointException is no Exception
            return error
        finally:
            if self._thread is not None:
                self._thread.shutdown()
            if self._stage is not None:
                self._stage.close()
            self._thread = self._stage = None
        return None

    def _settle(self) -> None:
        if self._last is not None:
            self._last.settle()

    def _named(self, step: int | None, name: str | None) -> str:
        return f"save {name or f'step-{step}'} of run {self.run}"


def _check(state: dict[str, Any], name: str | None) -> None:
    """Refuse, before anything waits, what can't be saved now or by that name."""
    check_not_ending()
    check_state(state)
    if name is not None:
        check_chosen(name)


_SAVERS: dict[tuple[int, str, str], Saver] = {}
"""By process too: a forked child has its parent's savers, and none of their threads."""


def finish_saves(config: Config | None = None) -> list[tuple[str, BaseException]]:
    """Let the background saves of this process end, or those of one store; what failed and nobody was told of.

    All of them end before any failure is told: one that failed must not cost another its end.
    """
    own = [saver for (pid, _, _), saver in _SAVERS.items() if pid == os.getpid()]
    chosen = [saver for saver in own if config is None or saver.config == config]
    failures = [(saver.run, saver.close()) for saver in chosen]
    return [(f"a background save of run {run}", error) for run, error in failures if error is not None]


finish_at_exit(finish_saves)
