"""Reading: bit-equal or refused, whatever is missing, damaged or out of reach."""

import shutil
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from ckptstore.errors import AccessDenied, CorruptError, DataLost, OutOfReach
from ckptstore.events import FragmentDamaged, Progress, TargetFailed
from ckptstore.load.plan import Request, box_runs, plan_wants
from ckptstore.load.reader import verified
from ckptstore.operations.repair import repair
from ckptstore.selection import Selector, key_of
from ckptstore.targets.fault import flip_bit, unavailable
from tests.support import (
    RUN,
    SENTINEL,
    Listener,
    LocalStore,
    StoredFragment,
    assert_equal,
    make_store,
    random_bytes,
    reopen,
    shape_of,
    whole,
)

ARRAYS = {
    "w": random_bytes(720_000).view(np.float32).reshape(300, 600),
    "b": random_bytes(77, 1),
    "scalar": random_bytes(8, 2).view(np.int64).reshape(()),
    "empty": np.empty((0, 5), np.float16),
}


@pytest.fixture
def store(tmp_path) -> LocalStore:
    return make_store(tmp_path, memory=True)


def damaged(listener: Listener) -> set[str]:
    return {event.path for event in listener.of(FragmentDamaged)}


# -- damage is an erasure ----------------------------------------


def missing(store: LocalStore, one: StoredFragment, other: StoredFragment) -> None:
    store.remove(one)
    store.remove(other)


def flipped(store: LocalStore, one: StoredFragment, other: StoredFragment) -> None:
    store.flip(one, 0)
    store.flip(other, len(store.read(other)) - 1)


def zeroed(store: LocalStore, one: StoredFragment, other: StoredFragment) -> None:
    store.raw[one.target].put(one.path, bytes(len(store.read(one))))
    store.flip(other)


def short(store: LocalStore, one: StoredFragment, other: StoredFragment) -> None:
    store.truncate(one)
    store.truncate(other, len(store.read(other)))


def swapped(store: LocalStore, one: StoredFragment, other: StoredFragment) -> None:
    store.swap(one, other)


def duplicated(store: LocalStore, one: StoredFragment, other: StoredFragment) -> None:
    store.copy_over(one, other)


def stale(store: LocalStore, one: StoredFragment, other: StoredFragment) -> None:
    """Whole and well-formed fragments of the same place in another save."""
    older = store.save({name: array[::-1].copy() if array.ndim else array for name, array in ARRAYS.items()}, step=0)
    for fragment in (one, other):
        store.copy_over(store.fragment(older, fragment.number, fragment.stripe), fragment)


DAMAGES = [missing, flipped, zeroed, short, swapped, duplicated, stale]


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("numbers", [(0, 1), (3, 5), (4, 5), (2, 4)])
def test_o11_o12_two_damaged_fragments_are_two_erasures(store, damage, numbers):
    manifest = store.save(ARRAYS, step=1)
    one, other = (store.fragment(manifest, number, stripe=1) for number in numbers)
    key = key_of(store.source().manifest)
    damage(store, one, other)
    listener = Listener()
    assert_equal(_load(store, key, listener), ARRAYS)
    touched = {f.path for f in (one, other) if f.number < 4 and (damage is not duplicated or f is other)}
    assert touched <= damaged(listener)


def _load(store: LocalStore, key: str, listener: Listener) -> dict[str, np.ndarray]:
    return store.load(Selector(key=key), listener)


def test_o11_with_one_parity_fragment_two_erasures_are_refused(tmp_path):
    store = make_store(tmp_path, "abcde", "4+1", memory=True)
    manifest = store.save(ARRAYS)
    zeroed(store, store.fragment(manifest, 1), store.fragment(manifest, 2))
    with pytest.raises(DataLost, match="3 of 5 fragments are good, 4 are needed"):
        store.load()


def test_a_longer_object_is_read_as_far_as_it_should_go(store):
    manifest = store.save(ARRAYS)
    for number in (0, 4):
        fragment = store.fragment(manifest, number)
        store.raw[fragment.target].put(fragment.path, store.read(fragment) + b"trailer")
    assert_equal(store.load(), ARRAYS)


def test_bytes_that_rot_on_the_way_are_caught_at_the_door(store):
    store.save(ARRAYS)
    for name in "ab":
        store.faults[name].inject("get_into", "data/*", damage=flip_bit)
    assert_equal(store.load(), ARRAYS)


