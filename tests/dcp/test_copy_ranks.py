"""A checkpoint that several ranks saved, copied to another store: its shards stay theirs, and any ranks load it."""

from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor

import ckptstore
from ckptstore.opened import shared
from ckptstore.selection import Selector, select
from ckptstore.source import Source
from tests.dcp.ranks import WORLD, Ranks, assert_held, run_on_ranks, spread, whole
from tests.support import make_store

pytestmark = [pytest.mark.soak, pytest.mark.timeout(240)]  # four processes of its own


def other_store(ranks: Ranks) -> ckptstore.Store:
    """Made by rank 0, beside the first one: another code, another size of fragments."""
    made = [None]
    if ranks.rank == 0:
        root = Path(ranks.config.targets[0].url).parent.with_name("copies")
        made = [make_store(root, "uvw", code="2+1", fragment_size="20KiB").config]
    dist.broadcast_object_list(made)
    return ckptstore.open(made[0])


def shards(config, run: str) -> list[tuple]:
    opened = shared(config)
    source = Source.open(opened, select(opened, run, Selector()))
    records = [source.shard(number).record for number in range(len(source.index.shards))]
    return [(record.rank, record.length, record.tensors) for record in records]


def what_ranks_saved_any_ranks_load_from_the_copy(ranks: Ranks) -> None:
    run, other = ranks.run("train"), other_store(ranks)
    run.save({"model": spread(ranks.meshes[WORLD]), "step": 7}, step=7)
    if ranks.rank == 0:
        (made,) = run.copy(other.run("kept"), read_back=True).copied
        assert made.world == WORLD
        assert shards(ranks.config, "train") == shards(other.config, "kept")
        assert {rank for rank, _, _ in shards(other.config, "kept")} == set(range(WORLD))
    dist.barrier()
    for size in (1, 3, WORLD):
        state = {"model": spread(ranks.meshes[size], zero=True), "step": 0}
        if ranks.rank < size:
            other.run("kept").load(state, process_group=ranks.groups[size])
            assert state["step"] == 7
            for key, tensor in state["model"].items():
                found = tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
                assert torch.equal(found, whole()[key.split(".")[0]]), key
        dist.barrier()


CHECKS = [what_ranks_saved_any_ranks_load_from_the_copy]


@pytest.fixture(scope="module")
def notes(tmp_path_factory):
    return run_on_ranks(CHECKS, tmp_path_factory)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test(check, notes):
    assert_held(check, notes)
