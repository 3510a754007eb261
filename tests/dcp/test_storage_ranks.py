"""Writer and reader on several gloo ranks: one spawn of four processes for all of it."""

import time
from pathlib import Path

import msgspec
import pytest
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.default_planner import DefaultSavePlanner
from torch.distributed.checkpoint.state_dict_saver import AsyncCheckpointerType
from torch.distributed.tensor import DTensor, Shard, distribute_tensor

import ckptstore
from ckptstore.dcp import StoreReader, StoreWriter, sharing
from ckptstore.dcp import joint as joint_room
from ckptstore.dcp import state as state_room
from ckptstore.dcp.ranks import RankSave
from ckptstore.errors import (
    CkptStoreError,
    ConfigError,
    CorruptError,
    IncompleteSave,
    NotFoundError,
    OutOfReach,
    ReplicaMismatch,
    ToleranceError,
    UsageError,
)
from ckptstore.opened import shared
from ckptstore.selection import Selector, select
from ckptstore.source import Source
from ckptstore.targets import FaultTarget, MeterTarget
from ckptstore.targets.fault import unavailable
from tests.dcp.folder import own_error
from tests.dcp.ranks import WORLD, Ranks, Refusing, assert_held, run_on_ranks, spread, whole
from tests.support import make_store

pytestmark = [pytest.mark.timeout(240)]


def any_number_of_ranks_to_any_other(ranks: Ranks) -> None:
    for size in range(1, WORLD + 1):
        state = {"model": spread(ranks.meshes[size]), "step": size}
        if ranks.rank < size:
            ranks.run("reshard").save(state, name=f"from-{size}", process_group=ranks.groups[size])
        dist.barrier()
    for saved in range(1, WORLD + 1):
        for size in range(1, WORLD + 1):
            state = {"model": spread(ranks.meshes[size], zero=True), "step": 0}
            if ranks.rank < size:
                ranks.run("reshard").load(state, name=f"from-{saved}", process_group=ranks.groups[size])
                check_state(state, saved, size)
            dist.barrier()


def check_state(state: dict, saved: int, size: int) -> None:
    assert state["step"] == saved
    for key, tensor in state["model"].items():
        expected = whole()[key.split(".")[0]]
        found = tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
        assert torch.equal(found, expected), f"{key} from {saved} to {size} ranks"


def o15_different_values_under_one_key(ranks: Ranks) -> None:
    run = ranks.run("o15")
    run.save({"same": torch.ones(3), "obj": "same"}, step=1)
    with pytest.raises(ReplicaMismatch) as caught:
        run.save({"same": torch.ones(3), "q": torch.full((3,), float(ranks.rank))}, step=2)
    assert caught.value.key == "q"
    with pytest.raises(ReplicaMismatch) as caught:
        run.save({"obj": f"rank {ranks.rank}"}, step=3)
    assert caught.value.key == "obj"
    run.save({f"q.rank{ranks.rank}": torch.full((3,), float(ranks.rank))}, step=4)
    dist.barrier()
    assert [checkpoint.step for checkpoint in run.checkpoints()] == [1, 4]


def o15_different_values_under_stock_planners(ranks: Ranks) -> None:
    """Torch keeps one of them and says nothing."""
    writer = StoreWriter(ranks.config, run="o15-stock")
    dcp.save({"same": torch.ones(3), "n": 7}, storage_writer=writer, checkpoint_id="step-1")
    for key, value in (("q", torch.full((3,), float(ranks.rank))), ("obj", f"rank {ranks.rank}")):
        with pytest.raises(ReplicaMismatch) as caught, own_error():
            dcp.save({"same": torch.ones(3), key: value}, storage_writer=writer, checkpoint_id="step-2")
        assert caught.value.key == key
    dist.barrier()
    run = ranks.run("o15-stock")
    assert [checkpoint.step for checkpoint in run.checkpoints()] == [1]
    if ranks.rank == 0:
        source = Source.open(shared(ranks.config), select(shared(ranks.config), "o15-stock", Selector()))
        records = [source.shard(number).record for number in range(len(source.index.shards))]
        assert sorted(entry.name for record in records for entry in record.tensors) == ["object:n", "same"], (
            "equal content is stored once"
        )


