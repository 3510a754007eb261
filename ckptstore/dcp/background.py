"""Saving in the background: the training loop pays one copy of its state.

The copy goes to CPU memory that is kept for the next one (torch's `DefaultStager`); a thread then saves it on a gloo
process group of its own, so that its collectives never mix with those of the training loop.
"""

import os
import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Generic, TypeVar

import torch
import torch.distributed as dist
from torch.distributed.checkpoint import staging
from torch.distributed.checkpoint.stateful import Stateful

from ckptstore.config import Config
from ckptstore.dcp.save_planner import CheckpointSavePlanner
from ckptstore.dcp.state import check_state, is_distributed, save_state
from ckptstore.errors import UsageError
from ckptstore.events import Observer, ignore
from manifests import Manifest

Result = TypeVar("Result")

STAGER_IS_REUSABLE = not "2.11" <= torch.__version__ < "2.13"
"""From 2.11 a stager's second use failed until it was mended: pytorch/pytorch#183413."""

__all__ = ["SaveHandle", "save_in_background"]


class SaveHandle(Generic[Result]):
    """A save under way."""

    def __init__(self, future: "Future[Result]") -> None:
        self._future = future
        self._asked = False

    def result(self, timeout: float | None = None) -> Result:
        """Wait for the commit; raises what the save raised, `TimeoutError` after `timeout` seconds."""
        self._asked = True
        return self._future.result(timeout)

    def done(self) -> bool:
        """Whether it has ended, well or not."""
        return self._future.done()

    def settle(self) -> None:
        """Wait for its end; raise what it raised unless `result` was asked for, which told the caller already."""
        error = self._future.exception()
        if error is not None and not self._asked:
            self._asked = True
            raise error


class _Saver:
    """The background saves of one run: one at a time, in order, from staging memory that is used again."""

    def __init__(self) -> None:
        self.group = dist.new_group(backend="gloo") if is_distributed() else None
        self.stager = _new_stager()
        self.thread = ThreadPoolExecutor(1, thread_name_prefix="ckptstore-save")
        self.last: SaveHandle[Any] | None = None

    def save(self, state: dict[str, Any], work: Callable[[dict[str, Any]], Result]) -> SaveHandle[Result]:
        if self.last is not None:
            self.last.settle()
        if not STAGER_IS_REUSABLE:
            self.stager = _new_stager()
        staged = self.stager.stage(_expanded(state))
        assert isinstance(staged, dict), "staging is done when stage returns: it was not asked to be asynchronous"
        self.last = handle = SaveHandle(self.thread.submit(work, staged))
        return handle

    def close(self) -> BaseException | None:
        """Wait for the last save to end. Returns its failure, if nobody has been told of it."""
        self.thread.shutdown()
        self.stager.close()
        try:
            if self.last is not None:
                self.last.settle()
        except BaseException as error:  # noqa: BLE001 - torch's CheckpointException is no Exception
            return error
        return None


_SAVERS: dict[tuple[int, str, str], _Saver] = {}
"""By process too: a forked child has its parent's savers, and none of their threads."""


def save_in_background(
    config: Config,
    run: str,
    state: dict[str, Any],
    *,
    step: int | None,
    name: str | None,
    user: dict[str, Any] | None,
    wrap: Callable[[Manifest], Result],
    observer: Observer = ignore,
) -> SaveHandle[Result]:
    """Stage now, save later. Every rank calls it, in the same order."""
    check_state(state)
    CheckpointSavePlanner().set_up_planner(state)  # what can't be saved is refused before it is copied
    key = (os.getpid(), repr(config), run)
    if key not in _SAVERS:
        _SAVERS[key] = _Saver()
    saver = _SAVERS[key]

    def work(staged: dict[str, Any]) -> Result:
        manifest = save_state(
            config, run, staged, step=step, name=name, user=user, group=saver.group, observer=observer
        )
        return wrap(manifest)

    return saver.save(state, work)


def _new_stager() -> Any:
    if not hasattr(staging, "DefaultStager"):
        message = f"save_async needs torch 2.9 or later, and this is {torch.__version__}"
        raise UsageError(message, hint="upgrade torch, or use run.save")
    cuda = torch.cuda.is_available()
    options = staging.StagingOptions(
        use_pinned_memory=cuda, use_shared_memory=False, use_async_staging=False, use_non_blocking_copy=cuda
    )
    return staging.DefaultStager(options)


def _expanded(value: Any) -> Any:
    """The state with every `Stateful` in it asked now, not when the background gets to it."""
    if type(value) in (dict, OrderedDict):
        return type(value)((key, _expanded(item)) for key, item in value.items())
    if type(value) in (list, tuple):
        return type(value)(_expanded(item) for item in value)
    return _expanded(value.state_dict()) if isinstance(value, Stateful) else value


def _drain() -> None:
    """Let every save end before any failure is told: one that failed must not cost another its end."""
    own = [saver for (pid, _, _), saver in _SAVERS.items() if pid == os.getpid()]
    errors = [error for saver in own if (error := saver.close()) is not None]
    if errors:
        raise errors[0]


# Before the interpreter stops all thread pools: from then on a save could no longer upload. `atexit` runs too late.
threading._register_atexit(_drain)  # type: ignore[attr-defined]  # noqa: SLF001
