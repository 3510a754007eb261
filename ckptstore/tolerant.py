"""Between a job that ends with its first failed save and one that never notices that all of them fail.

run = ckptstore.TolerantRun(store.run("pretrain-7b"), tolerate_failures=2)
run.save(state_dict, step=100)        # the checkpoint; None, and a warning, where it failed in passing
"""

import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from ckptstore.arguments import is_whole
from ckptstore.checkpoint import Checkpoint
from ckptstore.errors import (
    CkptStoreError,
    CommitInDoubt,
    OutOfReach,
    SaveStalled,
    TargetError,
    ToleranceError,
    UsageError,
)
from ckptstore.notices import SaveFailedWarning, warner
from ckptstore.run import Run

if TYPE_CHECKING:
    from ckptstore.dcp.job import JobState
    from ckptstore.dcp.saver import SaveHandle
    from manifests import Manifest

PASSING = (CommitInDoubt, OutOfReach, SaveStalled, ToleranceError)
"""Failures that the next save may not meet, beside transient ones of a target."""

Result = TypeVar("Result")

__all__ = ["TolerantRun"]


class TolerantRun(Run):
    """A run of which up to `tolerate_failures` saves in a row may fail in passing; the next one raises.

    Passing: targets out of reach, too few of them for `require_tolerance`, a rank that stalled, a commit in doubt.
    Anything else, such as credentials that are refused, is raised at once. All ranks count alike, since a save that
    fails fails on all of them. Everything else is as of the run itself: `load`, `latest`, `check`, `prune` …
    """

    def __init__(self, run: Run, *, tolerate_failures: int) -> None:
        if not isinstance(run, Run):
            raise UsageError(f"a run is wanted, not {type(run).__name__}", hint='TolerantRun(store.run("pretrain-7b"))')
        if not (is_whole(tolerate_failures) and tolerate_failures >= 0):
            message = f"tolerate_failures = {tolerate_failures!r}: a whole number, 0 or more, is wanted"
            raise UsageError(message, hint="tolerate_failures=2")
        super().__init__(run.config, run.name)
        self.run = run
        self.tolerate_failures = tolerate_failures
        self.failed = 0
        """Saves that failed, tolerated or not."""
        self.failed_in_a_row = 0
        """Of these, those since the last one that was committed."""
        self._lock = threading.Lock()

    def save(  # type: ignore[override]  # what is tolerated has no checkpoint
        self, state_dict: "dict[str, Any] | JobState", step: int | None = None, **options: Any
    ) -> Checkpoint | None:
        """`Run.save`, with its options; None and a `SaveFailedWarning` for a failure that is tolerated."""
        return self._attempt(lambda: self.run.save(state_dict, step, **options), _Attempt(state_dict, step, options))

    def save_async(  # type: ignore[override]
        self, state_dict: "dict[str, Any] | JobState", step: int | None = None, **options: Any
    ) -> "SaveHandle[Checkpoint | None]":
        """`Run.save_async`, with its options; `result` gives None for a failure that is tolerated.

        The warning comes when the save fails, whether or not anybody asks for its result.
        """
        from ckptstore.dcp.saver import Saver

        named = _Attempt(state_dict, step, options)

        def attempt(save: "Callable[[], Manifest]") -> Checkpoint | None:
            return self._attempt(lambda: self._committed(save(), named.warn), named)

        return Saver.of(self.run.config, self.run.name).save_async(state_dict, step=step, wrap=attempt, **options)

    def _attempt(self, save: Callable[[], Result], attempt: "_Attempt") -> Result | None:
        try:
            result = save()
        except CkptStoreError as error:
            if not self._tolerates(error, attempt):
                raise
            return None
        with self._lock:
            self.failed_in_a_row = 0
        return result

    def _tolerates(self, error: CkptStoreError, attempt: "_Attempt") -> bool:
        with self._lock:
            self.failed += 1
            self.failed_in_a_row += 1
            in_a_row = self.failed_in_a_row
        if in_a_row > self.tolerate_failures or not _is_passing(error):
            return False
        message = (
            f"{attempt.name}: save {in_a_row} in a row failed, {self.tolerate_failures} are tolerated, "
            f"{self.failed} failed in all: {error.kind}: {error.message}"
        )
        attempt.warn(SaveFailedWarning(message))
        return True


class _Attempt:
    """A save by its options: its name, and what warns at the line that asked for it."""

    def __init__(self, state: Any, step: int | None, options: Mapping[str, Any]) -> None:
        step = getattr(state, "step", None) if step is None else step
        self.name = options.get("name") or f"step-{step}"
        self.warn = warner()


def _is_passing(error: CkptStoreError) -> bool:
    if isinstance(error, TargetError):
        return error.transient
    return isinstance(error, PASSING) and not error.fields.get("lasting")
