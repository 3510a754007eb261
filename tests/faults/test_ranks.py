"""One rank fails, hangs or freezes in a save: all ranks raise in time and name it."""

import os
import re
import signal
import time
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest
import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor, Shard, distribute_tensor

import ckptstore
from ckptstore.errors import CkptStoreError, SaveStalled, ToleranceError
from ckptstore.opened import shared
from tests.dcp.ranks import WORLD, Ranks, Refusing, assert_held, run_on_ranks, start_ranks
from tests.support import make_store

TIMEOUT = 10.0
PROBLEM_RANK = 2
pytestmark = [pytest.mark.timeout(240)]


def state_of(ranks: Ranks) -> dict[str, DTensor]:
    return {"w": distribute_tensor(torch.arange(4000.0), ranks.meshes[WORLD], [Shard(0)])}


class Hooked:
    """A target that does something before it takes data."""

    def __init__(self, inner, before_data: Callable[[], None]) -> None:
        self.inner = inner
        self.before_data = before_data

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def put(self, path, data):
        if path.startswith("data/"):
            self.before_data()
        self.inner.put(path, data)


def run_of(ranks: Ranks, name: str) -> ckptstore.Run:
    """A run whose saves may stall for `TIMEOUT` seconds only."""
    return ckptstore.open(msgspec.structs.replace(ranks.config, save_timeout=TIMEOUT)).run(name)


@contextmanager
def targets_of(ranks: Ranks, run: ckptstore.Run, wrap):
    """The targets of the problem rank, wrapped."""
    opened = shared(run.config)
    targets = opened.targets
    if ranks.rank == PROBLEM_RANK:
        opened.targets = {name: wrap(target) for name, target in targets.items()}
    try:
        yield
    finally:
        opened.targets = targets


def save_that_fails(ranks: Ranks, run: ckptstore.Run, limit: float) -> CkptStoreError:
    began = time.monotonic()
    with pytest.raises(CkptStoreError) as caught:
        run.save(state_of(ranks), step=1)
    assert time.monotonic() - began < limit, caught.value
    return caught.value


def assert_the_next_save_works(ranks: Ranks, run: ckptstore.Run) -> None:
    dist.barrier()
    if ranks.rank == 0:
        assert run.checkpoints() == [], "nothing was committed"
    dist.barrier()
    assert run.save(state_of(ranks), step=2).tolerance.targets == 2
    dist.barrier()
    if ranks.rank == 0:
        assert [checkpoint.step for checkpoint in run.checkpoints()] == [2]


def o23_a_rank_whose_first_put_fails(ranks: Ranks) -> None:
    run = run_of(ranks, "o23-fails")
    with targets_of(ranks, run, Refusing):
        error = save_that_fails(ranks, run, TIMEOUT)
    assert isinstance(error, ToleranceError)
    assert error.ranks == [PROBLEM_RANK]
    assert_the_next_save_works(ranks, run)


def o23_a_rank_whose_targets_hang(ranks: Ranks) -> None:
    run = run_of(ranks, "o23-hangs")
    with targets_of(ranks, run, lambda target: Hooked(target, lambda: time.sleep(2 * TIMEOUT))):
        error = save_that_fails(ranks, run, 1.5 * TIMEOUT)
    assert isinstance(error, SaveStalled)
    assert error.ranks == [PROBLEM_RANK]
    assert f"rank {PROBLEM_RANK} gave up" in error.message
    assert_the_next_save_works(ranks, run)


def o23_a_rank_that_is_frozen(ranks: Ranks) -> None:
    """Its process gets no more time: it can't even say so."""
    run = run_of(ranks, "o23-frozen")
    pids: list[int] = [0] * WORLD
    dist.all_gather_object(pids, os.getpid())
    stops = iter([signal.SIGSTOP])
    freeze = lambda: os.kill(os.getpid(), next(stops, 0))  # noqa: E731
    with targets_of(ranks, run, lambda target: Hooked(target, freeze)):
        error = save_that_fails(ranks, run, 60 if ranks.rank == PROBLEM_RANK else 3 * TIMEOUT)
        if ranks.rank == 0:
            os.kill(pids[PROBLEM_RANK], signal.SIGCONT)
    assert isinstance(error, SaveStalled)
    assert "gloo" not in f"{error}" + f"{error.message}"
    assert ".cc:" not in str(error)
    assert "the next save works" in error.hint
    assert f"rank {PROBLEM_RANK} waited" not in error.message
    if ranks.rank == PROBLEM_RANK:
        assert f"rank {PROBLEM_RANK} was behind" in error.message
    else:
        assert error.ranks == [PROBLEM_RANK]
        assert f"ranks [{PROBLEM_RANK}]" in error.message
    assert_the_next_save_works(ranks, run)


def o24_20_background_saves_beside_the_trainers_collectives(ranks: Ranks) -> None:
    run = ranks.run("o24")
    state = state_of(ranks)
    for step in range(20):
        handle = run.save_async(state, step=step)
        for _ in range(20):
            total = torch.ones(1)
            dist.all_reduce(total)
            assert total.item() == WORLD
            dist.barrier()
    assert handle.result().step == 19
    dist.barrier()
    assert [checkpoint.step for checkpoint in run.checkpoints()] == list(range(20))


CHECKS = [
    o23_a_rank_whose_first_put_fails,
    o23_a_rank_whose_targets_hang,
    o23_a_rank_that_is_frozen,
    o24_20_background_saves_beside_the_trainers_collectives,
]


@pytest.fixture(scope="module")
def notes(tmp_path_factory):
    return run_on_ranks(CHECKS, tmp_path_factory)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test(check, notes):
    assert_held(check, notes)


def dies_in_a_save(rank: int, config, rendezvous: str, folder: str) -> None:
    dist.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    run = ckptstore.open(config).run("dies")
    run.save({"w": torch.ones(4)}, step=1)
    if rank == 1:
        opened = shared(config)
        opened.targets = {name: Hooked(target, lambda: os._exit(0)) for name, target in opened.targets.items()}
    state = {"w": torch.ones(4), f"of rank {rank}": torch.ones(4)}
    try:
        run.save(state, step=2)
    except SaveStalled as error:
        Path(folder, str(rank)).write_text(str(error))
    os._exit(0)


def test_a_rank_that_died_is_found_at_once_and_is_not_said_to_have_stalled_for_as_long_as_it_may(tmp_path):
    config = msgspec.structs.replace(make_store(tmp_path / "store").config, save_timeout=100.0)
    start_ranks(dies_in_a_save, (config, str(tmp_path / "rendezvous"), str(tmp_path)), 2)
    told = (tmp_path / "0").read_text()
    assert re.match(r"rank 0 waited \d{1,2}\.\d s for ranks \[1\]: a connection was closed", told), told
    assert ".cc:" not in told
    assert "where one has died, restart the job" in told
