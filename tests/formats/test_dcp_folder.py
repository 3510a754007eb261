"""DCP folders in and out, held against torch's own writer and reader; and pickles that are bombs."""

import pickle
import shutil

import pytest
import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint import FileSystemReader, FileSystemWriter
from torch.distributed.checkpoint.filesystem import _StorageInfo
from torch.distributed.checkpoint.metadata import ChunkStorageMetadata, MetadataIndex

from ckptstore.errors import UnsupportedValue, UsageError
from tests.formats.support import (
    NOT_IN_TORCH_FILES,
    Bomb,
    all_bits,
    bits,
    dtypes_of_torch,
    make_place,
    names_in,
    random_tensor,
)

STATE = {
    "model": {
        "w": torch.arange(600.0).reshape(20, 30),
        "b": torch.ones(3, dtype=torch.bfloat16),
        "e": torch.empty(0, 2),
    },
    "optim": {"state": [{"step": 3, "exp_avg": torch.ones(2, 2)}], "lr": 0.1},
    "epoch": 7,
}


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """What torch writes of STATE."""
    folder = tmp_path_factory.mktemp("dcp")
    dcp.save(STATE, storage_writer=FileSystemWriter(folder), no_dist=True)
    return folder


@pytest.fixture
def folder(written, tmp_path):
    """A copy of it."""
    return shutil.copytree(written, tmp_path / "in")


def torch_reads(folder, template):
    dcp.load(template, storage_reader=FileSystemReader(folder), no_dist=True)
    return template


def test_what_torch_wrote_comes_in_nested_and_goes_out_as_torch_reads_it(place, written, tmp_path):
    place.run.import_from(written, step=1)
    state = {}
    place.run.load(state)
    assert all_bits(state["model"]) == all_bits(STATE["model"])
    assert (state["epoch"], state["optim"]["lr"], state["optim"]["state"][0]["step"]) == (7, 0.1, 3)
    place.run.export(tmp_path / "out", format="dcp")
    assert names_in(tmp_path / "out") == [".metadata", "__0_0.distcp"]
    empty = {
        "model": {name: torch.zeros_like(tensor) for name, tensor in STATE["model"].items()},
        "optim": {"state": [{"step": 0, "exp_avg": torch.zeros(2, 2)}], "lr": 0.0},
        "epoch": 0,
    }
    found = torch_reads(tmp_path / "out", empty)
    assert all_bits(found["model"]) == all_bits(STATE["model"])
    assert bits(found["optim"]["state"][0]["exp_avg"]) == bits(torch.ones(2, 2))
    assert (found["epoch"], found["optim"]["lr"], found["optim"]["state"][0]["step"]) == (7, 0.1, 3)


def test_large_tensors_go_out_in_chunks_and_come_in_again(tmp_path):
    place = make_place(tmp_path, fragment_size="16KiB", window="256KiB")
    state = {"w": torch.arange(100_000, dtype=torch.int32).reshape(1000, 100), "v": torch.arange(70_000.0)}
    place.run.save(state, step=1)
    place.run.export(tmp_path / "out", format="dcp")
    chunks = FileSystemReader(tmp_path / "out").read_metadata().state_dict_metadata["w"].chunks
    assert len(chunks) > 3
    found = torch_reads(tmp_path / "out", {name: torch.zeros_like(tensor) for name, tensor in state.items()})
    assert all_bits(found) == all_bits(state)
    place.run.import_from(tmp_path / "out", step=2)
    again = {}
    place.run.load(again, step=2)
    assert all_bits(again) == all_bits(state)


def test_o36_o37_every_dtype_comes_back_and_ties_stand_under_both_names(place, tmp_path):
    state = {name: random_tensor(name, (3, 4)) for name in dtypes_of_torch() if name not in NOT_IN_TORCH_FILES}
    state["tied"] = state["float32"]
    place.run.save(state, step=1)
    place.run.export(tmp_path / "out", format="dcp")
    place.run.import_from(tmp_path / "out", step=2)
    found = {}
    place.run.load(found, step=2)
    assert all_bits(found) == all_bits(state)


def test_o36_dtypes_that_torch_does_not_write_are_named_before_anything_is_written(place, tmp_path):
    lacking = sorted(NOT_IN_TORCH_FILES & set(dtypes_of_torch()))
    assert lacking
    place.run.save({"model": {name: random_tensor(name, (4,)) for name in lacking}, "x": torch.ones(1)}, step=1)
    for target, kind in (("out", "dcp"), ("out.pt", "torch")):
        with pytest.raises(UnsupportedValue) as caught:
            place.run.export(tmp_path / target, format=kind)
        assert caught.value.fields["dtypes"] == {f"model.{name}": name for name in lacking}
        assert not (tmp_path / target).exists()


def test_an_export_that_is_interrupted_has_no_metadata(place, tmp_path, monkeypatch):
    place.run.save({"w": torch.ones(3)}, step=1)
    out = tmp_path / "out"
    place.run.export(out, format="dcp")
    with pytest.raises(UsageError, match="already"):
        place.run.export(out, format="dcp")

    def replace(_source, _target):
        raise KeyboardInterrupt

    monkeypatch.setattr("pathlib.Path.replace", replace)
    with pytest.raises(KeyboardInterrupt):
        place.run.export(out, format="dcp", force=True)
    assert names_in(out) == ["__0_0.distcp"]


# -- bad input: a typed error, nothing run, nothing written ----------------------------------------


def changed(folder, change):
    """Its metadata, changed as told."""
    path = folder / ".metadata"
    metadata = pickle.loads(path.read_bytes())
    change(metadata)
    path.write_bytes(pickle.dumps(metadata))


