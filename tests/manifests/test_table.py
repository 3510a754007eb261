"""The tensor table: chunks come out as they went in, only tilings are valid, a million chunks are cheap."""

import time
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from multiprocessing import get_context
from pathlib import Path

import pytest
from format_documents import boxes, index, shard_reference
from hypothesis import given, settings
from hypothesis import strategies as st

import manifests
from manifests import format_errors as errors
from manifests.index_rules import check_table
from manifests.table import Run


def built(shape, parts, shards=None):
    builder = manifests.TableBuilder()
    builder.add("w", "float32", shape, [(*part, (shards or {}).get(i, i % 2)) for i, part in enumerate(parts)])
    return builder.build()


@given(boxes(max_dimensions=4), st.randoms(use_true_random=False))
@settings(deadline=None)
def test_chunks_that_went_in_come_out_sorted(tiling, rnd):
    shape, parts = tiling
    expected = sorted((*part, i) for i, part in enumerate(parts))
    rnd.shuffle(parts)
    entry = built(shape, [part for *part, _ in expected], dict(enumerate(shard for *_, shard in expected)))["w"]
    assert entry == ("w", "float32", tuple(shape), expected)


@given(boxes(max_dimensions=4), st.randoms(use_true_random=False))
@settings(deadline=None)
def test_the_table_does_not_depend_on_the_order_of_chunks(tiling, rnd):
    shape, parts = tiling
    chunks = [(*part, i) for i, part in enumerate(parts)]
    tables = []
    for _ in range(2):
        rnd.shuffle(chunks)
        builder = manifests.TableBuilder()
        builder.add("w", "float32", shape, chunks)
        tables.append(builder.build())
    assert tables[0] == tables[1]


@given(boxes())
@settings(deadline=None)
def test_tilings_are_valid(tiling):
    check_table(built(*tiling), 2)


@given(boxes(), st.data())
@settings(deadline=None)
def test_o62_only_tilings_are_valid(tiling, data):
    """Move, grow, shrink, drop or repeat one box: still valid exactly if each element is in one box."""
    shape, parts = tiling
    at = data.draw(st.integers(0, len(parts) - 1))
    change = data.draw(st.sampled_from(["drop", "repeat", "move", "size"]))
    start, sizes = parts.pop(at)
    if change == "repeat":
        parts += [(start, sizes)] * 2
    elif change in {"move", "size"} and shape:
        axis = data.draw(st.integers(0, len(shape) - 1))
        by = data.draw(st.integers(-3, 3))
        moved = [list(start), list(sizes)]
        moved[change == "size"][axis] = max(0, moved[change == "size"][axis] + by)
        parts.append((tuple(moved[0]), tuple(moved[1])))
    assert is_valid(shape, parts) == is_tiling(shape, parts)


def is_valid(shape, parts):
    try:
        check_table(built(shape, parts), 2)
    except (errors.OverlappingRange, errors.MissingRange, errors.NumberOutOfRange):
        return False
    return True


def is_tiling(shape, parts):
    """By counting elements."""
    held = [
        element
        for start, sizes in parts
        for element in product(*(range(at, at + size) for at, size in zip(start, sizes, strict=True)))
    ]
    return sorted(held) == list(product(*map(range, shape))) and bool(parts)


def test_two_boxes_that_overlap_where_others_leave_a_hole_of_the_same_size():
    with pytest.raises(errors.OverlappingRange):
        check_table(built([4, 4], [((0, 0), (4, 2)), ((0, 1), (4, 2))]), 2)


@pytest.mark.parametrize("shape", [[0], [0, 5], [3, 0, 2]])
def test_o21_empty_tensors_have_a_chunk_and_no_elements(shape):
    whole = built(shape, [((0,) * len(shape), tuple(shape))])
    check_table(whole, 1)
    assert len(whole["w"].chunks) == 1


def test_o21_empty_chunks_beside_full_ones():
    uneven = [((min(rank, 3), 0), (1 if rank < 3 else 0, 2)) for rank in range(5)]
    whole = built([3, 2], uneven)
    check_table(whole, 2)
    assert sorted(chunk[:2] for chunk in whole["w"].chunks) == sorted(uneven)


@given(boxes(max_dimensions=3), st.data())
@settings(deadline=None)
def test_chunks_are_found_by_their_offsets_as_if_all_were_listed(tiling, data):
    shape, parts = tiling
    table = built(shape, parts, dict(enumerate(range(len(parts)))))
    listed = {chunk.offsets: chunk for chunk in table["w"].chunks}
    strangers = data.draw(st.lists(st.tuples(*[st.integers(0, 9) for _ in shape]), max_size=5))
    wanted = {*data.draw(st.lists(st.sampled_from(sorted(listed)))), *strangers}
    assert table.find("w", wanted) == {start: listed[start] for start in wanted & listed.keys()}