def ranks_that_are_out_of_step_are_told_so_and_nothing_is_saved(ranks: Ranks) -> None:
    run = ranks.run("out-of-step")
    late = ranks.rank == WORLD - 1
    for named in ({"step": 13 + late}, {"step": 13, "name": "b" if late else "a"}, {"step": None if late else 13}):
        for save in (run.save, lambda state, **options: run.save_async(state, **options).result()):
            with pytest.raises(UsageError) as caught:
                save({"same": torch.ones(3)}, **named)
            assert WORLD - 1 in caught.value.ranks
    dist.barrier()
    assert not list(shared(ranks.config).targets["a"].list("data/")) or ranks.rank, "nothing was written"
    assert run.save({"same": torch.ones(3)}, step=13, user={"rank": ranks.rank}).step == 13
    dist.barrier()
    assert [checkpoint.step for checkpoint in run.checkpoints()] == [13]


def ranks_that_are_out_of_step_under_stock_planners_too(ranks: Ranks) -> None:
    writer = StoreWriter(ranks.config, run="out-of-step-stock")
    for step in (1, 2):
        dcp.save({"same": torch.ones(3)}, storage_writer=writer, checkpoint_id=f"rank-0/step-{step}")
    with pytest.raises(UsageError, match="out of step") as caught, own_error():
        dcp.save({"same": torch.ones(3)}, storage_writer=writer, checkpoint_id=f"step-{ranks.rank}")
    assert caught.value.ranks == [0, 1]
    dist.barrier()


def o50_a_rank_whose_writer_returns_nothing(ranks: Ranks) -> None:
    run = ranks.run("o50")
    write = RankSave.write
    if ranks.rank == 3:
        RankSave.write = lambda *_: []
    try:
        with pytest.raises(IncompleteSave) as caught:
            run.save({"model": spread(ranks.meshes[WORLD])}, step=1)
    finally:
        RankSave.write = write
    assert caught.value.fields["ranks"] == [3] or 3 in caught.value.fields["ranks"]
    assert "3" in str(caught.value)
    dist.barrier()
    if ranks.rank == 0:
        assert run.checkpoints() == []
    run.save({"model": spread(ranks.meshes[WORLD])}, step=2)


def a_rank_whose_targets_fail_fails_everybody(ranks: Ranks) -> None:
    run = ranks.run("fails")
    opened = shared(ranks.config)
    targets = opened.targets
    if ranks.rank == 2:
        opened.targets = {name: Refusing(target) for name, target in targets.items()}
    began = time.monotonic()
    try:
        with pytest.raises(ToleranceError) as caught:
            run.save({"model": spread(ranks.meshes[WORLD])}, step=1)
    finally:
        opened.targets = targets
    assert caught.value.ranks == [2]
    assert time.monotonic() - began < 20
    dist.barrier()
    if ranks.rank == 0:
        assert run.checkpoints() == []
    assert run.save({"model": spread(ranks.meshes[WORLD])}, step=2).tolerance.targets == 2


def async_saves_of_both_kinds(ranks: Ranks) -> None:
    writer = StoreWriter(ranks.config, run="async")
    state = {"w": torch.arange(5000.0), "lr": 0.1}
    for number, kind in enumerate([AsyncCheckpointerType.THREAD, AsyncCheckpointerType.PROCESS] * 2):
        state["w"] += 1
        saving = dcp.async_save(
            state, storage_writer=writer, checkpoint_id=f"step-{number}", async_checkpointer_type=kind
        )
        saving.result()
        loaded = {"w": torch.zeros(5000), "lr": 0.0}
        dcp.load(loaded, storage_reader=StoreReader(ranks.config, run="async"))
        assert torch.equal(loaded["w"], state["w"]), f"{kind} was not the latest"
    dist.barrier()


