"""Checks on several gloo ranks: one spawn of four processes for all checks of a module."""

import datetime as dt
import multiprocessing
import os
import socket
import traceback
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

import ckptstore
from ckptstore.config import Config
from ckptstore.errors import TargetUnavailable
from tests.support import make_store

WORLD = 4

Check = Callable[["Ranks"], None]


class Ranks:
    """What one process needs: the store, and groups and meshes of the first 1 to 4 ranks."""

    def __init__(self, rank: int, config: Config) -> None:
        self.rank = rank
        self.config = config
        self.groups = {size: dist.new_group(list(range(size))) for size in range(1, WORLD + 1)}
        self.meshes = {size: DeviceMesh("cpu", list(range(size))) for size in range(1, WORLD + 1)}

    def run(self, name: str) -> ckptstore.Run:
        return ckptstore.open(self.config).run(name)


def whole() -> dict[str, torch.Tensor]:
    torch.manual_seed(0)
    return {
        "odd": torch.randn(17, 33),
        "row": torch.randn(1, 17),
        "few": torch.randn(6),
        "wide": torch.randn(301, 1000),
    }


def spread(mesh: DeviceMesh, *, zero: bool = False) -> dict[str, torch.Tensor]:
    state = {}
    for name, tensor in whole().items():
        values = torch.zeros_like(tensor) if zero else tensor
        state[f"{name}.rows"] = distribute_tensor(values, mesh, [Shard(0)])
        state[f"{name}.copies"] = distribute_tensor(values, mesh, [Replicate()])
        state[f"{name}.plain"] = values.clone()
        if tensor.dim() > 1:
            state[f"{name}.columns"] = distribute_tensor(values, mesh, [Shard(1)])
    return state


class Refusing:
    """A target that answers, and takes no data."""

    def __init__(self, inner) -> None:
        self.inner = inner

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def put(self, path, data):
        raise TargetUnavailable(f"{self.inner.name}: no room for {path}", target=self.inner.name, path=path)


def run_on_ranks(checks: Sequence[Check], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Let every rank do all checks on one new store, in order; in the folder returned are notes, for `assert_held`."""
    folder = tmp_path_factory.mktemp("ranks")
    config = make_store(tmp_path_factory.mktemp("store")).config
    context = start_ranks(_work, (checks, config, _free_port(), str(folder)), WORLD, join=False)
    try:
        while not context.join(timeout=5):
            pass
    except Exception as error:  # noqa: BLE001 - the notes say more than the first process that fell
        (folder / "spawn").write_text(str(error))
    return folder


def start_ranks(work: Callable[..., None], arguments: tuple[Any, ...], world: int, *, join: bool = True) -> Any:
    """As `mp.spawn`, from a process that has imported torch: it would cost each rank four seconds."""
    multiprocessing.set_forkserver_preload(["torch.distributed.tensor", "ckptstore.dcp", "tests.dcp.ranks"])
    return mp.start_processes(work, arguments, world, join=join, start_method="forkserver")


def assert_held(check: Check, folder: Path) -> None:
    """What the notes of all ranks say of one check."""
    fell = folder / "spawn"
    for rank in range(WORLD):
        note = folder / f"{check.__name__}.{rank}"
        assert note.exists(), f"rank {rank} never got here: {fell.read_text() if fell.exists() else ''}"
        assert note.read_text() == "ok"


def _work(rank: int, checks: Sequence[Check], config: Config, port: int, folder: str) -> None:
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank), WORLD_SIZE=str(WORLD))
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    dist.init_process_group("cpu:gloo", rank=rank, world_size=WORLD, timeout=dt.timedelta(seconds=60))
    ranks = Ranks(rank, config)
    for check in checks:
        note = Path(folder) / f"{check.__name__}.{rank}"
        try:
            check(ranks)
            note.write_text("ok")
        except BaseException:
            note.write_text(traceback.format_exc())
            raise
        dist.barrier()
    dist.destroy_process_group()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