@given(boxes(max_dimensions=3), st.data())
@settings(deadline=None)
def test_the_boxes_of_a_run_that_overlap_another_are_those_with_a_common_element(tiling, data):
    shape, parts = tiling
    begin = data.draw(st.tuples(*[st.integers(0, 9) for _ in shape]))
    sizes = data.draw(st.tuples(*[st.integers(0, 9) for _ in shape]))
    table = built(shape, parts)
    found = [start for run in table.runs_of(0) for start in run.starts(run.overlapping(begin, sizes))]
    wanted = elements(begin, sizes)
    assert sorted(found) == sorted(start for start, extent in parts if wanted & elements(start, extent))


def elements(begin, sizes):
    return set(product(*(range(at, at + size) for at, size in zip(begin, sizes, strict=True))))


@pytest.mark.parametrize("wanted", [{(3, 0)}, {(3, 0), (0, 0), (1, 0), (2, 0), (9, 9)}])
def test_empty_chunks_at_one_place_are_found_too(wanted):
    table = built([3, 2], [((min(rank, 3), 0), (1 if rank < 3 else 0, 2)) for rank in range(5)])
    assert table.find("w", wanted).keys() == wanted - {(9, 9)}


@given(boxes(max_dimensions=2), st.integers(1, 5))
def test_runs_give_their_boxes(tiling, length):
    shape, _ = tiling
    if not shape:
        return
    run = Run(length, 0, (7,) * len(shape), tuple(shape))
    assert list(run.starts()) == [(7 + i * shape[0], *[7] * (len(shape) - 1)) for i in range(length)]


def test_a_grid_takes_one_run_a_row():
    grid = [((i * 2, j * 3), (2, 3)) for i, j in product(range(4), range(5))]
    whole = built([8, 15], grid)
    assert whole.runs == [4]
    assert whole.chunks.count == [5] * 4
    assert whole.chunks.axis == [1] * 4


def test_a_name_comes_once():
    builder = manifests.TableBuilder()
    builder.add("w", "float32", [], [((), (), 0)])
    with pytest.raises(errors.DuplicateName):
        builder.add("w", "float32", [], [((), (), 1)])


def test_access_by_name():
    whole = built([2], [((0,), (2,))])
    assert "w" in whole
    assert "x" not in whole
    assert list(whole) == whole.fqns == ["w"]
    with pytest.raises(KeyError):
        whole["x"]


# -- O68: 1,024 tensors x 1,024 chunks ---------------------------------------------------------------------


def million(shard_of) -> manifests.Index:
    builder = manifests.TableBuilder()
    for tensor in range(1024):
        chunks = (((16 * i, 0), (16, 4096), shard_of(tensor, i)) for i in range(1024))
        builder.add(f"model.layers.{tensor}.weight", "bfloat16", (16 * 1024, 4096), chunks)
    return index(
        tensors=builder.build(),
        shards=[shard_reference(f"{i:032x}", i) for i in range(1024)],
        planner_data=[],
    )


def own_shards(_tensor: int, chunk: int) -> int:
    return chunk


def any_shards(tensor: int, chunk: int) -> int:
    return (chunk * 37 + tensor * tensor) % 1024


def there_and_back(shard_of, most_stored) -> tuple[float, int]:
    """CPU-seconds and the most memory that this process has held, in KiB."""
    start = time.process_time()
    whole = million(shard_of)
    stored, fields = manifests.pack(whole)
    again = manifests.unpack(
        manifests.Index, stored, manifests.Reference(path="runs/r/index/a", targets=["a"], **fields)
    )
    seconds = time.process_time() - start
    assert again == whole
    assert len(stored) < most_stored
    assert again.tensors["model.layers.1023.weight"].chunks[-1] == (
        (16 * 1023, 0),
        (16, 4096),
        shard_of(1023, 1023),
    )
    return seconds, most_memory()


def most_memory() -> int:
    """In KiB, of this process alone: `ru_maxrss` begins at what the process held that this one was forked from."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:"))


@pytest.mark.parametrize(
    ("shard_of", "most_stored"),
    [(own_shards, 100_000), (any_shards, 4_000_000)],
    ids=["one chunk a rank", "chunks anywhere"],
)
def test_o68_a_million_chunks_within_10_s_and_1_gib(shard_of, most_stored):
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:  # of its own: memory is counted from birth
        seconds, most = process.submit(there_and_back, shard_of, most_stored).result()
    assert seconds < 10
    assert most < 1 << 20
