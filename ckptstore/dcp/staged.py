"""A copy of the training state in CPU memory that is kept for the next one, by torch's `DefaultStager`."""

from collections import OrderedDict
from typing import Any

import torch
from torch.distributed.checkpoint import staging
from torch.distributed.checkpoint.stateful import Stateful

from ckptstore.errors import UsageError

STAGER_IS_REUSABLE = not "2.11" <= torch.__version__ < "2.13"
"""From 2.11 a stager's second use failed until it was mended: pytorch/pytorch#183413."""

__all__ = ["Stage"]


class Stage:
    """One copy at a time: what `copy` returned last is gone when it is called again."""

    def __init__(self) -> None:
        self._stager = _new_stager()

    def copy(self, state: dict[str, Any]) -> dict[str, Any]:
        """The state with every `Stateful` in it asked now, not when the background gets to it."""
        if not STAGER_IS_REUSABLE:
            self._stager = _new_stager()
        staged = self._stager.stage(_expanded(state))
        assert isinstance(staged, dict), "staging is done when stage returns: it was not asked to be asynchronous"
        return staged

    def close(self) -> None:
        """Let go of the memory."""
        self._stager.close()


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
    if type(value) in (dict, OrderedDict):
        return type(value)((key, _expanded(item)) for key, item in value.items())
    if type(value) in (list, tuple):
        return type(value)(_expanded(item) for item in value)
    return _expanded(value.state_dict()) if isinstance(value, Stateful) else value
