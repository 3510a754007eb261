"""Hugging Face folders in and out: the index's rules in both directions, names, sizes, and what must be refused."""

import json
import os

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from ckptstore.dtypes import DTYPES
from ckptstore.errors import DataLost, KeyCollision, NotFoundError, UnsupportedValue, UsageError
from tests.formats.support import all_bits, dtypes_of_torch, names_in, random_tensor

INDEX = "model.safetensors.index.json"
ONE, TWO = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
WEIGHTS = {
    "embed": torch.arange(24.0).reshape(4, 6),
    "norm": torch.ones(3, dtype=torch.bfloat16),
    "none": torch.empty(0, 2),
    "head": torch.arange(6, dtype=torch.int16),
}


@pytest.fixture
def folder(tmp_path):
    """A model of two shards as the hub has it, with files beside them, and weights once more for another tool."""
    made = tmp_path / "model"
    made.mkdir()
    save_file({name: WEIGHTS[name] for name in ("embed", "none")}, made / ONE, metadata={"format": "pt"})
    save_file({name: WEIGHTS[name] for name in ("norm", "head")}, made / TWO, metadata={"format": "pt"})
    write_index(made, {"embed": ONE, "none": ONE, "norm": TWO, "head": TWO})
    (made / "config.json").write_text('{"model_type": "gpt2"}')
    (made / "tokenizer.model").write_bytes(b"\0\1")
    (made / "pytorch_model.bin").write_bytes(b"other")
    (made / ".gitattributes").write_text("*")
    (made / "onnx").mkdir()
    return made


def write_index(folder, weight_map, name=INDEX):
    (folder / name).write_text(json.dumps({"metadata": {"total_size": 1}, "weight_map": weight_map}))


def loaded(folder):
    """The tensors of an exported folder, as its index says, each file holding what the index gives to it."""
    files = sorted(path.name for path in folder.glob("*.safetensors"))
    index = folder / INDEX
    if not index.exists():
        assert files == ["model.safetensors"]
        return load_file(folder / files[0])
    document = json.loads(index.read_text())
    state = {}
    for name in files:
        held = load_file(folder / name)
        assert {tensor for tensor, file in document["weight_map"].items() if file == name} == set(held)
        state |= held
    assert set(document["weight_map"].values()) == set(files)
    assert document["metadata"]["total_size"] == sum(tensor.nbytes for tensor in state.values())
    return state


def test_a_sharded_model_comes_in_by_its_index_and_goes_out_with_its_small_files(place, folder, tmp_path):
    saved = place.run.import_from(folder, step=3)
    assert (saved.name, saved.step, saved.state) == ("step-3", 3, "good")
    state = {}
    place.run.load(state)
    assert all_bits({name: state[name] for name in WEIGHTS}) == all_bits(WEIGHTS)
    report = place.run.export(tmp_path / "out", step=3)
    assert all_bits(loaded(tmp_path / "out")) == all_bits(WEIGHTS)
    assert report.left_out == ()
    assert names_in(tmp_path / "out") == ["config.json", "model.safetensors", "tokenizer.model"]
    assert (tmp_path / "out/tokenizer.model").read_bytes() == b"\0\1"


def test_what_is_not_taken_of_a_folder_is_named(folder):
    from ckptstore.formats.importing import plan_import

    kind, made = plan_import(folder)
    assert kind == "hf"
    assert made.left_out == (".gitattributes", "onnx", "pytorch_model.bin")


@pytest.mark.parametrize("name", ["model.safetensors", "diffusion_pytorch_model.safetensors"])
def test_a_folder_with_one_file_needs_no_index(place, tmp_path, name):
    (tmp_path / "in").mkdir()
    save_file(WEIGHTS, tmp_path / "in" / name)
    place.run.import_from(tmp_path / "in", step=1)
    place.run.export(tmp_path / "out")
    assert all_bits(loaded(tmp_path / "out")) == all_bits(WEIGHTS)


def test_a_snapshot_in_the_cache_of_the_hub_is_links_into_its_blobs(place, folder, tmp_path):
    cache = tmp_path / "models--a--b"
    snapshot = cache / "snapshots/0123"
    snapshot.mkdir(parents=True)
    folder.rename(cache / "blobs")
    for name in (ONE, TWO, INDEX, "config.json"):
        (snapshot / name).symlink_to(f"../../blobs/{name}")
    place.run.import_from(snapshot, step=1)
    state = {}
    place.run.load(state)
    assert all_bits({name: state[name] for name in WEIGHTS}) == all_bits(WEIGHTS)


# -- bad input: a typed error, and nothing is written ----------------------------------------


def a_truncated_file(folder):
    data = (folder / TWO).read_bytes()
    (folder / TWO).write_bytes(data[:-1])


