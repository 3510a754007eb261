"""What is saved and where: states, stores on directories and on buckets, ranks that do the same thing together."""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from ckptstore.config import Config, TargetConfig
from ckptstore.opened import release, shared
from ckptstore.operations.setup import init
from localstack.servers import SeaweedServer

MIB = 1 << 20
NAMES = "abcdef"
TENSOR = 64 * MIB

State = dict[str, torch.Tensor]


def make_state(nbytes: int, *, first: int = 0, each: int = TENSOR) -> State:
    """Tensors of `each` bytes, random bits, `nbytes` in all, numbered from `first`."""
    draw = torch.Generator().manual_seed(first)
    count = nbytes // each
    return {
        f"layers.{first + i}.weight": torch.randint(-(2**31), 2**31, (each // 4,), dtype=torch.int32, generator=draw)
        for i in range(count)
    }


def make_store(config: Config) -> Config:
    """Make what `config` says a store."""
    init(shared(config))
    release(config)
    return config


def directories(root: Path, **settings: Any) -> Config:
    """A store of six directories below `root`."""
    options = settings.pop("options", {})
    for name in NAMES:
        (root / name).mkdir(parents=True)
    targets = [TargetConfig(name=name, url=str(root / name), options=options) for name in NAMES]
    return make_store(Config(name="bench", targets=targets, **settings))


@contextmanager
def seaweed() -> Iterator[SeaweedServer]:
    """One SeaweedFS server with six buckets; its credentials are in the environment meanwhile."""
    names = [f"ckpt-{name}" for name in NAMES]
    with (
        tempfile.TemporaryDirectory(prefix="ckptstore-bench-") as folder,
        SeaweedServer(folder, buckets=names) as server,
    ):
        os.environ.update(server.environment)
        yield server


def buckets(server: SeaweedServer, **settings: Any) -> Config:
    """A store of that server's six buckets."""
    targets = [
        TargetConfig(name=name, url=f"s3://ckpt-{name}", options={"endpoint": server.endpoint}) for name in NAMES
    ]
    return make_store(Config(name="bench", targets=targets, **settings))


@contextmanager
def scratch(base: str) -> Iterator[Path]:
    """A folder below `base`, removed at the end."""
    folder = Path(tempfile.mkdtemp(prefix="ckptstore-bench-", dir=base))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def on_ranks(world: int, work: Callable[..., Any], *arguments: Any) -> Any:
    """Call `work(*arguments)` in `world` fresh processes joined by gloo; what rank 0's returned."""
    context = mp.get_context("spawn")
    results = context.SimpleQueue()
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(_rank, (world, f"file://{folder}/meet", work, arguments, results), nprocs=world)
        return results.get()


def _rank(rank: int, world: int, meeting: str, work: Callable[..., Any], arguments: tuple[Any, ...], out: Any) -> None:
    torch.set_num_threads(1)  # two ranks share two cores, as ranks of a job share a host's
    if world > 1:
        dist.init_process_group("gloo", init_method=meeting, rank=rank, world_size=world)
    result = work(*arguments)
    if rank == 0:
        out.put(result)
    if world > 1:
        dist.destroy_process_group()