def background_saves_beside_the_training_loops_collectives(ranks: Ranks) -> None:
    run = ranks.run("background")
    state = {"model": spread(ranks.meshes[WORLD]), "plain": torch.zeros(10)}
    handles = []
    for step in range(5):
        state["plain"] += 1
        handles.append(run.save_async(state, step=step))
        for _ in range(20):
            total = torch.ones(1)
            dist.all_reduce(total)
            assert total.item() == WORLD
    assert [handle.result().step for handle in handles] == [0, 1, 2, 3, 4]
    for step in range(5):
        loaded = {"model": spread(ranks.meshes[WORLD], zero=True), "plain": torch.zeros(10)}
        run.load(loaded, step=step)
        assert loaded["plain"][0].item() == step + 1
    assert torch.equal(loaded["model"]["wide.rows"].full_tensor(), whole()["wide"])


def what_rank_0_does_not_find_no_rank_finds(ranks: Ranks) -> None:
    with pytest.raises(NotFoundError):
        ranks.run("none").load({"a": torch.zeros(1)})


def replicated(*, zero: bool = False) -> dict:
    torch.manual_seed(1)
    state = {f"layer{i}": torch.randn(700, 101 + i) for i in range(7)}
    state |= {"half": torch.randn(3000).half(), "turned": torch.randn(300, 40).t(), "none": torch.zeros(0), "step": 7}
    return {key: torch.zeros_like(value) if zero and key != "step" else value for key, value in state.items()}


def state_that_all_ranks_want_is_read_once(ranks: Ranks) -> None:
    """All ranks together read the state and the ends of its blocks, not four times as much."""
    run = ranks.run("ddp")
    run.save(replicated(), step=1)
    opened = shared(ranks.config)
    before = opened.targets
    opened.targets = meters = {name: MeterTarget(target) for name, target in before.items()}
    try:
        state = replicated(zero=True)
        run.load(state, step=1)
    finally:
        opened.targets = before
    assert all(torch.equal(state[key], value) for key, value in replicated().items() if key != "step")
    read = torch.tensor(sum(meter.sizes["get_into"] for meter in meters.values()))
    dist.all_reduce(read)
    nbytes = sum(value.nbytes for key, value in replicated().items() if key != "step")
    assert nbytes <= read.item() < 1.5 * nbytes, "blocks are as large as fragments here: a tensor's ends are read twice"


def o69_a_shard_of_the_same_layout_reads_little_more_than_itself(ranks: Ranks) -> None:
    """Each rank what it holds, and not what the others do: not even the index, which rank 0 alone reads."""
    run = ranks.run("o69")
    mesh, rows = ranks.meshes[WORLD], torch.arange(400_000.0).view(400, 1000)
    run.save({"w": distribute_tensor(rows, mesh, [Shard(0)])}, step=1)
    state = {"w": distribute_tensor(torch.zeros_like(rows), mesh, [Shard(0)])}
    opened = shared(ranks.config)
    before = opened.targets
    opened.targets = meters = {name: MeterTarget(target) for name, target in before.items()}
    try:
        run.load(state, step=1)
    finally:
        opened.targets = before
    mine = state["w"].to_local()
    assert torch.equal(state["w"].full_tensor(), rows)
    assert mine.nbytes <= sum(meter.bytes_read for meter in meters.values()) <= 2 * mine.nbytes
    asked = [each for meter in meters.values() for each in meter.paths]
    records = {path for _, path in asked if "/shards/" in path}
    others = [each for each in asked if each[1] not in records and not each[1].startswith("data/")]
    assert len(records) == 1
    assert bool(others) == (ranks.rank == 0)


def a_rank_that_cannot_read_its_share_fails_all(ranks: Ranks) -> None:
    """At once, and with its own error; the group is in order afterwards."""
    run = ranks.run("ddp")
    opened = shared(ranks.config)
    before = opened.targets
    if ranks.rank == 1:
        opened.targets = {name: FaultTarget(target) for name, target in before.items()}
        for fault in opened.targets.values():
            fault.inject("get_into", "data/*", error=unavailable("down"))
    try:
        with pytest.raises(OutOfReach) as caught:
            run.load(replicated(zero=True), step=1)
    finally:
        opened.targets = before
    assert caught.value.ranks == [1]
    state = replicated(zero=True)
    run.load(state, step=1)
    assert torch.equal(state["layer3"], replicated()["layer3"])


