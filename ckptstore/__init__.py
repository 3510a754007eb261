"""ckptstore: an erasure-coded, verified checkpoint store for training runs.

    store = ckptstore.open("store.toml")
    run = store.run("pretrain-7b")
    run.save(state_dict, step=100)
    run.load(state_dict)

`ckptstore.dcp` has the storage backend for `torch.distributed.checkpoint`, `ckptstore.errors` every error raised.
Importing ckptstore does not import torch.
"""

from ckptstore.config import Config, TargetConfig
from ckptstore.errors import CkptStoreError
from ckptstore.store import Checkpoint, Run, Store
from ckptstore.store import open_store as open  # noqa: A004 - `ckptstore.open` is the name users know

__all__ = ["Checkpoint", "CkptStoreError", "Config", "Run", "Store", "TargetConfig", "open"]
__version__ = "0.1.0"
