"""Between a job that ends with its first failed save and one that never notices that all of them fail.

run = ckptstore.TolerantRun(store.run("pretrain-7b"), tolerate_failures=2)
run.save(state_dict, step=100)        # the checkpoint; None, and a warning, where it failed in passing
"""

import threading
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from ckptstore.checkpoint import Checkpoint
from ckptstore.errors import CkptStoreError, CommitInDoubt, OutOfReach, SaveStalled, TargetError, ToleranceError
from ckptstore.run import Run

if TYPE_CHECKING:
    from ckptstore.dcp.saver import SaveHandle
    from manifests import Manifest

PASSING = (CommitInDoubt, OutOfReach, SaveStalled, ToleranceError)
"""Failures that the next save may not meet, beside transient ones of a target."""

Result = TypeVar("Result")

__all__ = ["SaveFailedWarning", "TolerantRun"]


class SaveFailedWarning(UserWarning):
    """A save failed, and few enough in a row have."""


class TolerantRun:
    """A run of which up to `tolerate_failures` saves in a row may fail in passing; the next one raises.

    Passing: targets out of reach, too few of them for `require_tolerance`, a rank that stalled, a commit in doubt.
    Anything else, such as credentials that are refused, is raised at once. All ranks count alike, since a save that
    fails fails on all of them.
    """

    def __init__(self, run: Run, *, tolerate_failures: int) -> None:
        self.run = run
        self.tolerate_failures = tolerate_failures
        self.failed = 0
        """Saves that failed, tolerated or not."""
        self.failed_in_a_row = 0
        """Of these, those since the last one that was committed."""
        self._lock = threading.Lock()

    def save(self, state_dict: dict[str, Any], **options: Any) -> Checkpoint | None:
        """`Run.save`, with its options; None and a `SaveFailedWarning` for a failure that is tolerated."""
        return self._attempt(lambda: self.run.save(state_dict, **options))

    def save_async(self, state_dict: dict[str, Any], **options: Any) -> "SaveHandle[Checkpoint | None]":
        """`Run.save_async`, with its options; `result` gives None for a failure that is tolerated.

        The warning comes when the save fails, whether or not anybody asks for its result.
        """
        from ckptstore.dcp.saver import Saver

        def attempt(save: "Callable[[], Manifest]") -> Checkpoint | None:
            return self._attempt(lambda: Checkpoint.of(save()))

        return Saver.of(self.run.config, self.run.name).save_async(state_dict, wrap=attempt, **options)

    def _attempt(self, save: Callable[[], Result]) -> Result | None:
        try:
            result = save()
        except CkptStoreError as error:
            if not self._tolerates(error):
                raise
            return None
        with self._lock:
            self.failed_in_a_row = 0
        return result

    def _tolerates(self, error: CkptStoreError) -> bool:
        with self._lock:
            self.failed += 1
            self.failed_in_a_row += 1
            in_a_row = self.failed_in_a_row
        if in_a_row > self.tolerate_failures or not _is_passing(error):
            return False
        message = (
            f"save {in_a_row} in a row failed, {self.tolerate_failures} are tolerated, {self.failed} failed in all: "
            f"{error.kind}: {error.message}"
        )
        warnings.warn(SaveFailedWarning(message), stacklevel=4)
        return True


def _is_passing(error: CkptStoreError) -> bool:
    if isinstance(error, TargetError):
        return error.transient
    return isinstance(error, PASSING) and not error.fields.get("lasting")