def a_missing_file(folder):
    (folder / ONE).unlink()


def a_tensor_in_another_file(folder):
    write_index(folder, {"embed": TWO, "none": ONE, "norm": TWO, "head": TWO})


def a_tensor_in_two_files(folder):
    save_file({name: WEIGHTS[name] for name in ("norm", "head", "embed")}, folder / TWO)


def a_tensor_that_is_not_named(folder):
    write_index(folder, {"embed": ONE, "none": ONE, "norm": TWO})


def a_tensor_that_is_not_there(folder):
    write_index(folder, {"embed": ONE, "none": ONE, "norm": TWO, "head": TWO, "more": TWO})


def a_path_out_of_the_folder(folder):
    save_file({"x": torch.ones(1)}, folder.parent / "x.safetensors")
    write_index(folder, {"x": "../x.safetensors"})


def an_absolute_path(folder):
    save_file({"x": torch.ones(1)}, folder.parent / "x.safetensors")
    write_index(folder, {"x": str(folder.parent / "x.safetensors")})


def a_link_out_of_the_folder(folder):
    (folder / ONE).rename(folder.parent / ONE)
    (folder / ONE).symlink_to(folder.parent / ONE)


def a_small_file_that_is_a_link_out_of_the_folder(folder):
    (folder.parent / "secret").write_text("x")
    (folder / "notes.txt").symlink_to(folder.parent / "secret")


def a_name_twice_in_the_index(folder):
    (folder / INDEX).write_text(f'{{"weight_map": {{"embed": "{ONE}", "embed": "{TWO}"}}}}')


def an_index_that_is_no_json(folder):
    (folder / INDEX).write_text("{")


def an_index_nested_without_end(folder):
    (folder / INDEX).write_text("[" * 100_000)


def an_index_of_nothing(folder):
    write_index(folder, {})


def an_index_of_numbers(folder):
    write_index(folder, {"embed": 1})


def an_index_of_other_files(folder):
    write_index(folder, {"embed": "pytorch_model.bin"})


def a_dtype_that_nobody_knows(folder):
    data = (folder / TWO).read_bytes()
    (folder / TWO).write_bytes(data.replace(b'"BF16"', b'"BF17"'))


def offsets_that_overlap(folder):
    data = (folder / TWO).read_bytes()
    assert b"[6,18]" in data
    (folder / TWO).write_bytes(data.replace(b"[6,18]", b"[3,15]"))


BAD = [
    a_truncated_file,
    a_missing_file,
    a_tensor_in_another_file,
    a_tensor_in_two_files,
    a_tensor_that_is_not_named,
    a_tensor_that_is_not_there,
    a_path_out_of_the_folder,
    an_absolute_path,
    a_link_out_of_the_folder,
    a_small_file_that_is_a_link_out_of_the_folder,
    a_name_twice_in_the_index,
    an_index_that_is_no_json,
    an_index_nested_without_end,
    an_index_of_nothing,
    an_index_of_numbers,
    an_index_of_other_files,
    a_dtype_that_nobody_knows,
    offsets_that_overlap,
]


@pytest.mark.parametrize("spoil", BAD)
def test_o62_a_folder_that_is_not_as_its_index_says_is_refused_and_nothing_written(untouched, folder, spoil):
    spoil(folder)
    before = untouched.store.digest()
    with pytest.raises((UnsupportedValue, KeyCollision)) as caught:
        untouched.run.import_from(folder, step=1)
    assert caught.value.fields["key"] or "safetensors" in caught.value.message
    assert caught.value.hint
    assert untouched.store.digest() == before


def test_a_folder_that_says_nothing_of_what_is_meant_is_a_usage_error(place, tmp_path):
    for count in range(3):
        with pytest.raises(UsageError):
            place.run.import_from(tmp_path / "in", step=1)
        (tmp_path / "in").mkdir(exist_ok=True)
        if count:
            save_file(WEIGHTS, tmp_path / f"in/{count}.safetensors")
            save_file(WEIGHTS, tmp_path / f"in/{count + 10}.safetensors")
    with pytest.raises(UsageError, match="step or a name"):
        place.run.import_from(tmp_path / "in")


# -- export ----------------------------------------


def test_shards_are_as_large_as_asked_and_a_larger_tensor_has_its_own(place, tmp_path):
    state = {f"t{at:02}": torch.full((25,), float(at)) for at in range(10)} | {"large": torch.zeros(100)}
    place.run.save({"model": state}, step=1)
    place.run.export(tmp_path / "out", prefix="model.", max_shard_size="250B")
    assert all_bits(loaded(tmp_path / "out")) == all_bits(state)
    sizes = {path.name: sum(t.nbytes for t in load_file(path).values()) for path in tmp_path.glob("out/*.safetensors")}
    assert sorted(sizes.values()) == [200] * 5 + [400]
    assert sorted(sizes) == [f"model-{at:05}-of-00006.safetensors" for at in range(1, 7)]
    with safe_open(tmp_path / "out/model-00001-of-00006.safetensors", "pt") as opened:
        assert opened.metadata() == {"format": "pt"}


