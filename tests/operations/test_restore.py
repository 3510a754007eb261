"""Checkpoints into files: put together from any chunks, verified before they get their names, inside their folder."""

import itertools
import json
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

import ckptstore.operations.restore as module
from ckptstore.commit import About, Commit, shard_saver
from ckptstore.errors import CorruptError, DataLost, KeyCollision, NotFoundError, UsageError
from ckptstore.operations.folder import FILES, WHOLE, StoredFile, files_from_bytes, files_to_bytes
from ckptstore.operations.ingest import ingest, plan
from ckptstore.operations.restore import plan_restore, restore
from ckptstore.save.stream import Piece, lay_out
from manifests import TableBuilder, encode
from tests.support import RUN, flat_bytes, make_store, replace_index

ABOUT = About("step-1", "step-1", 1)


@pytest.fixture
def store(tmp_path):
    return make_store(tmp_path / "targets")


def save_pieces(store, pieces):
    """Save pieces as one shard each; pieces of one name are chunks of one tensor."""
    places, _ = store.opened.writable()
    commit = Commit(store.opened, RUN, places)
    commit.begin()
    saved = [
        shard_saver(store.opened, RUN, places).save(lay_out([piece]), _bytes, rank) for rank, piece in enumerate(pieces)
    ]
    table = TableBuilder()
    for fqn, group in itertools.groupby(enumerate(pieces), key=lambda item: item[1].fqn):
        each = list(group)
        first = each[0][1]
        shape = () if first.is_object else first.global_shape
        chunks = [(() if p.is_object else p.range, () if p.is_object else p.shape, rank) for rank, p in each]
        table.add(fqn, first.dtype, shape, chunks)
    return commit.finish(saved, table.build(), ABOUT)


def _bytes(piece):
    return np.frombuffer(piece.key, np.uint8) if piece.is_object else flat_bytes(piece)


def object_piece(fqn, data):
    return Piece(data, fqn, "object", [len(data)], len(data))


def chunks_of(fqn, array, cuts, dtype=None):
    """An array cut at the given positions of each dimension."""
    edges = [sorted({0, size, *cut}) for size, cut in zip(array.shape, cuts, strict=True)]
    boxes = itertools.product(*[list(itertools.pairwise(edge)) for edge in edges])
    return [
        Piece(
            part := np.array(array[tuple(slice(*side) for side in box)], order="C"),
            fqn,
            dtype or str(array.dtype),
            part.shape,
            part.nbytes,
            array.shape,
            tuple(start for start, _ in box),
        )
        for box in boxes
    ]


def write(store, path, *include, force=False):
    source = store.source()
    made = plan_restore(source, path, include, force=force)
    restore(source, made)
    return made


