"""PyTorch's distributed checkpoint on this store: planners, writer and reader.

    dcp.save(sd, storage_writer=StoreWriter("store.toml", run="r"), checkpoint_id="step-100")
    dcp.load(sd, storage_reader=StoreReader("store.toml", run="r"), checkpoint_id="step-100")

`run.save` and `run.load` use the same with our own planners, which keep every type, tie and container.
"""

from ckptstore.dcp.load_planner import CheckpointLoadPlanner, LoadReport
from ckptstore.dcp.reader import StoreReader
from ckptstore.dcp.save_planner import CheckpointSavePlanner
from ckptstore.dcp.writer import StoreWriter

__all__ = ["CheckpointLoadPlanner", "CheckpointSavePlanner", "LoadReport", "StoreReader", "StoreWriter"]
