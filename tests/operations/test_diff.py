"""What two checkpoints have otherwise, and boxes of tensors whatever chunks they were saved in."""

import numpy as np
import pytest

from ckptstore.commit import About, Commit, shard_saver
from ckptstore.errors import DataLost, UsageError
from ckptstore.events import Progress
from ckptstore.operations.copying import copy
from ckptstore.operations.diff import diff
from ckptstore.operations.slices import boxes_in, parse_slice, read_boxes, whole_box
from ckptstore.save.stream import Piece, lay_out
from ckptstore.selection import Selector
from ckptstore.source import Source
from manifests import TableBuilder
from tests.support import RUN, Listener, flat_bytes, make_store, random_bytes


@pytest.fixture
def store(tmp_path):
    return make_store(tmp_path / "one", window="4MiB")


def state():
    return {
        "w": random_bytes(600_000).view(np.float32).reshape(300, 500),
        "b": np.zeros(7, np.float16),
        "n": np.array(3, np.int64),
        "empty": np.zeros((0, 4), np.float64),
    }


def save_chunked(store, array, cuts, step):
    """One tensor cut into boxes, a shard each."""
    places = store.opened.ready_to_save()
    commit = Commit(store.opened, RUN, places)
    commit.begin()
    saver = shard_saver(store.opened, RUN, places)
    saved, chunks = [], []
    for number, (offsets, sizes) in enumerate(cuts):
        part = array[tuple(slice(o, o + s) for o, s in zip(offsets, sizes, strict=True))]
        piece = Piece(part, "w", str(array.dtype), sizes, part.nbytes, array.shape, offsets)
        saved.append(saver.save(lay_out([piece]), flat_bytes, number))
        chunks.append((offsets, sizes, number))
    table = TableBuilder()
    table.add("w", str(array.dtype), array.shape, chunks)
    return commit.finish(saved, table.build(), About(f"step-{step}", f"step-{step}", step, len(cuts)))


QUARTERS = [((0, 0), (120, 33)), ((0, 33), (120, 17)), ((120, 0), (80, 33)), ((120, 33), (80, 17))]
ROWS = [((i, 0), (50, 50)) for i in range(0, 200, 50)]
COLUMNS = [((0, i), (200, 10)) for i in range(0, 50, 10)]


def source(store, step):
    return store.source(Selector(step=step))


def test_equal_saves_are_equal(store):
    for step in (1, 2):
        store.save(state(), step=step, ranks=step)
    report = diff(source(store, 1), source(store, 2))
    assert (report.differences, report.same) == ([], 4)
    assert report.compared == sum(array.nbytes for array in state().values())


def test_each_kind_of_difference(store):
    store.save(state(), step=1)
    changed = state()
    changed["w"] = changed["w"].copy()
    changed["w"].view(np.uint32)[[3, 299], [4, 499]] ^= 1
    changed["b"] = np.zeros(8, np.float16)
    changed["n"] = np.array(3, np.int32)
    changed["new"] = np.zeros((2, 2), np.int8)
    del changed["empty"]
    store.save(changed, step=2)
    report = diff(source(store, 1), source(store, 2))
    assert [(d.fqn, d.what, d.before, d.after, d.elements) for d in report.differences] == [
        ("b", "shape", "float16 [7]", "float16 [8]", None),
        ("empty", "gone", "float64 [0, 4]", "", None),
        ("n", "dtype", "int64 []", "int32 []", None),
        ("new", "added", "", "int8 [2, 2]", None),
        ("w", "bytes", "float32 [300, 500]", "float32 [300, 500]", 2),
    ]
    assert report.same == 0
    by_structure = diff(source(store, 1), source(store, 2), structure=True)
    assert [d.fqn for d in by_structure.differences] == ["b", "empty", "n", "new"]
    assert (by_structure.same, by_structure.compared) == (1, 0)


def test_structure_reads_no_data(store):
    for step in (1, 2):
        store.save(state(), step=step)
    one, other = source(store, 1), source(store, 2)
    for meter in store.meters.values():
        meter.reset()
    assert diff(one, other, structure=True).same == 4
    assert not [path for meter in store.meters.values() for _, path in meter.paths]