def a_rank_that_fails_before_it_reads_keeps_nobody_waiting(ranks: Ranks) -> None:
    run = ranks.run("ddp")
    locate = Source.locate

    def failing(*_):
        raise CorruptError("no record")

    if ranks.rank == 3:
        Source.locate = failing
    began = time.monotonic()
    try:
        with pytest.raises(CorruptError, match="no record"):
            run.load(replicated(zero=True), step=1)
    finally:
        Source.locate = locate
    assert time.monotonic() - began < 20


def bytes_that_the_network_changed_are_refused(ranks: Ranks) -> None:
    """They never come to a tensor."""
    run = ranks.run("ddp")
    broadcast = dist.broadcast

    def wrong(tensor: torch.Tensor, src: int, group: dist.ProcessGroup) -> None:
        broadcast(tensor, src=src, group=group)
        if ranks.rank == 2 != src:
            tensor[len(tensor) // 2] ^= 1

    state = replicated(zero=True)
    dist.broadcast, sharing.PART = wrong, 100_000
    try:
        with pytest.raises(CorruptError, match="rank 2 received other bytes"):
            run.load(state, step=1)
    finally:
        dist.broadcast, sharing.PART = broadcast, 16 << 20
    saved = [value for key, value in replicated().items() if key != "step"]
    loaded = [value for key, value in state.items() if key != "step"]
    assert all(((a == b) | (a == 0)).all() for a, b in zip(loaded, saved, strict=True))


def shared_state_that_the_window_does_not_hold_comes_in_groups(ranks: Ranks) -> None:
    """Also where a rank fails to read between two of them: nobody is kept waiting, and the next load works."""
    config = msgspec.structs.replace(ranks.config, fragment_size="64KiB", window="512KiB")
    run = ckptstore.open(config).run("groups")
    run.save(replicated(), step=1)
    state = replicated(zero=True)
    run.load(state, step=1)
    assert all(torch.equal(state[key], value) for key, value in replicated().items() if key != "step")
    reads, read = iter(range(100)), Source.read

    def failing(source: Source, *arguments, **named) -> None:
        if next(reads) == 2:
            raise CorruptError("the third group")
        read(source, *arguments, **named)

    if ranks.rank == 1:
        Source.read = failing
    try:
        with pytest.raises(CorruptError, match="the third group"):
            run.load(replicated(zero=True), step=1)
    finally:
        Source.read = read
    run.load(state, step=1)


def a_rank_that_cannot_open_the_store_keeps_nobody_waiting(ranks: Ranks) -> None:
    """Whichever it is: its error is everybody's, at once, and the next load works."""
    run = ranks.run("o69")
    state = {"w": distribute_tensor(torch.zeros(400, 1000), ranks.meshes[WORLD], [Shard(0)])}
    for broken, room in ((0, state_room), (2, joint_room)):
        opening = room.shared
        if ranks.rank == broken:
            room.shared = _not_to_be_opened
        began = time.monotonic()
        try:
            with pytest.raises(ConfigError, match="two targets in one place"):
                run.load(state, step=1)
        finally:
            room.shared = opening
        assert time.monotonic() - began < 10
        dist.barrier()
    run.load(state, step=1)


def _not_to_be_opened(config):
    raise ConfigError("two targets in one place", key="targets")


def what_fails_rank_0_in_no_way_we_know_fails_all_at_once(ranks: Ranks) -> None:
    outline = state_room.Outline.of
    if ranks.rank == 0:
        state_room.Outline.of = staticmethod(lambda *_: 1 / 0)
    try:
        with pytest.raises(ZeroDivisionError if ranks.rank == 0 else CkptStoreError, match="division by zero"):
            ranks.run("o69").load({"w": torch.zeros(400, 1000)}, step=1)
    finally:
        state_room.Outline.of = outline
    dist.barrier()


def replicas_that_differ_are_refused_under_plans_that_dcp_cached(ranks: Ranks) -> None:
    """What rank 0 said of an earlier save, of which the cached plan tells still, counts for nothing."""
    writer = StoreWriter(ranks.config, run="cached")
    mine = {"big": torch.arange(100.0)} if ranks.rank == 0 else {}
    alone = {"x": torch.full((10,), 1.0)} if ranks.rank == 1 else {}

    def save(state: dict, name: str) -> None:
        planner = DefaultSavePlanner(enable_plan_caching=True)
        dcp.save(state, storage_writer=writer, checkpoint_id=name, planner=planner)

    save({**mine, **alone}, "step-1")
    with pytest.raises(ReplicaMismatch) as caught, own_error():
        save({**mine, "x": torch.full((10,), float(ranks.rank))}, "step-2")
    assert caught.value.key == "x"
    dist.barrier()


def what_ranks_saved_any_ranks_load_from_a_copy(ranks: Ranks) -> None:
    """Its shards stay theirs, under another code."""
    run, other = ranks.run("copied"), _other_store(ranks)
    run.save({"model": spread(ranks.meshes[WORLD]), "step": 7}, step=7)
    if ranks.rank == 0:
        (made,) = run.copy(other.run("kept"), read_back=True).copied
        assert made.world == WORLD
        assert _shards(ranks.config, "copied") == _shards(other.config, "kept")
        assert {rank for rank, _, _ in _shards(other.config, "kept")} == set(range(WORLD))
    dist.barrier()
    for size in (1, 3, WORLD):
        state = {"model": spread(ranks.meshes[size], zero=True), "step": 0}
        if ranks.rank < size:
            other.run("kept").load(state, process_group=ranks.groups[size])
            check_state(state, 7, size)
        dist.barrier()


def _other_store(ranks: Ranks) -> ckptstore.Store:
    """Made by rank 0, beside the first one: another code, another size of fragments."""
    made = [None]
    if ranks.rank == 0:
        root = Path(ranks.config.targets[0].url).parent.with_name("copies")
        made = [make_store(root, "uvw", code="2+1", fragment_size="20KiB").config]
    dist.broadcast_object_list(made)
    return ckptstore.open(made[0])


def _shards(config, run: str) -> list[tuple]:
    opened = shared(config)
    source = Source.open(opened, select(opened, run, Selector()))
    records = [source.shard(number).record for number in range(len(source.index.shards))]
    return [(record.rank, record.length, record.tensors) for record in records]


CHECKS = [
    ranks_that_are_out_of_step_are_told_so_and_nothing_is_saved,
    ranks_that_are_out_of_step_under_stock_planners_too,
    state_that_all_ranks_want_is_read_once,
    o69_a_shard_of_the_same_layout_reads_little_more_than_itself,
    a_rank_that_cannot_read_its_share_fails_all,
    a_rank_that_fails_before_it_reads_keeps_nobody_waiting,
    bytes_that_the_network_changed_are_refused,
    shared_state_that_the_window_does_not_hold_comes_in_groups,
    any_number_of_ranks_to_any_other,
    o15_different_values_under_one_key,
    o15_different_values_under_stock_planners,
    o50_a_rank_whose_writer_returns_nothing,
    a_rank_whose_targets_fail_fails_everybody,
    background_saves_beside_the_training_loops_collectives,
    what_rank_0_does_not_find_no_rank_finds,
    async_saves_of_both_kinds,
    a_rank_that_cannot_open_the_store_keeps_nobody_waiting,
    what_fails_rank_0_in_no_way_we_know_fails_all_at_once,
    replicas_that_differ_are_refused_under_plans_that_dcp_cached,
    what_ranks_saved_any_ranks_load_from_a_copy,
]


@pytest.fixture(scope="module")
def notes(tmp_path_factory):
    return run_on_ranks(CHECKS, tmp_path_factory)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test(check, notes):
    assert_held(check, notes)