def stored_elsewhere(folder, **fields):
    def change(metadata):
        index = MetadataIndex("model.w", torch.Size([0, 0]))
        info = metadata.storage_data[index]
        metadata.storage_data[index] = _StorageInfo(**{**vars(info), **fields})

    changed(folder, change)


def a_truncated_file(folder):
    path = folder / "__0_0.distcp"
    path.write_bytes(path.read_bytes()[:-100])


def a_missing_file(folder):
    (folder / "__0_0.distcp").unlink()


def a_file_of_something_else(folder):
    path = folder / "__0_0.distcp"
    path.write_bytes(b"x" * path.stat().st_size)


def a_path_out_of_the_folder(folder):
    shutil.copy(folder / "__0_0.distcp", folder.parent / "other.distcp")
    stored_elsewhere(folder, relative_path="../other.distcp")


def a_link_out_of_the_folder(folder):
    (folder / "__0_0.distcp").rename(folder.parent / "other.distcp")
    (folder / "__0_0.distcp").symlink_to(folder.parent / "other.distcp")


def metadata_that_is_a_link_out_of_the_folder(folder):
    (folder / ".metadata").rename(folder.parent / "other")
    (folder / ".metadata").symlink_to(folder.parent / "other")


def an_offset_past_the_end(folder):
    stored_elsewhere(folder, offset=1 << 40)


def a_negative_offset(folder):
    stored_elsewhere(folder, offset=-1)


def another_tensor_s_place(folder):
    def change(metadata):
        other = metadata.storage_data[MetadataIndex("model.b", torch.Size([0]))]
        metadata.storage_data[MetadataIndex("model.w", torch.Size([0, 0]))] = other

    changed(folder, change)


def a_place_that_nobody_names(folder):
    changed(folder, lambda metadata: metadata.storage_data.pop(MetadataIndex("model.w", torch.Size([0, 0]))))


def another_dtype(folder):
    def change(metadata):
        metadata.state_dict_metadata["model.w"].properties.dtype = torch.int32

    changed(folder, change)


def chunks_that_overlap(folder):
    def change(metadata):
        chunk = ChunkStorageMetadata(torch.Size([0, 0]), torch.Size([20, 30]))
        metadata.state_dict_metadata["model.w"].chunks = [chunk, chunk]

    changed(folder, change)


def a_tensor_with_a_hole(folder):
    def change(metadata):
        metadata.state_dict_metadata["model.w"].size = torch.Size([21, 30])

    changed(folder, change)


def a_compressed_file(folder):
    stored_elsewhere(folder, transform_descriptors=["zstd"])


def nothing_at_all(folder):
    (folder / ".metadata").write_bytes(b"")


def half_of_the_metadata(folder):
    path = folder / ".metadata"
    path.write_bytes(path.read_bytes()[:-40])


def another_pickle(folder):
    (folder / ".metadata").write_bytes(pickle.dumps({"state_dict_metadata": {}}))


def one_list_of_chunks_a_thousand_times(folder):
    """A pickle of 40 KB that would become a hundred million chunks."""

    def change(metadata):
        entry = metadata.state_dict_metadata["model.w"]
        entry.chunks = entry.chunks * 10_000
        metadata.state_dict_metadata |= {f"w{at}": entry for at in range(10_000)}

    changed(folder, change)


def a_memo_of_16_gib(folder):
    (folder / ".metadata").write_bytes(b"\x80\x02]r\xff\xff\xff\x7f.")


BAD = [
    a_truncated_file,
    a_missing_file,
    a_file_of_something_else,
    a_path_out_of_the_folder,
    a_link_out_of_the_folder,
    metadata_that_is_a_link_out_of_the_folder,
    an_offset_past_the_end,
    a_negative_offset,
    another_tensor_s_place,
    a_place_that_nobody_names,
    another_dtype,
    chunks_that_overlap,
    a_tensor_with_a_hole,
    a_compressed_file,
    nothing_at_all,
    half_of_the_metadata,
    another_pickle,
    one_list_of_chunks_a_thousand_times,
    a_memo_of_16_gib,
]


@pytest.mark.parametrize("spoil", BAD)
def test_o62_a_folder_that_is_not_as_torch_writes_it_is_refused_and_nothing_written(untouched, folder, spoil):
    spoil(folder)
    before = untouched.store.digest()
    with pytest.raises(UnsupportedValue) as caught:
        untouched.run.import_from(folder, step=1)
    assert caught.value.hint
    assert untouched.store.digest() == before


def bomb_in_metadata(folder, path):
    (folder / ".metadata").write_bytes(pickle.dumps(Bomb(path)))


def bomb_in_planner_data(folder, path):
    changed(folder, lambda metadata: metadata.planner_data.update(epoch=Bomb(path)))


def bomb_in_an_object(folder, path):
    dcp.save({"w": torch.ones(1), "x": [Bomb(path)]}, storage_writer=FileSystemWriter(folder), no_dist=True)


def attributes_of_torch(folder, _path):
    """`.metadata` that sets an attribute of a class of torch's: done to a stand-in, and of no use."""
    code = b"ctorch.distributed.checkpoint.metadata\nMetadata\n(N}X\x06\x00\x00\x00poisonI01\nstb."
    (folder / ".metadata").write_bytes(b"\x80\x02" + code)


@pytest.mark.parametrize("arm", [bomb_in_metadata, bomb_in_planner_data, bomb_in_an_object, attributes_of_torch])
def test_o62_a_bomb_is_refused_and_never_run(untouched, folder, tmp_path, arm):
    arm(folder, tmp_path / "run")
    before = untouched.store.digest()
    with pytest.raises(UnsupportedValue):
        untouched.run.import_from(folder, step=1)
    assert not (tmp_path / "run").exists()
    assert not hasattr(dcp.metadata.Metadata, "poison")
    assert untouched.store.digest() == before