@pytest.mark.parametrize("other", [ROWS, COLUMNS, QUARTERS])
def test_how_it_was_cut_makes_no_difference_and_what_differs_is_found(store, other):
    array = random_bytes(200 * 50 * 4).view(np.int32).reshape(200, 50)
    save_chunked(store, array, QUARTERS, 1)
    save_chunked(store, array, other, 2)
    assert diff(source(store, 1), source(store, 2)).differences == []
    changed = array.copy()
    changed[130, 40] += 1
    save_chunked(store, changed, other, 3)
    (found,) = diff(source(store, 1), source(store, 3)).differences
    assert (found.what, found.elements) == ("bytes", 1)


def test_against_its_copy_in_another_store(store, tmp_path):
    other = make_store(tmp_path / "two", "uvw", code="2+1", fragment_size="20KiB")
    store.save(state(), step=1, ranks=2)
    copy(store.opened, RUN, Selector(), other.opened, "kept")
    made = other.opened.group.history("kept").latest.manifest
    assert diff(source(store, 1), Source.open(other.opened, made)).differences == []


def test_what_can_t_be_read_is_not_equal(store):
    first = store.save(state(), step=1)
    store.save(state(), step=2)
    for fragment in store.fragments(first):
        if fragment.number < 3:
            store.remove(fragment)
    with pytest.raises(DataLost):
        diff(source(store, 1), source(store, 2))


def test_progress_and_memory_are_bounded(tmp_path):
    small = make_store(tmp_path / "small", fragment_size="8KiB", window="128KiB")
    for step in (1, 2):
        small.save(state(), step=step)
    listener = Listener()
    assert diff(source(small, 1), source(small, 2), observer=listener).differences == []
    told = [event for event in listener.of(Progress) if event.work == "diff"]
    total = sum(array.nbytes for array in state().values())
    assert sum(event.done for event in told) == total
    assert max(event.done for event in told) <= 32 * 1024


SLICES = {
    "": np.s_[:],
    "0:10,:": np.s_[0:10, :],
    "119:121,32:34": np.s_[119:121, 32:34],
    "-3:": np.s_[-3:],
    ":,5": np.s_[:, 5:6],
    "-1,-1": np.s_[199:200, 49:50],
    "10:5": np.s_[10:5],
    "150:900, 2:": np.s_[150:900, 2:],
}


@pytest.mark.parametrize("cuts", [ROWS, COLUMNS, QUARTERS])
def test_slices_are_numpy_s_whatever_the_chunks(store, cuts):
    array = random_bytes(200 * 50 * 2).view(np.int16).reshape(200, 50)
    save_chunked(store, array, cuts, 1)
    opened = source(store, 1)
    for text, part in SLICES.items():
        box = parse_slice(text, whole_box(opened, "w"))
        assert box.sizes == array[part].shape
        assert read_boxes(opened, [box])[0].tobytes() == array[part].tobytes()
        pieces = [read_boxes(opened, [each])[0].tobytes() for each in boxes_in(box, 1000)]
        assert b"".join(pieces) == array[part].tobytes()


def test_several_boxes_are_read_at_once(store):
    array = random_bytes(200 * 50 * 2).view(np.int16).reshape(200, 50)
    save_chunked(store, array, QUARTERS, 1)
    opened = source(store, 1)
    boxes = [parse_slice(text, whole_box(opened, "w")) for text in SLICES]
    found = read_boxes(opened, boxes)
    assert [data.tobytes() for data in found] == [array[part].tobytes() for part in SLICES.values()]


def test_slices_that_are_none(store):
    save_chunked(store, np.zeros((200, 50), np.int16), ROWS, 1)
    whole = whole_box(source(store, 1), "w")
    wrong = {
        "0:1,0:1,0:1": "2 dimensions",
        "a": "no number",
        "200": "positions",
        "0:4:2": "no number",
        ",1": "positions",
    }
    for text, why in wrong.items():
        with pytest.raises(UsageError, match=why):
            parse_slice(text, whole)


def test_a_slice_reads_only_the_blocks_it_needs(tmp_path):
    big = make_store(tmp_path / "big", "abc", code="2+1", fragment_size="4MiB")
    array = random_bytes(8 << 20).reshape(8192, 1024)
    big.save({"w": array}, step=1)
    opened = source(big, 1)
    opened.shard(0)
    for meter in big.meters.values():
        meter.reset()
    box = parse_slice("4000:4004,:", whole_box(opened, "w"))
    assert read_boxes(opened, [box])[0].tobytes() == array[4000:4004].tobytes()
    assert 0 < sum(meter.bytes_read for meter in big.meters.values()) <= 2 << 20