def test_tied_weights_stand_under_each_name_and_objects_are_named(place, tmp_path):
    tied = torch.arange(5.0)
    place.run.save({"a": tied, "b": tied, "epoch": 3}, step=1)
    report = place.run.export(tmp_path / "out")
    assert all_bits(loaded(tmp_path / "out")) == all_bits({"a": tied, "b": tied})
    assert report.left_out == ("epoch",)


def test_o36_dtypes_that_safetensors_lacks_are_named_before_anything_is_written(place, tmp_path):
    lacking = [name for name in dtypes_of_torch() if DTYPES[name].stream is None]
    place.run.save({name: random_tensor(name, (4,)) for name in ("float32", *lacking)}, step=1)
    with pytest.raises(UnsupportedValue) as caught:
        place.run.export(tmp_path / "out")
    assert caught.value.fields["dtypes"] == {name: name for name in lacking}
    assert "'complex128' (complex128)" in caught.value.message
    assert not (tmp_path / "out").exists()
    place.run.export(tmp_path / "out", include=["float32"])
    assert [*loaded(tmp_path / "out")] == ["float32"]


def test_what_is_there_is_replaced_only_when_told_and_never_in_part(place, tmp_path):
    place.run.save({"w": torch.zeros(100), "v": torch.zeros(100)}, step=1)
    out = tmp_path / "out"
    place.run.export(out, max_shard_size=400)
    with pytest.raises(UsageError, match="already"):
        place.run.export(out, max_shard_size=400)
    place.run.save({"w": torch.ones(100), "v": torch.ones(100)}, step=2)
    place.run.export(out, max_shard_size=400, force=True)
    assert all_bits(loaded(out)) == all_bits({"w": torch.ones(100), "v": torch.ones(100)})
    with pytest.raises(UsageError, match="taken for a part of this model"):
        place.run.export(out, force=True)
    assert names_in(out) == [ONE, TWO, INDEX]


@pytest.mark.parametrize("again", [False, True])
def test_an_export_that_was_interrupted_is_never_taken_for_a_whole_one(place, tmp_path, monkeypatch, again):
    """Killed between the renames: shards may be there, the index that would name them is not."""
    place.run.save({"w": torch.zeros(100), "v": torch.zeros(100)}, step=1)
    out = tmp_path / "out"
    out.mkdir()
    if again:
        place.run.export(out, max_shard_size=400)
    moved = []
    real = os.rename

    def replace(source, target):
        if len(moved) == 1:
            raise KeyboardInterrupt
        moved.append(target)
        real(source, target)

    monkeypatch.setattr("pathlib.Path.replace", replace)
    with pytest.raises(KeyboardInterrupt):
        place.run.export(out, max_shard_size=400, force=True)
    assert not (out / INDEX).exists()
    assert [path for path in out.iterdir() if path.name.startswith(".")] == []


def test_data_that_is_lost_leaves_no_file_behind(place, tmp_path):
    place.run.save({"w": torch.zeros(1000)}, step=1)
    manifest = place.store.latest()
    for number in range(3):
        place.store.flip(place.store.fragment(manifest, number))
    with pytest.raises(DataLost):
        place.run.export(tmp_path / "out")
    assert names_in(tmp_path) == ["targets"]


def test_options_that_can_not_be_are_refused_in_words(place, tmp_path):
    place.run.save({"w": torch.zeros(1)}, step=1)
    for options in ({"max_shard_size": 0}, {"max_shard_size": "big"}, {"format": "onnx"}):
        with pytest.raises(UsageError):
            place.run.export(tmp_path / "out", **options)
    with pytest.raises(UsageError, match="folder"):
        place.run.export(tmp_path / "out.safetensors")
    for options in ({"prefix": "model."}, {"include": ["x*"]}):
        with pytest.raises(NotFoundError):
            place.run.export(tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()


def test_transformers_opens_what_is_exported_and_its_own_folders_come_in(place, tmp_path):
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(n_layer=2, n_head=2, n_embd=8, vocab_size=20, n_positions=16)
    model = transformers.GPT2LMHeadModel(config)
    model.save_pretrained(tmp_path / "in", max_shard_size="4kB")
    assert (tmp_path / "in" / INDEX).exists()
    place.run.import_from(tmp_path / "in", step=1)
    place.run.export(tmp_path / "out", max_shard_size="6kB")
    assert (tmp_path / "out" / INDEX).exists()
    again = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "out")
    assert all_bits(again.state_dict()) == all_bits(model.state_dict())