def contents(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# -- tensors ----------------------------------------


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_chunks_give_the_whole_tensor(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("any")
    shape = data.draw(st.lists(st.integers(1, 7), min_size=0, max_size=4))
    dtype = data.draw(st.sampled_from(["uint8", "float16", "float32", "int64"]))
    array = np.random.default_rng(0).integers(0, 200, shape).astype(dtype)
    cuts = [data.draw(st.lists(st.integers(1, size - 1), max_size=2)) if size > 1 else [] for size in shape]
    store = make_store(folder, memory=True)
    save_pieces(store, chunks_of("x", array, cuts))
    write(store, folder / "out.safetensors")
    found = load_file(folder / "out.safetensors")["x"]
    assert found.dtype == array.dtype
    assert np.array_equal(found, array)


def test_parts_larger_than_the_batch_are_cut(store, tmp_path, monkeypatch):
    """Rows, columns and middles of 1.2 MB, in batches of 10,000 bytes."""
    array = np.arange(300_000, dtype="f4").reshape(50, 30, 200)
    save_pieces(store, chunks_of("x", array, [[20], [], [77]]) + chunks_of("y", array, [[25], [], []]))
    real = module.fill
    monkeypatch.setattr(module, "fill", lambda *given: real(*given[:3], 10_000, given[4]))
    write(store, tmp_path / "out.safetensors")
    found = load_file(tmp_path / "out.safetensors")
    assert np.array_equal(found["x"], array)
    assert np.array_equal(found["y"], array)


def test_a_safetensors_file_comes_back_byte_for_byte(store, tmp_path):
    tensors = {"b": np.ones((2, 3), "f4"), "a": np.zeros((0, 4), "f8"), "c": np.array(7, "i8"), "ü 1": np.ones(3, "u1")}
    save_file(tensors, tmp_path / "in.safetensors", metadata={"format": "pt", "license": "none"})
    ingest(store.opened, RUN, plan(tmp_path / "in.safetensors"), ABOUT)
    write(store, tmp_path / "out.safetensors")
    assert {name: a.tobytes() for name, a in load_file(tmp_path / "out.safetensors").items()} == {
        name: a.tobytes() for name, a in tensors.items()
    }
    with safe_open(tmp_path / "out.safetensors", "np") as opened:
        assert opened.metadata() == {"format": "pt", "license": "none"}


def test_a_folder_comes_back_as_it_was(store, tmp_path):
    source = tmp_path / "in"
    (source / "a/b").mkdir(parents=True)
    save_file({"x": np.ones(3)}, source / "a/model.safetensors", metadata={"format": "pt"})
    save_file({"y": np.ones(2)}, source / "model.safetensors")
    (source / "a/b/empty").touch()
    (source / "config.json").write_text("{}")
    ingest(store.opened, RUN, plan(source), ABOUT)
    write(store, tmp_path / "out")
    assert contents(tmp_path / "out") == contents(source)
    made = write(store, tmp_path / "all.safetensors")
    assert set(load_file(tmp_path / "all.safetensors")) == {"x", "y"}
    assert set(made.left_out) == {"config.json", "a/b/empty"}


def test_a_dtype_that_the_format_lacks_keeps_its_bits(store, tmp_path):
    array = np.array([1 + 2j, 3 - 1j], "c16")
    save_pieces(store, chunks_of("z", array, [[]]))
    write(store, tmp_path / "out.safetensors")
    with safe_open(tmp_path / "out.safetensors", "np") as opened:
        assert json.loads(opened.metadata()["ckptstore.dtypes"]) == {"z": "complex128"}
        assert opened.get_tensor("z").tobytes() == array.tobytes()
        assert opened.get_tensor("z").shape == (2, 16)


def test_objects_stand_in_a_json_file_beside(store, tmp_path):
    save_pieces(store, [object_piece("step", b'{"object":1,"value":7}'), *chunks_of("x", np.ones(2), [[]])])
    write(store, tmp_path / "out.safetensors")
    assert json.loads((tmp_path / "out.objects.json").read_text()) == {"step": {"object": 1, "value": 7}}
    assert set(load_file(tmp_path / "out.safetensors")) == {"x"}
    write(store, tmp_path / "out")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["objects.json", "tensors.safetensors"]


def test_only_what_is_included_is_written(store, tmp_path):
    save_pieces(store, [p for name in ("a.w", "a.b", "c.w") for p in chunks_of(name, np.ones(100_000), [[]])])
    write(store, tmp_path / "out.safetensors", "*.w", "nosuch*")
    assert set(load_file(tmp_path / "out.safetensors")) == {"a.w", "c.w"}
    with pytest.raises(NotFoundError):
        write(store, tmp_path / "none.safetensors", "nosuch*")


def test_a_tensor_that_no_safetensors_file_can_hold(store, tmp_path):
    save_pieces(store, [object_piece("o", b"1")])
    source = store.source()
    with pytest.raises(KeyCollision):
        module.lay_out_file([("__metadata__", "uint8", [1])], {})
    assert plan_restore(source, tmp_path / "x").files[0].objects == ("o",)


# -- names and places ----------------------------------------


def test_what_is_there_is_kept_unless_forced(store, tmp_path):
    save_pieces(store, chunks_of("x", np.ones(3), [[]]))
    path = tmp_path / "out.safetensors"
    path.write_text("mine")
    with pytest.raises(UsageError, match="already"):
        write(store, path)
    assert path.read_text() == "mine"
    assert write(store, path, force=True).replaced == ("out.safetensors",)
    assert set(load_file(path)) == {"x"}
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "mine.txt").write_text("mine")
    with pytest.raises(UsageError, match="already"):
        write(store, folder)
    write(store, folder, force=True)
    assert sorted(p.name for p in folder.iterdir()) == ["mine.txt", "tensors.safetensors"]


def test_the_wrong_kind_of_place_is_refused(store, tmp_path):
    save_pieces(store, chunks_of("x", np.ones(3), [[]]))
    (tmp_path / "folder.safetensors").mkdir()
    (tmp_path / "file").touch()
    for place in ("folder.safetensors", "file"):
        with pytest.raises(UsageError):
            write(store, tmp_path / place, force=True)


def test_nothing_gets_its_name_when_data_is_lost(store, tmp_path):
    manifest = save_pieces(store, [*chunks_of("x", np.ones(500_000), [[]]), *chunks_of("y", np.ones(3), [[]])])
    for number in range(3):
        store.remove(store.fragment(manifest, number))
    (tmp_path / "there").mkdir()
    for place in ("out.safetensors", "out", "there"):
        with pytest.raises(DataLost):
            write(store, tmp_path / place)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["targets", "there"]
    assert not list((tmp_path / "there").iterdir())


EVIL = ["../x", "/etc/x", "a/../../x", "a//x", "", ".", "..", "a/", "x\0y", "\ud800", "a" * 300, "./x"]


@pytest.mark.parametrize("name", EVIL, ids=ascii)
def test_o62_names_that_lead_elsewhere_are_refused(store, tmp_path, name):
    """A whole file, and a safetensors file, under such a name."""
    for stored in (StoredFile(name, {}, None), StoredFile(name, {}, ("x",))):
        data = files_to_bytes([stored])
        pieces = [object_piece(FILES, data), *chunks_of("x", np.ones(3), [[]])]
        if stored.tensors is None and "\ud800" not in name:
            pieces += chunks_of(WHOLE + name, np.ones(3, "u1"), [[]])
        save_pieces(store, pieces)
        with pytest.raises(CorruptError, match=r"nothing was written|malformed"):
            write(store, tmp_path / "out")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["targets"]


def test_o62_a_tensor_s_name_is_no_path(store, tmp_path):
    names = ["../../etc/x", "/etc/x", "a/../../b", "..", "nul\0"]
    pieces = [piece for name in names for piece in chunks_of(name, np.ones(3), [[]])]
    save_pieces(store, [*pieces, object_piece("../o", b'{"object": 1, "value": 7}')])
    write(store, tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "targets"]
    assert sorted(contents(tmp_path / "out")) == [Path("objects.json"), Path("tensors.safetensors")]
    assert set(load_file(tmp_path / "out/tensors.safetensors")) == set(names)


@pytest.mark.parametrize(
    "value",
    [7, None, [7], [["a"]], [["a", 1, 2]], [["a", [["k"]], []]], [["a", [], [7]]], [[7, None, None]], {"a": 1}],
    ids=repr,
)
def test_o62_a_malformed_list_of_files_is_refused(value):
    with pytest.raises(CorruptError):
        files_from_bytes(json.dumps({"object": 1, "value": value}).encode())


@pytest.mark.parametrize("names", [("a", "a"), ("a", "a/b"), ("a/b/c", "a/b")])
def test_o62_two_files_in_one_place_are_refused(names):
    with pytest.raises(CorruptError):
        files_from_bytes(files_to_bytes([StoredFile(name, {}, None) for name in names]))


def test_o62_links_that_lead_out_are_not_followed(store, tmp_path):
    source = tmp_path / "in"
    (source / "sub").mkdir(parents=True)
    (source / "sub/x.txt").write_text("theirs")
    ingest(store.opened, RUN, plan(source), ABOUT)
    outside = tmp_path / "outside"
    outside.mkdir()
    place = tmp_path / "out"
    place.mkdir()
    (place / "sub").symlink_to(outside)
    with pytest.raises(UsageError, match="leads out"):
        write(store, place, force=True)
    assert not list(outside.iterdir())
    assert [path.name for path in place.iterdir()] == ["sub"]


def test_o62_an_index_that_contradicts_the_record_is_refused(store, tmp_path):
    """Another shape of the same size, another dtype, a tensor called an object: no byte lands in the wrong place."""
    manifest = save_pieces(store, chunks_of("x", np.arange(6, dtype="f4").reshape(2, 3), [[], []]))
    index = store.index(manifest)
    for dtype, shape in (("float32", (3, 2)), ("int32", (2, 3)), ("float64", (2, 3)), ("object", ())):
        table = TableBuilder()
        table.add("x", dtype, shape, [((0,) * len(shape), shape, 0)])
        replace_index(store, store.latest(), encode(msgspec.structs.replace(index, tensors=table.build())))
        with pytest.raises(CorruptError):
            write(store, tmp_path / "out.safetensors")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["targets"]


def test_o62_a_huge_object_is_not_read(tmp_path):
    store = make_store(tmp_path / "t", window="1MiB")
    save_pieces(store, [object_piece("o", b"1" * (2 << 20))])
    with pytest.raises(CorruptError, match="at most"):
        write(store, tmp_path / "out")


def test_o62_a_tensor_in_the_place_of_the_list_of_files_is_refused(store, tmp_path):
    save_pieces(store, [*chunks_of(FILES, np.ones(3), [[]]), *chunks_of("x", np.ones(3), [[]])])
    with pytest.raises(CorruptError, match="stored as a tensor") as caught:
        write(store, tmp_path / "out")
    assert caught.value.key == FILES


def test_o62_an_object_that_is_a_pickle_stays_bytes(store, tmp_path):
    """Restoring runs nothing: what isn't JSON is refused."""
    save_pieces(store, [object_piece("o", b"\x80\x04cos\nsystem\n(S'touch /tmp/run'\ntR.")])
    with pytest.raises(CorruptError, match="not JSON"):
        write(store, tmp_path / "out")
