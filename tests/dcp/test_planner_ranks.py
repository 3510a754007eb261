"""Planners on several gloo ranks: one spawn of five processes, of which groups of 1 to 5 save and load."""

from pathlib import Path

import pytest
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor

import ckptstore
from ckptstore.config import Config
from ckptstore.dcp.load_planner import CheckpointLoadPlanner
from ckptstore.dcp.save_planner import CheckpointSavePlanner
from ckptstore.errors import KeyMismatch, ReplicaMismatch, UnsupportedValue
from tests.dcp.equality import same
from tests.dcp.folder import own_error
from tests.dcp.ranks import start_ranks
from tests.support import make_store

WORLD = 5
SHAPES = [(), (1,), (0,), (0, 5), (6,), (1, 17), (7, 3)]


def whole(shape) -> torch.Tensor:
    """The same on every rank."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(len(shape)))


def sharded(mesh: DeviceMesh, *, zero: bool = False):
    tensors = {str(shape): whole(shape) for shape in SHAPES}
    return {
        name: distribute_tensor(torch.zeros_like(t) if zero else t, mesh, [Shard(0) if t.dim() else Replicate()])
        for name, t in tensors.items()
    }


class Ranks:
    """What one process needs: the groups of the first 1 to 5 ranks."""

    def __init__(self, rank: int, folder: Path, config: Config) -> None:
        self.rank, self.folder = rank, folder
        self.store = ckptstore.open(config)
        self.groups = {size: dist.new_group(list(range(size))) for size in range(1, WORLD + 1)}
        self.meshes = {size: DeviceMesh("cpu", list(range(size))) for size in range(1, WORLD + 1)}

    def save(self, size: int, state, name: str):
        if self.rank >= size:
            return None
        writer = dcp.FileSystemWriter(self.folder / name)
        with own_error():
            return dcp.save(
                state, storage_writer=writer, planner=CheckpointSavePlanner(), process_group=self.groups[size]
            )

    def load(self, size: int, state, name: str, **options):
        if self.rank >= size:
            return None
        planner = CheckpointLoadPlanner(state, **options)
        reader = dcp.FileSystemReader(self.folder / name)
        with own_error():
            dcp.load({}, storage_reader=reader, planner=planner, process_group=self.groups[size])
        return planner.report


def o21_every_shape_from_four_ranks_to_any_number(ranks: Ranks) -> None:
    ranks.save(4, {"m": sharded(ranks.meshes[4])}, "o21")
    for size in (1, 2, 3, 5):
        template = {"m": sharded(ranks.meshes[size], zero=True)}
        ranks.load(size, template, "o21")
        if ranks.rank < size:
            for shape in SHAPES:
                tensor = template["m"][str(shape)]
                assert same(tensor.full_tensor(), whole(shape)), (size, shape)
    plain = {"m": {str(shape): torch.zeros(shape) for shape in SHAPES}}
    ranks.load(1, plain, "o21")
    if ranks.rank == 0:
        assert same(plain, {"m": {str(shape): whole(shape) for shape in SHAPES}})


def o21_every_shape_from_a_store(ranks: Ranks) -> None:
    """The same by way of real shards: of some of these tensors most ranks hold nothing."""
    run = ranks.store.run("o21")
    if ranks.rank < 4:
        run.save({"m": sharded(ranks.meshes[4])}, step=1, process_group=ranks.groups[4])
    dist.barrier()
    for size in (1, 2, 3, 5):
        template = {"m": sharded(ranks.meshes[size], zero=True)}
        if ranks.rank < size:
            run.load(template, process_group=ranks.groups[size])
            for shape in SHAPES:
                assert same(template["m"][str(shape)].full_tensor(), whole(shape)), (size, shape)
        dist.barrier()


def o51_per_rank_items(ranks: Ranks) -> None:
    def state(rank: int, mesh: DeviceMesh, *, zero: bool):
        return {"m": sharded(mesh, zero=zero), "rng": {rank: None if zero else torch.tensor(rank)}}

    ranks.save(4, state(ranks.rank, ranks.meshes[4], zero=False), "o51")
    template = state(ranks.rank, ranks.meshes[2], zero=True)
    with pytest.warns(UserWarning, match="wanted by none") if ranks.rank == 0 else own_error():
        report = ranks.load(2, template, "o51")
    if ranks.rank < 2:
        assert report.unread == ("rng.2", "rng.3")
        assert same(template["rng"], {ranks.rank: torch.tensor(ranks.rank)})
        assert same(template["m"][str((7, 3))].full_tensor(), whole((7, 3)))
    with pytest.raises(KeyMismatch) as caught:
        ranks.load(5, state(ranks.rank, ranks.meshes[5], zero=True), "o51")
    assert caught.value.missing == ["rng.4"], "each rank is told"
    template = state(ranks.rank, ranks.meshes[5], zero=True)
    report = ranks.load(5, template, "o51", strict=False)
    assert report.missing == ("rng.4",)
    assert same(template["rng"], {ranks.rank: torch.tensor(ranks.rank) if ranks.rank < 4 else None})
    for shape in SHAPES:
        assert same(template["m"][str(shape)].full_tensor(), whole(shape)), shape


def o15_different_kinds_are_refused_on_all_ranks(ranks: Ranks) -> None:
    state = {"w": torch.ones(2 + ranks.rank % 2)}
    with pytest.raises(ReplicaMismatch) as caught:
        ranks.save(5, state, "o15")
    assert caught.value.key == "w"


def o74_a_partial_dtensor_is_refused(ranks: Ranks) -> None:
    tensor = DTensor.from_local(torch.ones(2), ranks.meshes[5], [Partial()])
    with pytest.raises(UnsupportedValue, match="Partial") as caught:
        ranks.save(5, {"good": torch.ones(1), "sum": tensor}, "o74")
    assert caught.value.key == "sum"


def o37_tied_dtensors_are_stored_once_and_stay_tied(ranks: Ranks) -> None:
    mesh = ranks.meshes[4]
    if ranks.rank < 4:
        w = distribute_tensor(whole((7, 3)), mesh, [Shard(0)])
        metadata = ranks.save(4, {"head": w, "emb": w}, "o37")
        written = {index.fqn for index in metadata.storage_data}
        assert written == {"emb"}
        v = distribute_tensor(torch.zeros(7, 3), mesh, [Shard(0)])
        template = {"head": v, "emb": v}
        ranks.load(4, template, "o37")
        assert template["head"] is template["emb"] is v
        assert same(v.full_tensor(), whole((7, 3)))


def o37_meta_dtensors_are_made_real(ranks: Ranks) -> None:
    if ranks.rank < 3:
        mesh = ranks.meshes[3]
        local = distribute_tensor(torch.zeros(7, 3), mesh, [Shard(0)]).to_local()
        meta = DTensor.from_local(
            local.to("meta"), mesh, [Shard(0)], run_check=False, shape=torch.Size((7, 3)), stride=(3, 1)
        )
        template = {"head": meta}
        ranks.load(3, template, "o37")
        assert same(template["head"].full_tensor(), whole((7, 3)))


CASES = [
    o21_every_shape_from_four_ranks_to_any_number,
    o21_every_shape_from_a_store,
    o51_per_rank_items,
    o15_different_kinds_are_refused_on_all_ranks,
    o74_a_partial_dtensor_is_refused,
    o37_tied_dtensors_are_stored_once_and_stay_tied,
    o37_meta_dtensors_are_made_real,
]


def run(rank: int, folder: str, config: Config) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=WORLD)
    ranks = Ranks(rank, Path(folder), config)
    for case in CASES:
        try:
            case(ranks)
            outcome = "held"
        except BaseException as error:  # noqa: BLE001  told to the parent, which fails the case's test
            outcome = f"rank {rank}: {type(error).__name__}: {error}"
        outcomes: list[str] = [""] * WORLD
        dist.all_gather_object(outcomes, outcome)
        if rank == 0:
            (ranks.folder / f"{case.__name__}.txt").write_text("\n".join(o for o in outcomes if o != "held"))
    dist.destroy_process_group()


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ranks")
    config = make_store(tmp_path_factory.mktemp("store")).config
    start_ranks(run, (str(folder), config), WORLD)
    return folder


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_on_ranks(outcomes, case):
    assert (outcomes / f"{case.__name__}.txt").read_text() == ""
