"""Shuffled batches that go on to the sample, whatever the number of worker processes and of ranks.

The order belongs to the whole job: a permutation by (seed, epoch), cut into batches of the job, of which each rank
takes its slice. So do the random numbers that a dataset draws: they are seeded anew for every sample, by its place in
the order. A loader whose workers draw from streams of their own can't go on in the middle of an epoch.
"""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset, get_worker_info

from ckptstore.errors import UsageError

__all__ = ["ShuffledBatches"]


class ShuffledBatches:
    """Iterating gives the rest of this epoch; the next epoch begins when it has ended.

    `batch_size` is that of all ranks together; an epoch has full batches only. `options` are those of torch's
    `DataLoader`: `num_workers`, `collate_fn`, `pin_memory` … Raises `UsageError` for a batch that can't be shared.
    """

    alike_on_all_ranks = True

    def __init__(
        self,
        dataset: Dataset[Any],
        batch_size: int,
        *,
        seed: int = 0,
        process_group: dist.ProcessGroup | None = None,
        **options: Any,
    ) -> None:
        self.dataset, self.batch_size, self.seed, self.options = dataset, batch_size, seed, options
        self.epoch = 0
        self.batch = 0
        """Batches of this epoch that were handed out."""
        in_job = dist.is_available() and dist.is_initialized()
        self._rank = dist.get_rank(process_group) if in_job else 0
        self._world = dist.get_world_size(process_group) if in_job else 1
        self._samples = len(dataset)  # type: ignore[arg-type]  # torch's Dataset doesn't say that it has a length
        if not 0 < batch_size <= self._samples or batch_size % self._world:
            raise UsageError(
                f"batch_size = {batch_size}: {self._world} ranks can't share it evenly, or {self._samples} samples "
                "don't fill it",
                hint="batch_size is that of all ranks together",
            )

    def __len__(self) -> int:
        return self._samples // self.batch_size

    def __iter__(self) -> Iterator[Any]:
        for batch in self._loader():
            self.batch += 1
            yield batch
        self.epoch, self.batch = self.epoch + 1, 0

    def state_dict(self) -> dict[str, int]:
        """Where it is."""
        return {"seed": self.seed, "epoch": self.epoch, "batch": self.batch}

    def load_state_dict(self, state_dict: dict[str, int]) -> None:
        """Go on there."""
        self.seed, self.epoch, self.batch = (state_dict[key] for key in ("seed", "epoch", "batch"))

    def _loader(self) -> DataLoader[Any]:
        """Of this rank's slices of what is left of the epoch. Its generator is its own: torch draws seeds from it."""
        order = torch.randperm(
            self._samples, generator=torch.Generator().manual_seed(self.seed * 1_000_003 + self.epoch)
        )
        share = self.batch_size // self._world
        firsts = [batch * self.batch_size + self._rank * share for batch in range(self.batch, len(self))]
        keys = [
            [(f"{self.seed} {self.epoch} {at}", int(order[at])) for at in range(first, first + share)]
            for first in firsts
        ]
        return DataLoader(_Seeded(self.dataset), batch_sampler=keys, generator=torch.Generator(), **self.options)


class _Seeded(Dataset[Any]):
    """A dataset whose samples are asked for by (what seeds their random numbers, index)."""

    def __init__(self, dataset: Dataset[Any]) -> None:
        self.dataset = dataset

    def __getitem__(self, key: tuple[str, int]) -> Any:
        seed, index = key
        with _numbers_of(seed):
            return self.dataset[index]


@contextmanager
def _numbers_of(seed: str) -> Iterator[None]:
    """Generators of the CPU seeded by a text; those of training itself, where it is the one that loads, go on after."""
    before = None if get_worker_info() else (random.getstate(), np.random.get_state(), torch.get_rng_state())  # noqa: NPY002
    random.seed(seed)
    np.random.seed(random.getrandbits(32))  # noqa: NPY002
    torch.default_generator.manual_seed(random.getrandbits(63))
    try:
        yield
    finally:
        if before is not None:
            random.setstate(before[0])
            np.random.set_state(before[1])  # noqa: NPY002
            torch.set_rng_state(before[2])
