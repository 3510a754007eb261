"""Limits: bytes a second by a clock of the test's own, requests at once by threads that are counted."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from ckptstore.errors import StoreClosed
from ckptstore.targets import LimitTarget, MemoryTarget, RateLimit


class Clock:
    """Time passes only in sleep."""

    def __init__(self) -> None:
        self.now = 1000.0

    def time(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


def limited(clock: Clock, rate: float, count: int = 1) -> list[LimitTarget]:
    limit = RateLimit(rate, clock=clock.time, sleep=clock.sleep)
    return [LimitTarget(MemoryTarget(f"m{i}"), rate=limit, slots=None) for i in range(count)]


def test_no_more_bytes_a_second_than_the_rate(clock):
    (target,) = limited(clock, rate=100.0)
    begun = clock.now
    for number in range(11):
        target.put(f"{number}", bytes(50))
        assert 50 * number <= (clock.now - begun) * 100.0 + 1e-9, "what was put before is paid for"
    assert clock.now - begun == pytest.approx(5.0)


def test_all_verbs_that_move_bytes_spend(clock):
    (target,) = limited(clock, rate=10.0)
    begun = clock.now
    target.put("a", [bytes(10), bytes(10)])  # 2 s, which the next one waits for
    target.get_into("a", memoryview(bytearray(20)))  # 2 s
    target.put_if_absent("b", bytes(10))  # 1 s
    assert clock.now - begun == pytest.approx(4.0)
    assert len(target.get("a", start=5, length=10)) == 10  # waits for that second, and is paid for by the next
    assert clock.now - begun == pytest.approx(5.0)
    target.put("c", b"x")
    assert clock.now - begun == pytest.approx(6.0)
    assert target.head("a").size == 20
    assert {entry.path for entry in target.list("")} == {"a", "b", "c"}
    assert clock.now - begun == pytest.approx(6.0)


def test_one_rate_over_all_targets(clock):
    begun = clock.now
    for target in limited(clock, rate=100.0, count=5):
        target.put("a", bytes(100))
    assert clock.now - begun == pytest.approx(4.0)


def test_what_was_not_used_is_not_saved_up(clock):
    (target,) = limited(clock, rate=100.0)
    clock.sleep(3600)
    begun = clock.now
    for number in range(5):
        target.put(f"{number}", bytes(100))
    assert clock.now - begun == pytest.approx(4.0)


def test_who_waits_is_let_go_at_the_end():
    limit = RateLimit(1.0)
    target = LimitTarget(MemoryTarget("m"), rate=limit, slots=None)
    target.put("a", bytes(10**6))
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(target.put, "b", b"x")
        limit.end()
        with pytest.raises(StoreClosed):
            waiting.result(timeout=20)
    with pytest.raises(StoreClosed):
        target.put("c", b"x")


def test_so_many_requests_at_once():
    most, now, lock, both = 0, 0, threading.Lock(), threading.Barrier(2)

    class Counting(MemoryTarget):
        def head(self, path):
            nonlocal most, now
            with lock:
                now += 1
                most = max(most, now)
            both.wait(timeout=20)  # there are two at once, or this fails
            with lock:
                now -= 1
            return super().head(path)

    inner = Counting("m")
    inner.put("a", b"x")
    slots = threading.BoundedSemaphore(2)
    targets = [LimitTarget(inner, rate=None, slots=slots) for _ in range(2)]
    with ThreadPoolExecutor(8) as pool:
        assert [entry.size for entry in pool.map(lambda i: targets[i % 2].head("a"), range(20))] == [1] * 20
    assert most == 2
