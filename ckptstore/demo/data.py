"""The training text and the order in which it is read, resumable to the sample.

The order belongs to the *global* batch: a seeded permutation for each epoch and a position in it. A rank
takes its slice of the global batch, so any number of ranks that divides the batch reads the same samples in
the same order.
"""

import os
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

__all__ = ["SampleOrder", "read_corpus", "window"]


def read_corpus(limit: int = 2 << 20) -> Tensor:
    """Read source of Python's standard library, in order of file names, `limit` bytes at most: uint8, 1-D."""
    text = bytearray()
    for file in sorted(Path(os.__file__).parent.glob("*.py")):
        text += file.read_bytes()
        if len(text) >= limit:
            break
    return torch.frombuffer(text, dtype=torch.uint8)[:limit]


def window(corpus: Tensor, samples: list[int], context: int) -> tuple[Tensor, Tensor]:
    """Cut inputs and targets, each (len(samples), context) int64; sample s starts at byte s * context."""
    rows = torch.stack([corpus[s * context : (s + 1) * context + 1] for s in samples]).long()
    return rows[:, :-1], rows[:, 1:]


class SampleOrder:
    """Global batches of sample numbers below `samples`: a new permutation each epoch, only full batches."""

    alike_on_all_ranks = True

    def __init__(self, samples: int, batch: int, seed: int) -> None:
        if not 0 < batch <= samples:
            raise ValueError(f"batch is {batch}, must be 1 to {samples}, the number of samples")
        self.samples = samples
        self.batch = batch
        self.seed = seed
        self.epoch = 0
        self.position = 0
        self._permutation = self._permute()

    def take(self) -> list[int]:
        """Move on to the next global batch and return it."""
        if self.position + self.batch > self.samples:
            self.epoch, self.position = self.epoch + 1, 0
            self._permutation = self._permute()
        start, self.position = self.position, self.position + self.batch
        return self._permutation[start : self.position]

    def slice(self, batch: list[int], rank: int, world: int) -> list[int]:
        """Cut out what `rank` of `world` trains on; ValueError unless `world` divides the batch."""
        if self.batch % world:
            raise ValueError(f"{world} ranks can't share a batch of {self.batch} evenly")
        share = self.batch // world
        return batch[rank * share : (rank + 1) * share]

    def state_dict(self) -> dict[str, Any]:
        """Return what `load_state_dict` needs to go on with the next batch."""
        return {"seed": self.seed, "epoch": self.epoch, "position": self.position}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on after the batch that was taken last when `state` was made."""
        self.seed, self.epoch, self.position = state["seed"], state["epoch"], state["position"]
        self._permutation = self._permute()

    def _permute(self) -> list[int]:
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + self.epoch)
        order: list[int] = torch.randperm(self.samples, generator=generator).tolist()
        return order
