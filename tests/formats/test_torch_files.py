"""Files of `torch.save` and DeepSpeed universal checkpoints: values, ties and nesting as they were, and nothing run."""

import os
import pickle
import zipfile

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ckptstore.dtypes import DTYPES
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

TIED = torch.arange(3000.0).reshape(30, 100)
STATE = {
    "model": {"w": TIED, "head": TIED, "turned": TIED[:10].t(), "b": torch.tensor(2.5, dtype=torch.bfloat16)},
    "optim": [{"lr": 0.1, "exp_avg": torch.ones(5)}, {"none": torch.empty(0, 3)}],
    7: (1, "a", None),
    "epoch": 3,
}


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """A store for tests that each save and look at a step of their own."""
    return make_place(tmp_path_factory.mktemp("shared"))


def assert_as_saved(found):
    assert all_bits(found["model"]) == all_bits(STATE["model"])
    assert bits(found["optim"][0]["exp_avg"]) == bits(torch.ones(5))
    assert tuple(found["optim"][1]["none"].shape) == (0, 3)
    assert (found["epoch"], found[7], found["optim"][0]["lr"]) == (3, (1, "a", None), 0.1)


def test_o37_a_file_of_torch_comes_in_and_goes_out_nested_and_tied_as_it_was(place, tmp_path):
    torch.save(STATE, tmp_path / "in.pt")
    saved = place.run.import_from(tmp_path / "in.pt", step=1)
    assert saved.bytes < 2 * TIED.nbytes  # the tie is stored once, the view of its ten rows apart
    found = {}
    place.run.load(found)
    assert_as_saved(found)
    place.run.export(tmp_path / "out.pt")
    for options in ({}, {"mmap": True}):
        again = torch.load(tmp_path / "out.pt", weights_only=True, **options)
        assert_as_saved(again)
        assert again["model"]["w"].data_ptr() == again["model"]["head"].data_ptr()
        assert again["model"]["w"].untyped_storage().nbytes() == TIED.nbytes


def test_an_exported_file_is_a_sound_zip_archive(place, tmp_path):
    place.run.save(STATE, step=1)
    place.run.export(tmp_path / "out.pt")
    with zipfile.ZipFile(tmp_path / "out.pt") as archive:
        assert archive.testzip() is None
        names = [name for name in archive.namelist() if "/data/" in name and not name.endswith("serialization_id")]
        assert len(names) == 5


def test_the_format_before_torch_1_6_comes_in(place, tmp_path):
    torch.save(STATE, tmp_path / "old.pt", _use_new_zipfile_serialization=False)
    place.run.import_from(tmp_path / "old.pt", step=1)
    found = {}
    place.run.load(found)
    assert_as_saved(found)


def test_tensors_inside_of_objects_keep_their_values(place, tmp_path):
    """A stock planner leaves a tuple as one object, whatever is in it."""
    import torch.distributed.checkpoint as dcp

    state = {"pair": (torch.arange(4.0), 5), "w": torch.ones(2)}
    dcp.save(state, storage_writer=dcp.FileSystemWriter(tmp_path / "in"), no_dist=True)
    place.run.import_from(tmp_path / "in", step=1)
    place.run.export(tmp_path / "out.pt")
    found = torch.load(tmp_path / "out.pt", weights_only=True)
    assert bits(found["pair"][0]) == bits(torch.arange(4.0))
    assert found["pair"][1] == 5
    assert bits(found["w"]) == bits(torch.ones(2))


def test_a_part_goes_out_by_name(place, tmp_path):
    place.run.save(STATE, step=1)
    place.run.export(tmp_path / "out.pt", prefix="model.", include=["model.?"])
    found = torch.load(tmp_path / "out.pt", weights_only=True)
    assert all_bits(found) == all_bits({name: STATE["model"][name] for name in ("b", "w")})


def test_what_is_there_stays_unless_told(place, tmp_path):
    place.run.save({"w": torch.ones(3)}, step=1)
    (tmp_path / "out.pt").write_text("mine")
    with pytest.raises(UsageError, match="already"):
        place.run.export(tmp_path / "out.pt")
    assert (tmp_path / "out.pt").read_text() == "mine"
    place.run.export(tmp_path / "out.pt", force=True)
    assert bits(torch.load(tmp_path / "out.pt")["w"]) == bits(torch.ones(3))
    assert names_in(tmp_path) == ["out.pt", "targets"]


SHAPES = st.lists(st.integers(0, 5), max_size=3).map(tuple)


@settings(max_examples=6)
@given(st.data())
def test_o36_every_dtype_and_shape_comes_back_from_every_format(shared, tmp_path_factory, data):
    """In from a file of torch, out to each format that holds it, and in again: all bits are the same."""
    kinds = sorted(set(dtypes_of_torch()) - NOT_IN_TORCH_FILES)
    drawn = data.draw(st.lists(st.tuples(st.sampled_from(kinds), SHAPES), min_size=1, max_size=5))
    state = {f"t{at}": random_tensor(kind, shape, at) for at, (kind, shape) in enumerate(drawn)}
    folder = tmp_path_factory.mktemp("formats")
    torch.save(state, folder / "in.pt")
    shared.run.import_from(folder / "in.pt", step=1)
    held = all(DTYPES[kind].stream for kind, _ in drawn)
    for path, kind in [("out.pt", "torch"), ("dcp", "dcp"), *([("hf", "hf")] if held else [])]:
        shared.run.export(folder / path, step=1, format=kind, max_shard_size=100)
        shared.run.import_from(folder / path, step=2)
        found = {}
        shared.run.load(found, step=2)
        assert all_bits({name: found[name] for name in state}) == all_bits(state)


