"""What the state of a whole job is to a save and a load: it knows its step, and makes its template by what was saved.

A plain state dict is a template as it stands. A job's cannot be: a fresh optimizer has no tensors to load into, and
what each rank saved is asked for by the number of ranks that saved.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from torch.distributed.checkpoint.metadata import TensorStorageMetadata

from ckptstore.dcp.structure import Node, Path, name_of_path

__all__ = ["JobState", "Saved", "taken"]


@dataclass(frozen=True)
class Saved:
    """A container of a checkpoint: what it holds, before anything of it is read. `strict`: as in `run.load`."""

    node: Node
    path: Path
    entries: Mapping[str, Any]
    strict: bool

    @property
    def below(self) -> "dict[Any, Saved]":
        """What this container holds, by key."""
        children = self.node.children.items()
        return {key: Saved(child, (*self.path, key), self.entries, self.strict) for key, child in children}

    @property
    def tensor(self) -> tuple[torch.Size, torch.dtype] | None:
        """Shape and dtype, where this is a tensor."""
        entry = self.entries.get(name_of_path(self.path))
        if self.node.kind != "tensor" or not isinstance(entry, TensorStorageMetadata):
            return None
        return entry.size, entry.properties.dtype


@runtime_checkable
class JobState(Protocol):
    """`ckptstore.state.TrainState`, as the planners know it."""

    step: int
    uncarried: Mapping[str, str]
    """What the last load could not put back as it was, and why."""

    def state_at(self, step: int | None) -> dict[str, Any]:
        """The state dict to save; `step` is the job's from now on, where one is given."""

    def template_for(self, saved: Saved) -> dict[str, Any]:
        """What is to be loaded into."""

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take the template, filled."""


def taken(state: Any, step: int | None) -> tuple[Any, int | None]:
    """The state dict to save, and the step it is of."""
    return (state.state_at(step), state.step) if isinstance(state, JobState) else (state, step)
