"""Checkpoints in a plain folder: torch's own writer and reader show what the planners do by themselves."""

from pathlib import Path
from typing import Any

import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.metadata import Metadata

from ckptstore.dcp.load_planner import CheckpointLoadPlanner, LoadReport
from ckptstore.dcp.save_planner import CheckpointSavePlanner


def save(state: dict[Any, Any], folder: Path, **options: Any) -> Metadata:
    """Save with our planner; raises what rank 0's planner raised."""
    planner = CheckpointSavePlanner(**options)
    with own_error():
        return dcp.save(state, storage_writer=dcp.FileSystemWriter(folder), planner=planner)


def load(state: dict[Any, Any], folder: Path, **options: Any) -> LoadReport:
    """Load in place with our planner."""
    planner = CheckpointLoadPlanner(state, **options)
    with own_error():
        dcp.load({}, storage_reader=dcp.FileSystemReader(folder), planner=planner)
    return planner.report


class own_error:  # noqa: N801  reads as a statement
    """DCP wraps what a rank raised."""

    def __enter__(self) -> None:
        """Nothing to set up."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, CheckpointException):
            raise next(iter(error.failures.values()))[0] from error
