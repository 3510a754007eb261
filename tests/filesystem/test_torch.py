"""Code that knows nothing of ckptstore works by a `ckpt://` URL: PyTorch's checkpoints, torch files, safetensors."""

import io
import shutil
import socket
from pathlib import Path

import fsspec
import pytest
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.multiprocessing as mp
from safetensors.torch import load, save
from torch.distributed.checkpoint import CheckpointException
from torch.distributed.checkpoint._fsspec_filesystem import FsspecReader, FsspecWriter
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import Shard, distribute_tensor

from ckptstore.filesystem import CheckpointFileSystem
from ckptstore.notices import FileDiscardedWarning
from tests.filesystem.test_reading import elsewhere

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:torch")


def state(seed=0):
    generator = torch.Generator().manual_seed(seed)
    weight = torch.randn(300, 301, generator=generator)
    return {"model": {"w": weight, "b": weight[0].bfloat16()}, "step": torch.tensor(seed), "lr": 0.1}


def zeros():
    return {
        "model": {"w": torch.zeros(300, 301), "b": torch.zeros(301).bfloat16()},
        "step": torch.tensor(-1),
        "lr": 0.0,
    }


def assert_same(found, seed=0):
    expected = state(seed)
    assert torch.equal(found["model"]["w"], expected["model"]["w"])
    assert torch.equal(found["model"]["b"], expected["model"]["b"])
    assert (int(found["step"]), found["lr"]) == (seed, expected["lr"])


def test_distributed_checkpoints_by_url(place):
    url = f"{place.url}/step-10"
    dcp.save(state(), storage_writer=FsspecWriter(url))
    elsewhere()
    assert place.run.latest().step == 10
    found = zeros()
    dcp.load(found, storage_reader=FsspecReader(url))
    assert_same(found)
    assert place.run.verify(read_data=True).checkpoints[0].state == "good"
    for name in "be":
        shutil.rmtree(place.folder / name)
    found = zeros()
    dcp.load(found, storage_reader=FsspecReader(url))
    assert_same(found)


def test_the_url_alone_as_the_checkpoint_s_id(place):
    """DCP chooses its fsspec classes by the URL."""
    dcp.save(state(), checkpoint_id=f"{place.url}/a/step-10")
    elsewhere()
    found = zeros()
    dcp.load(found, checkpoint_id=f"{place.url}/a/step-10")
    assert_same(found)


def test_a_checkpoint_written_again_is_the_new_one(place):
    url = f"{place.url}/step-10"
    for seed in (1, 2):
        dcp.save(state(seed), storage_writer=FsspecWriter(url))
    elsewhere()
    found = zeros()
    dcp.load(found, storage_reader=FsspecReader(url))
    assert_same(found, 2)
    assert [c.name for c in place.run.checkpoints()] == ["step-10", "step-10"]


class Failing(FsspecWriter):
    """A disk that is pulled out, a process out of memory."""

    def finish(self, metadata, results):
        raise OSError("no more")


def test_a_writer_that_fails_leaves_nothing(place):
    dcp.save(state(1), storage_writer=FsspecWriter(f"{place.url}/step-10"))
    with pytest.raises(CheckpointException, match="no more"):
        dcp.save(state(2), storage_writer=Failing(f"{place.url}/step-10"))
    elsewhere()
    found = zeros()
    dcp.load(found, storage_reader=FsspecReader(f"{place.url}/step-10"))
    assert_same(found, 1)
    assert len(place.run.checkpoints()) == 1


def on_a_rank(rank: int, world: int, port: int, url: str) -> None:
    fsspec.register_implementation("ckpt", CheckpointFileSystem, clobber=True)  # as the entry point of an installed one
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=world)
    mesh = DeviceMesh("cpu", list(range(world)))
    sharded = {"w": distribute_tensor(state()["model"]["w"], mesh, [Shard(0)])}
    dcp.save(sharded, storage_writer=FsspecWriter(url))
    other = {"w": distribute_tensor(torch.zeros(300, 301), mesh, [Shard(1)])}
    dcp.load(other, storage_reader=FsspecReader(url))
    assert torch.equal(other["w"].full_tensor(), state()["model"]["w"])
    dist.destroy_process_group()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.mark.soak
def test_two_ranks_save_one_checkpoint_that_loads_on_any_number(place):
    """Each rank writes its file, and rank 0 renames `.metadata.tmp`."""
    url = f"{place.url}/step-10"
    mp.spawn(on_a_rank, (2, free_port(), url), nprocs=2)
    found = {"w": torch.zeros(300, 301)}
    dcp.load(found, storage_reader=FsspecReader(url))
    assert torch.equal(found["w"], state()["model"]["w"])
    assert place.run.verify(read_data=True).checkpoints[0].state == "good"


def test_torch_files_by_url(place):
    with fsspec.open(f"{place.url}/best.pt", "wb") as file:
        torch.save(state(), file)
    elsewhere()
    with fsspec.open(f"{place.url}/best.pt", "rb") as file:
        assert_same(torch.load(file))
    assert place.run.latest().name == "best.pt"


def test_a_torch_save_that_fails_leaves_nothing(place):
    class Odd:
        def __reduce__(self):
            raise RuntimeError("can't be pickled")

    url = f"{place.url}/best.pt"
    with pytest.warns(FileDiscardedWarning), pytest.raises(RuntimeError), fsspec.open(url, "wb") as file:
        torch.save({"w": torch.ones(10), "odd": Odd()}, file)
    assert place.run.checkpoints() == []


def test_safetensors_files_by_url(place):
    with fsspec.open(f"{place.url}/model.safetensors", "wb") as file:
        file.write(save(state()["model"]))
    elsewhere()
    with fsspec.open(f"{place.url}/model.safetensors") as file:
        found = load(file.read())
    assert torch.equal(found["w"], state()["model"]["w"])
    assert io.BytesIO(save(found)).getvalue() == save(state()["model"])


def test_torch_s_own_folder_comes_back_by_the_store_s_commands(place, tmp_path):
    """The files are those that torch would have written to a disk."""
    url = f"{place.url}/step-10"
    dcp.save(state(), storage_writer=FsspecWriter(url))
    fs = fsspec.filesystem("ckpt")
    fs.get(url, str(tmp_path / "out"), recursive=True)
    found = zeros()
    dcp.load(found, checkpoint_id=str(tmp_path / "out"))
    assert_same(found)
    assert Path(tmp_path / "out" / ".metadata").is_file()
