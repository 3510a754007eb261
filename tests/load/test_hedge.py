"""Reads that are late: others take their place, and what comes late harms nothing."""

import time

import pytest

from ckptstore.errors import CkptStoreError
from ckptstore.load.patience import Patience
from ckptstore.targets.fault import unavailable
from tests.support import assert_equal, make_store, random_bytes, read_all

ARRAYS = {"w": random_bytes(8_000_000)}
LATE = 4.0


@pytest.fixture
def store(tmp_path):
    """Of thirty stripes, so that it is known how long a read takes before one is late."""
    made = make_store(tmp_path)
    made.save(ARRAYS, step=1)
    return made


def late_reads(store, count, seconds=LATE, **fault):
    """Let single data fragments of late stripes come late, each of another target."""
    manifest = store.latest()
    for stripe in range(20, 20 + count):
        fragment = store.fragment(manifest, stripe % 4, stripe)
        store.faults[fragment.target].inject("get_into", fragment.path, seconds=seconds, times=1, **fault)


def test_a_late_read_is_not_waited_for(store):
    late_reads(store, 5)
    began = time.monotonic()
    loaded = store.load()
    took = time.monotonic() - began
    assert_equal(loaded, ARRAYS)
    assert took < LATE


def test_what_comes_late_and_wrong_reaches_nothing(store):
    """The late bytes land in memory that nobody looks at any more, before and after the load has ended."""
    manifest = store.latest()
    fragment = store.fragment(manifest, 1, 25)
    target = store.faults[fragment.target]
    real = target.get_into

    def late_and_wrong(path, into, *, start=0):
        if path == fragment.path:
            time.sleep(0.7)
            into[:] = b"x" * len(into)
        else:
            real(path, into, start=start)

    target.get_into = late_and_wrong
    loaded = store.load()
    assert_equal(loaded, ARRAYS)
    time.sleep(1)
    assert_equal(loaded, ARRAYS)


def test_memory_comes_back_when_the_late_reads_have_ended(store):
    late_reads(store, 3, seconds=1.0)
    store.load()
    time.sleep(1.2)
    window = store.config.window_bytes
    with store.opened.buffers.lent(window) as everything:
        assert everything.size == window


def test_where_no_other_fragment_is_left_the_late_one_is_waited_for(store):
    manifest = store.latest()
    store.faults["a"].inject(error=unavailable("down", target="a"))
    store.faults["b"].inject(error=unavailable("down", target="b"))
    for fragment in store.fragments(manifest):
        if fragment.stripe == 25 and fragment.target == "c":
            store.faults["c"].inject("get_into", fragment.path, seconds=1.0)
    assert_equal(store.load(), ARRAYS)


def test_where_every_read_is_slow_nothing_is_asked_twice(store):
    for fault in store.faults.values():
        fault.inject("get_into", "data/*", seconds=0.1)
    asked = []
    fetched = store.source()
    real = fetched.fetcher.submit
    fetched.fetcher.submit = lambda *arguments: asked.append(arguments) or real(*arguments)

    assert_equal(read_all(fetched), ARRAYS)
    stripes = len(store.record(store.latest()).stripes)
    assert len(asked) <= 4 * stripes * 1.1


def test_lost_data_is_refused_as_ever(store):
    manifest = store.latest()
    late_reads(store, 1, seconds=0.5)
    for fragment in store.fragments(manifest):
        if fragment.stripe == 20 and fragment.number in {1, 2, 3}:
            store.flip(fragment)
    with pytest.raises(CkptStoreError):
        store.load()


def test_patience_is_learned_from_reads_of_one_size():
    patience = Patience()
    assert patience.seconds(1000) is None
    for _ in range(100):
        patience.learn(1000, 0.1)
        patience.learn(1 << 20, 1.0)
    assert patience.seconds(900) == pytest.approx(0.11)
    assert patience.seconds(1 << 20) == pytest.approx(1.1)
    for _ in range(200):
        patience.learn(1000, 0.001)
    assert patience.seconds(1000) == 0.05


def test_no_more_than_one_read_in_twenty_is_hedged():
    patience = Patience()
    for _ in range(1000):
        patience.learn(1000, 0.1)
    assert sum(patience.may_hedge(1) for _ in range(1000)) == 58


def test_what_earlier_loads_took_is_known_to_the_next(store):
    store.load()
    read = next(iter(store.opened.patience._seen))
    assert store.opened.patience.seconds(1 << (read - 1)) is not None
