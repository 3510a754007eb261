"""A save that ends late (case O73)."""

from threading import Event, Thread

import pytest

from tests.faults.crash.killing import Killer
from tests.faults.crash.sweeps import find, live, save, state
from tests.faults.crash.world import memory_world
from tests.support import RUN, assert_equal


class Gate(Killer):
    """Waits at a request until it is opened."""

    def __init__(self, at: int) -> None:
        super().__init__(at)
        self.reached, self.opened = Event(), Event()

    def die(self) -> None:
        self.reached.set()
        assert self.opened.wait(30)


@pytest.mark.parametrize("share", [0.6, 0.8, 0.9])
def test_o73_a_slow_save_that_ends_after_a_later_one_is_not_the_latest(share):
    """Both are saved by one job, which is how saves in the background overlap; `ckpt tag` is the way to pin one."""
    world = memory_world()
    store = world.open()
    slow = world.open()
    counter = Killer()
    save(memory_world().open(counter), 10)
    gate = Gate(int(counter.count * share))
    thread = Thread(target=save, args=(world.open(gate), 10))
    thread.start()
    assert gate.reached.wait(30)
    save(store, 20)
    gate.opened.set()
    thread.join()
    assert live(slow) == (10, 20)
    assert_equal(slow.load(), state(20))
    slow.opened.group.tag(RUN, *find(slow, 10).key, "best")
    assert_equal(slow.load(), state(20))
