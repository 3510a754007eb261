"""The training job: model, optimiser, schedule, data order and random numbers, restored exactly.

Two runs with the same number of ranks give bit-equal losses: deterministic kernels, one thread a rank, and
the random state of every rank in the checkpoint. On another number of ranks the state and the order of
samples are the same, while sums are taken in another order and dropout draws other masks: losses differ.
"""

import hashlib
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as fn
from torch import Tensor
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

from ckptstore.demo.data import SampleOrder, read_corpus, window
from ckptstore.demo.model import GPT, ModelConfig
from ckptstore.state import TrainState

__all__ = ["Step", "TrainConfig", "Trainer"]


@dataclass(frozen=True)
class TrainConfig:
    """Everything that decides the numbers of a run, apart from the number of ranks."""

    model: ModelConfig = field(default_factory=ModelConfig)
    batch: int = 8
    rate: float = 3e-3
    warm_up: int = 5
    horizon: int = 40
    seed: int = 20

    def rate_at(self, step: int) -> float:
        """Factor of the learning rate: linear warm-up, then half a cosine down to a tenth at `horizon`."""
        if step < self.warm_up:
            return (step + 1) / self.warm_up
        done = min(1.0, (step - self.warm_up) / (self.horizon - self.warm_up))
        return 0.1 + 0.45 * (1 + math.cos(math.pi * done))


@dataclass(frozen=True)
class Step:
    """What one step did: its number from 1, the loss over the global batch, its samples in order."""

    number: int
    loss: float
    samples: list[int]


class Trainer:
    """One rank of the job. Needs an initialised process group; all ranks call every method together."""

    def __init__(self, config: TrainConfig) -> None:
        self.config = config
        self.rank, self.world = dist.get_rank(), dist.get_world_size()
        make_deterministic(config.seed)
        self.model = shard(GPT(config.model), self.world)
        self.optimiser = torch.optim.AdamW(self.model.parameters(), lr=config.rate, weight_decay=0.1)
        self.schedule = torch.optim.lr_scheduler.LambdaLR(self.optimiser, config.rate_at)
        self.corpus = read_corpus()
        samples = (len(self.corpus) - 1) // config.model.context
        self.order = SampleOrder(samples, config.batch, config.seed)
        self.state = TrainState(model=self.model, optimizer=self.optimiser, scheduler=self.schedule, loader=self.order)
        torch.manual_seed(config.seed + self.rank + 1)

    def step(self) -> Step:
        """Train on the next global batch."""
        samples = self.order.take()
        mine = self.order.slice(samples, self.rank, self.world)
        text, following = window(self.corpus, mine, self.config.model.context)
        loss = fn.cross_entropy(self.model(text).flatten(0, 1), following.flatten())
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimiser.step()
        self.optimiser.zero_grad()
        self.schedule.step()
        self.state.step += 1
        return Step(self.state.step, self._mean(loss.detach()), samples)

    def digest(self) -> str:
        """Hash all parameters and optimiser state, gathered whole: the same on any number of ranks."""
        state = self.state.state_dict()
        total = hashlib.sha256()
        for path, value in sorted(flatten({"model": state["model"], "optimiser": state["optimizer"]["state"]})):
            total.update(f"{path} {tensor_digest(value)}\n".encode())
        return total.hexdigest()

    def _mean(self, loss: Tensor) -> float:
        dist.all_reduce(loss)
        return float(loss) / self.world


def make_deterministic(seed: int) -> None:
    """One thread, deterministic kernels only, and the same initial weights on every rank."""
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(mode=True)
    torch.manual_seed(seed)


def shard(model: GPT, world: int) -> GPT:
    """FSDP2 on the CPU: each block and the rest are sharded over all ranks."""
    mesh = init_device_mesh("cpu", (world,))
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model


def flatten(state: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Tensor]]:
    """Yield (path, tensor) of every tensor in nested dicts."""
    for key, value in state.items():
        if isinstance(value, Mapping):
            yield from flatten(value, f"{prefix}{key}/")
        else:
            yield f"{prefix}{key}", value


def tensor_digest(tensor: Tensor) -> str:
    """Hash dtype, shape and bytes of the whole tensor, gathered from all ranks: SHA-256 in hex."""
    whole = tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
    data = whole.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
    return hashlib.sha256(f"{whole.dtype} {tuple(whole.shape)} ".encode() + data).hexdigest()