# -- DeepSpeed ----------------------------------------


@pytest.fixture
def universal(tmp_path):
    """As `ds_to_universal.py` leaves it, of two parameters on one rank."""
    made = tmp_path / "global_step5_universal"
    for seed, name in enumerate(("transformer.wte.weight", "transformer.h.0.bias")):
        for state in ("fp32", "exp_avg", "exp_avg_sq"):
            write(made / f"zero/{name}/{state}.pt", {"param": random_tensor("float32", (4, 3), seed), "cat_dim": 1})
        write(made / f"zero/{name}/step.pt", torch.tensor(5.0))
    write(made / "zero/optimizer_state.pt", {"param_groups": [{"lr": 0.1}]})
    write(made / "mp_rank_00_model_states.pt", {"module": {"w": torch.ones(2)}, "ds_version": "0.18.2", "iteration": 5})
    return made


def write(path, value):
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.save(value, path)


def test_a_deepspeed_universal_checkpoint_comes_in_by_state_and_parameter(place, universal, tmp_path):
    place.run.import_from(universal, step=5)
    found = {}
    place.run.load(found)
    assert sorted(found) == [
        *("exp_avg", "exp_avg_sq", "fp32", "joined", "mp_rank_00_model_states", "optimizer_state", "step")
    ]
    wanted = {"transformer.wte.weight": 0, "transformer.h.0.bias": 1}
    for state in ("fp32", "exp_avg", "exp_avg_sq"):
        assert all_bits(found[state]) == {n: bits(random_tensor("float32", (4, 3), seed)) for n, seed in wanted.items()}
    assert found["step"]["transformer.h.0.bias"] == 5
    assert found["joined"]["transformer.wte.weight"] == {"cat_dim": 1}
    assert found["optimizer_state"] == {"param_groups": [{"lr": 0.1}]}
    assert found["mp_rank_00_model_states"]["iteration"] == 5
    place.run.export(tmp_path / "out", prefix="fp32.")
    from safetensors.torch import load_file

    assert all_bits(load_file(tmp_path / "out/model.safetensors")) == all_bits(found["fp32"])


# -- what must be refused, before anything is written ----------------------------------------


def a_bomb(folder):
    torch.save({"w": torch.ones(1), "x": Bomb(folder / "run")}, folder / "in.pt")
    return folder / "in.pt"


def a_bare_pickle(folder):
    (folder / "in.pt").write_bytes(pickle.dumps(Bomb(folder / "run")))
    return folder / "in.pt"


def a_damaged_file(folder):
    torch.save({"w": torch.ones(1000)}, folder / "in.pt")
    os.truncate(folder / "in.pt", 3000)
    return folder / "in.pt"


def no_state(folder):
    torch.save([1, 2], folder / "in.pt")
    return folder / "in.pt"


def a_bomb_of_deepspeed(folder):
    write(folder / "u/zero/w/fp32.pt", {"param": torch.ones(1)})
    write(folder / "u/mp_rank_00_model_states.pt", {"args": Bomb(folder / "run")})
    return folder / "u"


def a_parameter_without_a_tensor(folder):
    write(folder / "u/zero/w/fp32.pt", {"parameter": torch.ones(1)})
    return folder / "u"


def a_link_out_of_the_folder(folder):
    write(folder / "u/zero/w/fp32.pt", {"param": torch.ones(1)})
    write(folder / "other.pt", {"param": torch.ones(1)})
    (folder / "u/zero/w/exp_avg.pt").symlink_to(folder / "other.pt")
    return folder / "u"


BAD = [a_bomb, a_bare_pickle, a_damaged_file, no_state, a_bomb_of_deepspeed]


@pytest.mark.parametrize("make", [*BAD, a_parameter_without_a_tensor, a_link_out_of_the_folder])
def test_o62_what_can_not_be_read_as_plain_values_is_refused_and_never_run(shared, tmp_path, make):
    path = make(tmp_path)
    before = shared.store.digest()
    with pytest.raises(UnsupportedValue) as caught:
        shared.run.import_from(path, step=1)
    assert caught.value.hint
    assert not (tmp_path / "run").exists()
    assert shared.store.digest() == before


def test_the_bombs_of_these_tests_would_go_off(tmp_path):
    pickle.loads(pickle.dumps(Bomb(tmp_path / "run")))
    assert (tmp_path / "run").exists()


def test_a_folder_without_parameters_is_no_universal_checkpoint(shared, tmp_path):
    write(tmp_path / "zero/optimizer_state.pt", {"a": 1})
    with pytest.raises(UsageError, match=r"fp32\.pt"):
        shared.run.import_from(tmp_path, step=1)
