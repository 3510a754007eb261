"""The window: never more than its bytes, whoever takes and gives, and nobody waits for ever."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ckptstore.buffers import BufferPool, Bytes

SECONDS = 20  # far more than any of this takes; a deadlock shows as a time-out


def held(pool: BufferPool) -> int:
    """Bytes that the pool keeps alive, lent or not."""
    return pool._lent + pool._free_bytes()


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 40)), max_size=80))
def test_the_window_is_never_exceeded(steps):
    pool, lent = BufferPool(64), []
    for take, size in steps:
        if take:
            buffer = pool.take_now(size)
            if buffer is None:
                assert sum(b.size for b in lent) + size > 64
            else:
                assert buffer.size == size
                lent.append(buffer)
        elif lent:
            pool.give(lent.pop(size % len(lent)))
        assert sum(b.size for b in lent) <= 64
        assert held(pool) <= 64


def test_a_buffer_is_used_again():
    pool = BufferPool(1 << 20)
    first = pool.take(4096)
    pool.give(first)
    assert pool.take(4096) is first


def test_free_buffers_of_another_size_make_room():
    pool = BufferPool(100)
    pool.give(pool.take(60))
    assert pool.take(50).size == 50
    assert held(pool) <= 100


def test_a_buffer_larger_than_the_window_is_lent_alone_and_not_kept():
    pool = BufferPool(10)
    large = pool.take(1000)
    assert pool.take_now(1) is None
    pool.give(large)
    assert held(pool) == 0


def test_take_waits_until_there_is_room():
    pool = BufferPool(10)
    first = pool.take(8)
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(pool.take, 5)
        with pytest.raises(TimeoutError):
            waiting.result(timeout=0.05)
        pool.give(first)
        assert waiting.result(timeout=SECONDS).size == 5


def test_lent_gives_back_what_a_block_that_raised_had():
    pool = BufferPool(10)
    with pytest.raises(KeyError), pool.lent(10):
        raise KeyError
    assert pool.take_now(10) is not None


def reader(pool: BufferPool, size: int, rounds: int) -> int:
    """As a load does it: hold one, take others only where there is room now, return them in order."""
    most = 0
    ahead: list[Bytes] = []
    for _ in range(rounds):
        while True:
            buffer = pool.take_now(size) if ahead else pool.take(size)
            if buffer is None:
                break
            ahead.append(buffer)
            if len(ahead) == 4:
                break
        most = max(most, pool._lent)
        time.sleep(0)
        pool.give(ahead.pop(0))
    for buffer in ahead:
        pool.give(buffer)
    return most


def writer(pool: BufferPool, size: int, rounds: int) -> int:
    """As a save does it: others give back what it takes."""
    most = 0
    with ThreadPoolExecutor(2) as uploads:
        for _ in range(rounds):
            buffer = pool.take(size)
            most = max(most, pool._lent)
            uploads.submit(pool.give, buffer)
    return most


@settings(max_examples=10, deadline=None)
@given(st.integers(1, 64), st.integers(1, 64), st.integers(1, 64))
def test_loads_and_a_save_at_once_never_block_each_other_for_good(one, two, three):
    pool = BufferPool(64)
    with ThreadPoolExecutor(3) as threads:
        work = [
            threads.submit(reader, pool, one, 200),
            threads.submit(reader, pool, two, 200),
            threads.submit(writer, pool, three, 200),
        ]
        assert max(each.result(timeout=SECONDS) for each in work) <= 64
    assert pool._lent == 0


def test_many_threads_take_and_give():
    pool, start, exceeded = BufferPool(1000), threading.Barrier(8), []

    def work(size: int) -> None:
        start.wait()
        for _ in range(300):
            with pool.lent(size) as buffer:
                buffer[:] = size % 251
                exceeded.append(pool._lent > 1000)
                assert (buffer == size % 251).all()

    with ThreadPoolExecutor(8) as threads:
        for each in [threads.submit(work, 100 + 37 * i) for i in range(8)]:
            each.result(timeout=SECONDS)
    assert not any(exceeded)
    assert pool._lent == 0
