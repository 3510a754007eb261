"""From slices to blocks: exactly the bytes of the slice, and no more blocks than hold them."""

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import erasure
from ckptstore.load.plan import Request, Runs, Shard, box_runs, plan_wants
from manifests import CodeSpec, Digest, ShardRecord, Stripe
from tests.support import LocalStore, make_store

BLOCK = 16


@st.composite
def boxes(draw):
    shape = draw(st.lists(st.integers(0, 6), max_size=4))
    offsets = [draw(st.integers(0, size)) for size in shape]
    lengths = [draw(st.integers(0, size - at)) for size, at in zip(shape, offsets, strict=True)]
    return tuple(shape), tuple(offsets), tuple(lengths)


@settings(max_examples=400)
@given(boxes(), st.sampled_from(["uint8", "int16", "float64"]))
def test_the_runs_of_a_box_are_the_bytes_of_the_slice(box, dtype):
    shape, offsets, lengths = box
    array = np.arange(int(np.prod(shape)), dtype=dtype).reshape(shape)
    raw = array.tobytes()
    runs = box_runs(shape, array.itemsize, offsets, lengths)
    found = b"".join(raw[start : start + runs.nbytes] for start in runs.starts.tolist())
    window = tuple(slice(at, at + size) for at, size in zip(offsets, lengths, strict=True))
    assert found == array[window].tobytes()
    assert runs.total == len(found)
    assert (np.diff(runs.starts) >= runs.nbytes).all()


def test_what_is_whole_is_one_run():
    assert len(box_runs((8, 4, 4), 4, (0, 0, 0), (8, 4, 4)).starts) == 1
    assert len(box_runs((8, 4, 4), 4, (2, 0, 0), (3, 4, 4)).starts) == 1
    assert len(box_runs((8, 4, 4), 4, (2, 1, 0), (3, 2, 4)).starts) == 3


def record(lengths: list[int], k: int = 3, m: int = 2, block: int = BLOCK) -> ShardRecord:
    stripes, at = [], 0
    for length in lengths:
        shape = erasure.StripeShape(k, m, length, block)
        homes = [i if shape.stored(i) else None for i in range(k + m)]
        stripes.append(Stripe(offset=at, length=length, stored_length=length, at=homes, crc=bytes(4 * shape.crc_count)))
        at += length
    return ShardRecord(
        shard_id="5a" * 16,
        rank=0,
        length=at,
        targets=list("abcde"),
        codes=[CodeSpec(k=k, m=m, matrix=erasure.Code(k, m).parity_matrix.tobytes())],
        digest=Digest(block=block),
        stripes=stripes,
        tensors=[],
    )


def request(shard: Shard, offset: int, starts: list[int], nbytes: int) -> Request:
    runs = Runs(np.array(starts, np.int64), nbytes)
    return Request(shard, offset, runs, np.empty(runs.total, np.uint8))


def blocks_of(shard: Shard, at: int) -> tuple[int, int, int]:
    """The stripe, fragment and block of one byte of a shard, one step after another."""
    for number, stripe in enumerate(shard.record.stripes):
        if stripe.offset <= at < stripe.offset + stripe.length:
            span = -(-stripe.length // shard.record.codes[0].k)
            inside = at - stripe.offset
            return number, inside // span, inside % span // BLOCK
    raise AssertionError(at)


@settings(max_examples=200)
@given(
    st.lists(st.integers(1, 150), min_size=1, max_size=4),
    st.lists(st.tuples(st.integers(0, 40), st.lists(st.integers(0, 300), max_size=5, unique=True), st.integers(0, 60))),
)
def test_the_blocks_wanted_are_those_that_hold_a_wanted_byte(lengths, asked):
    shard = Shard("demo", record(lengths))
    total = sum(lengths)
    requests, expected = [], set()
    for offset, starts, nbytes in asked:
        apart = []
        for start in sorted(starts):
            if offset + start + nbytes <= total and (not apart or start >= apart[-1] + nbytes):
                apart.append(start)
        requests.append(request(shard, offset, apart, nbytes))
        expected |= {blocks_of(shard, offset + start + i) for start in apart for i in range(nbytes)}
    wants = plan_wants(requests)
    found = [(want.number, *block) for want in wants for block in want.blocks]
    assert set(found) == expected
    assert len(found) == len(expected)
    assert len({want.number for want in wants}) == len(wants)


def test_shards_are_kept_apart():
    one, other = Shard("demo", record([40])), Shard("demo", record([40]))
    wants = plan_wants([request(one, 0, [0], 3), request(other, 0, [0], 3), request(one, 30, [0], 3)])
    assert [want.shard for want in wants] == [one, other]
    assert [len(want.requests) for want in wants] == [2, 1]


def test_a_narrow_slice_of_many_rows_is_planned_in_time():
    """A million runs over a hundred stripes: the work is that of the runs, not of runs times stripes."""
    rows, width, stripe = 1_000_000, 400, 4_000_000
    shard = Shard("demo", record([stripe] * (rows * width // stripe), block=1 << 20))
    starts = np.arange(rows, dtype=np.int64) * width
    begun = time.process_time()
    wants = plan_wants([Request(shard, 0, Runs(starts, 100), np.empty(0, np.uint8))])
    assert time.process_time() - begun < 2
    assert len(wants) == 100


# -- what is read of a real store ----------------------------------------


@pytest.fixture(scope="module")
def large(tmp_path_factory) -> tuple[LocalStore, np.ndarray]:
    """One tensor of 16 MiB in fragments of 4 MiB, as the defaults cut it."""
    store = make_store(tmp_path_factory.mktemp("large"), fragment_size="16MiB")
    array = np.random.default_rng(3).standard_normal((4096, 1024)).astype(np.float32)
    store.save({"w": array})
    return store, array


def read_slice(store: LocalStore, offsets: tuple[int, int], lengths: tuple[int, int]) -> np.ndarray:
    source = store.source()
    ((shard, entry),) = source.locate([("w", (0, 0))])
    runs = box_runs(entry.shape, 4, offsets, lengths)
    into = np.empty(runs.total, np.uint8)
    for meter in store.meters.values():
        meter.reset()
    source.read([Request(shard, entry.offset, runs, into)])
    return into.view(np.float32).reshape(lengths)


@pytest.mark.parametrize("row", [0, 255, 256, 1023, 1024, 2000, 4095])
def test_a_4_kib_slice_of_16_mib_reads_at_most_two_blocks(large, row):
    store, array = large
    found = read_slice(store, (row, 0), (1, 1024))
    assert (found == array[row : row + 1]).all()
    assert sum(meter.bytes_read for meter in store.meters.values()) <= 2 << 20
    assert sum(meter.requests["get_into"] for meter in store.meters.values()) <= 2


def test_o69_a_quarter_of_the_rows_reads_a_quarter_of_the_bytes(large):
    store, array = large
    assert (read_slice(store, (1024, 0), (1024, 1024)) == array[1024:2048]).all()
    assert sum(meter.bytes_read for meter in store.meters.values()) <= 6 << 20


def test_columns_come_out_right(large):
    store, array = large
    assert (read_slice(store, (5, 300), (4000, 17)) == array[5:4005, 300:317]).all()
