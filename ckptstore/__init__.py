"""ckptstore: an erasure-coded, verified checkpoint store for training runs.

    store = ckptstore.open("store.toml")
    run = store.run("pretrain-7b")
    run.save(state_dict, step=100)
    run.load(state_dict)

`ckptstore.dcp` has the storage backend for `torch.distributed.checkpoint`, `ckptstore.errors` every error raised.
Importing ckptstore does not import torch, nor anything else before it is asked for: the command line starts here too.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ckptstore.checkpoint import Checkpoint
    from ckptstore.config import Config, TargetConfig
    from ckptstore.errors import CkptStoreError
    from ckptstore.notices import PruneFailedWarning, SaveFailedWarning
    from ckptstore.preemption import finish_on_sigterm
    from ckptstore.retention import Retention
    from ckptstore.run import Run
    from ckptstore.state import TrainState
    from ckptstore.store import Store
    from ckptstore.store import open_store as open  # noqa: A004 - `ckptstore.open` is the name users know
    from ckptstore.tolerant import TolerantRun

__all__ = [
    "Checkpoint",
    "CkptStoreError",
    "Config",
    "PruneFailedWarning",
    "Retention",
    "Run",
    "SaveFailedWarning",
    "Store",
    "TargetConfig",
    "TolerantRun",
    "TrainState",
    "finish_on_sigterm",
    "open",
]
__version__ = "0.1.0"

_HOMES = {
    "Checkpoint": ("checkpoint", "Checkpoint"),
    "CkptStoreError": ("errors", "CkptStoreError"),
    "Config": ("config", "Config"),
    "PruneFailedWarning": ("notices", "PruneFailedWarning"),
    "Retention": ("retention", "Retention"),
    "Run": ("run", "Run"),
    "SaveFailedWarning": ("notices", "SaveFailedWarning"),
    "Store": ("store", "Store"),
    "TargetConfig": ("config", "TargetConfig"),
    "TolerantRun": ("tolerant", "TolerantRun"),
    "TrainState": ("state", "TrainState"),
    "finish_on_sigterm": ("preemption", "finish_on_sigterm"),
    "open": ("store", "open_store"),
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, attribute = _HOMES[name]
    return getattr(import_module(f"{__name__}.{module}"), attribute)