def test_different_blocks_of_all_fragments_may_be_bad(tmp_path):
    """Six fragments of three blocks, each with a bad one, two in a row: every row still has its four."""
    store = make_store(tmp_path, memory=True, fragment_size="3MiB")
    arrays = {"w": random_bytes(4 * (3 << 20) - 4096)}
    manifest = store.save(arrays)
    for number in range(6):
        store.flip(store.fragment(manifest, number), (number // 2 << 20) + 5)
    assert_equal(store.load(), arrays)
    health = store.verify(read_data=True)
    assert (health.state, health.tolerance.targets) == ("degraded", 0)


def test_more_than_m_lost_writes_nothing_of_that_stripe(store):
    manifest = store.save(ARRAYS)
    for number in (0, 2, 5):
        store.remove(store.fragment(manifest, number, stripe=1))
    source = store.source()
    ((shard, entry),) = source.locate([("w", (0, 0))])
    request = whole(shard, entry)
    with pytest.raises(DataLost):
        source.read([request])
    stripe = shard.record.stripes[1]
    first = stripe.offset - entry.offset
    flat = ARRAYS["w"].reshape(-1).view(np.uint8)
    assert (request.into[:first] == flat[:first]).all()
    assert (request.into[first : first + stripe.length] == SENTINEL).all()
    assert store.opened.buffers._lent == 0


def test_what_does_not_need_the_lost_stripe_still_loads(store):
    manifest = store.save(ARRAYS)
    for number in (0, 2, 5):
        store.remove(store.fragment(manifest, number, stripe=1))
    source = store.source()
    ((shard, entry),) = source.locate([("b", (0,))])
    request = whole(shard, entry)
    source.read([request])
    assert request.into.tobytes() == ARRAYS["b"].tobytes()


# -- targets out of reach ----------------------------------------


@pytest.mark.parametrize("count", [0, 1, 2])
def test_any_m_targets_gone_reads_bit_equal(tmp_path, count):
    store = make_store(tmp_path)
    store.save(ARRAYS)
    for gone in combinations("abcdef", count):
        store.take_away(*gone)
        assert_equal(store.load(), ARRAYS)
        assert store.opened.buffers._lent == 0
        store.bring_back(*gone)


def test_more_than_m_out_of_reach_is_not_lost(store):
    store.save(ARRAYS)
    source = store.source()
    for name in "abc":
        store.faults[name].inject("get_into", "data/*", error=unavailable("down", target=name))
    with pytest.raises(OutOfReach, match="3 are on targets out of reach"):
        source.read([whole(*source.locate([("w", (0, 0))])[0])])
    store.heal()
    assert_equal(store.load(), ARRAYS)


def test_refused_credentials_are_not_lost_data(store):
    """Unreadable is not missing: a 403 proves nothing about what is stored."""
    store.save(ARRAYS)
    source = store.source()
    for name in "abc":
        store.faults[name].inject("get_into", "data/*", error=AccessDenied("403", target=name))
    with pytest.raises(OutOfReach):
        source.read([whole(*source.locate([("w", (0, 0))])[0])])


def test_one_out_of_reach_does_not_hide_that_the_rest_is_lost(store):
    manifest = store.save(ARRAYS)
    for number in (0, 1, 2, 3):
        store.remove(store.fragment(manifest, number))
    dead = store.fragment(manifest, 4).target
    store.faults[dead].inject("get_into", "data/*", error=unavailable("down", target=dead))
    with pytest.raises(DataLost):
        store.load()


def test_a_dead_target_is_asked_once_a_load(tmp_path):
    store = make_store(tmp_path, memory=True, window=6 * (64 << 10))
    manifest = store.save(ARRAYS)
    assert len(store.record(manifest).stripes) > 2
    source, listener = store.source(), Listener()
    source.fetcher._observer = listener
    requests = [whole(*place) for place in source.locate([("w", (0, 0)), ("b", (0,))])]
    dead = store.fragment(manifest, 0).target
    fault = store.faults[dead].inject("get_into", error=unavailable("down", target=dead))
    source.read(requests)
    source.read(requests)
    assert requests[0].into.tobytes() == ARRAYS["w"].tobytes()
    assert fault.hits == 1
    assert [event.target for event in listener.of(TargetFailed)] == [dead]


def test_reads_already_queued_for_a_target_found_dead_are_not_sent(store):
    """Threads are few: a dead target that times out must not hold one for every stripe read ahead."""
    dead = store.fragment(store.save(ARRAYS), 0).target
    store.opened.executor = ThreadPoolExecutor(1)
    source = store.source()
    fault = store.faults[dead].inject("get_into", error=unavailable("down", target=dead))
    requests = [whole(*source.locate([("w", (0, 0))])[0])]
    source.read(requests)
    assert fault.hits == 1
    assert requests[0].into.tobytes() == ARRAYS["w"].tobytes()


def test_only_data_fragments_are_read_while_all_is_well(store):
    manifest = store.save(ARRAYS)
    parity = {f.path for f in store.fragments(manifest) if f.number >= 4}
    for meter in store.meters.values():
        meter.reset()
    store.load()
    asked = [path for meter in store.meters.values() for verb, path in meter.paths if verb == "get_into"]
    assert asked
    assert parity.isdisjoint(asked)


# -- documents ----------------------------------------


def test_o43_any_good_copy_of_index_and_record_will_do(store):
    manifest = store.save(ARRAYS)
    for reference in (manifest.copies[0].index, store.index(manifest).shards[0].record):
        one, other, *_ = reference.targets
        store.raw[one].delete([reference.path])
        data = bytearray(store.raw[other].get(reference.path))
        data[len(data) // 2] ^= 1
        store.raw[other].put(reference.path, bytes(data))
    assert_equal(store.load(), ARRAYS)


def test_o43_no_good_copy_is_corrupt_and_one_out_of_reach_is_undecided(store):
    manifest = store.save(ARRAYS)
    reference = store.index(manifest).shards[0].record
    for name in reference.targets:
        store.raw[name].put(reference.path, b"{}")
    with pytest.raises(CorruptError, match="no good copy"):
        store.load()
    for error in (unavailable("down"), AccessDenied("403")):
        store.faults[reference.targets[0]].inject("get", reference.path, error=error)
        with pytest.raises(OutOfReach):
            store.load()
        store.heal()


# -- sizes, layouts and many at once ----------------------------------------

K, FRAGMENT, BLOCK = 4, 2 << 20, 1 << 20
STRIPE = K * FRAGMENT
SIZES = [0, 1, K - 1, K, K + 1, BLOCK - 1, BLOCK, BLOCK + 1, K * BLOCK, K * BLOCK + 1]
STREAMS = [STRIPE - 1, STRIPE, STRIPE + 1, 2 * STRIPE + 1, *(STRIPE + size for size in SIZES[1:])]


@pytest.mark.parametrize("size", [*SIZES, *(stream - 4096 for stream in STREAMS)])
def test_o17_odd_sizes_come_back_and_are_rebuilt_byte_equal(tmp_path, size):
    store = make_store(tmp_path, memory=True, fragment_size=FRAGMENT)
    arrays = {"x": random_bytes(size, size)}
    manifest = store.save(arrays)
    assert store.record(manifest).length == 4096 + size
    before = store.objects(*"abcdef")
    for stripe in range(len(store.record(manifest).stripes)):
        stored = [f for f in store.fragments(manifest) if f.stripe == stripe]
        store.remove(stored[stripe % len(stored)])
        store.flip(stored[(stripe + 1) % len(stored)])
    assert_equal(store.load(), arrays)
    store.repair()
    assert store.objects(*"abcdef") == before


CHUNK = 4096
ODD = [0, 1, K - 1, K, K + 1, CHUNK - 1, CHUNK, CHUNK + 1, K * CHUNK, K * CHUNK + 1]


@pytest.mark.parametrize("size", ODD)
def test_o17_any_m_fragments_of_every_stripe_of_odd_sizes(tmp_path, size):
    """The smallest fragments, so that every pattern of loss is tried."""
    store = make_store(tmp_path, memory=True, fragment_size=CHUNK)
    arrays = {"x": random_bytes(size, size)}
    manifest = store.save(arrays)
    before = store.objects(*"abcdef")
    for lost in combinations(range(6), 2):
        for fragment in store.fragments(manifest):
            if fragment.number in lost:
                store.remove(fragment)
        assert_equal(store.load(), arrays)
        assert store.repair().exit_code == 0
        assert store.objects(*"abcdef") == before, lost


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_any_boxes_at_any_losses_are_the_slices(boxes_store, data):
    store, array = boxes_store
    bounds = [sorted(data.draw(st.tuples(st.integers(0, n), st.integers(0, n)))) for n in array.shape]
    offsets, lengths = [low for low, _ in bounds], [high - low for low, high in bounds]
    gone = data.draw(st.sets(st.sampled_from("abcdef"), max_size=2))
    source = store.source()
    ((shard, entry),) = source.locate([("w", (0, 0, 0))])
    for name in gone:
        store.faults[name].inject("get_into", error=unavailable("down", target=name))
    runs = box_runs(entry.shape, 4, offsets, lengths)
    into = np.empty(runs.total, np.uint8)
    source.read([Request(shard, entry.offset, runs, into)])
    store.heal()
    assert into.tobytes() == array[tuple(slice(low, high) for low, high in bounds)].tobytes()


@pytest.fixture(scope="module")
def boxes_store(tmp_path_factory):
    store = make_store(tmp_path_factory.mktemp("boxes"), memory=True, fragment_size=4096)
    array = random_bytes(4 * 30 * 40 * 50, 9).view(np.float32).reshape(30, 40, 50)
    store.save({"w": array})
    return store, array


def test_o18_the_recorded_scheme_is_used_whatever_the_settings_say(tmp_path):
    store = make_store(tmp_path, fragment_size="64KiB")
    store.save(ARRAYS, step=1)
    later = reopen(tmp_path, replace(store.config, code="8+3", fragment_size="1MiB"))
    newer = {"w": random_bytes(50_000, 5)}
    manifest = later.save(newer, step=2)
    assert shape_of(later.record(manifest), 0).n == 11
    damaged = later.fragment(later.source(Selector(step=1)).manifest, 3)
    later.flip(damaged)
    assert_equal(later.load(Selector(step=1)), ARRAYS)
    assert_equal(later.load(), newer)
    assert later.verify(Selector(step=1), read_data=True).state == "degraded"
    assert later.repair().exit_code in {0, 3}
    assert later.verify(Selector(step=1), read_data=True).state == "good"
    assert_equal(store.load(Selector(step=1)), ARRAYS)


def test_o18_a_plain_copy_of_the_objects_is_read_by_its_own_scheme(tmp_path):
    """Copied object by object to other places, and opened there with other settings: both schemes side by side."""
    store = make_store(tmp_path / "old", fragment_size="64KiB")
    store.save(ARRAYS, step=1)
    copy = make_copy(store, tmp_path / "new", code="8+3", fragment_size="1MiB")
    newer = {"w": random_bytes(50_000, 5)}
    copy.save(newer, step=2)
    shutil.rmtree(tmp_path / "old")
    copied = copy.source(Selector(step=1)).manifest
    assert shape_of(copy.record(copied), 0).n == 6
    before = copy.objects()
    copy.flip(copy.fragment(copied, 0))
    copy.remove(copy.fragment(copied, 5, stripe=1))
    assert_equal(copy.load(Selector(step=1)), ARRAYS)
    assert_equal(copy.load(), newer)
    assert copy.verify(Selector(step=1), read_data=True).state == "degraded"
    assert repair(copy.opened, RUN, Selector(step=1)).exit_code == 0
    assert copy.verify(Selector(step=1), read_data=True).state == "good"
    assert copy.objects() == before


def make_copy(store: LocalStore, root: Path, **settings: object) -> LocalStore:
    """The store's objects put one by one onto targets elsewhere, opened with `settings`."""
    targets = [replace(spec, url=str(root / spec.name)) for spec in store.config.targets]
    copy = reopen(root, replace(store.config, targets=targets, **settings))
    for target in copy.raw.values():
        target.create_root()
    for (name, path), data in store.objects().items():
        copy.raw[name].put(path, data)
    return copy


def test_several_shards_come_together(store):
    store.save(ARRAYS, ranks=3)
    assert_equal(store.load(), ARRAYS)


def test_progress_adds_up(store):
    store.save(ARRAYS)
    listener = Listener()
    store.load(observer=listener)
    told = list(listener.of(Progress))
    assert sum(event.done for event in told) == told[0].total


def test_an_interrupted_read_gives_its_buffers_back(store):
    store.save(ARRAYS)
    source = store.source()
    wants = plan_wants([whole(*source.locate([("w", (0, 0))])[0])])
    stripes = verified(wants, source.fetcher, store.opened.buffers)
    next(stripes)
    assert store.opened.buffers._lent > 0
    stripes.close()
    assert store.opened.buffers._lent == 0
