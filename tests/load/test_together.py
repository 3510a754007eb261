"""Several loads, saves and checks at once, through a window of one stripe: nobody waits for ever."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from tests.support import assert_equal, make_store, random_bytes

ARRAYS = {"w": random_bytes(1_500_000).view(np.float32).reshape(-1, 5)}
SECONDS = 60


def test_loads_saves_and_checks_share_a_window_of_one_stripe(tmp_path):
    store = make_store(tmp_path, memory=True, window=6 * (64 << 10))
    store.save(ARRAYS, step=0)
    for name in "ab":
        store.faults[name].inject("put", "data/*", seconds=0.002)
        store.faults[name].inject("get_into", "data/*", seconds=0.001)
    with ThreadPoolExecutor(6) as threads:
        work = [threads.submit(store.load) for _ in range(6)]
        work += [threads.submit(store.save, ARRAYS, step=step) for step in range(1, 4)]
        work += [threads.submit(store.verify, read_data=True) for _ in range(3)]
        for each in work:
            each.result(timeout=SECONDS)
    assert all(task.result() is not None for task in work)
    assert_equal(store.load(), ARRAYS)
    assert store.opened.buffers._lent == 0
    assert len(store.opened.group.history("demo").checkpoints) == 4


def test_a_load_goes_on_while_another_stands_still(tmp_path):
    """A reader that holds the window's last stripe must not keep others for good once it is done."""
    store = make_store(tmp_path, memory=True, window=2 * 6 * (64 << 10))
    store.save(ARRAYS)
    held = store.opened.buffers.take(6 * (64 << 10))
    with ThreadPoolExecutor(2) as threads:
        loads = [threads.submit(store.load) for _ in range(2)]
        for each in loads:
            assert_equal(each.result(timeout=SECONDS), ARRAYS)
    store.opened.buffers.give(held)
