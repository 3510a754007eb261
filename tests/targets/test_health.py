"""Health: a dead target costs one time-out, not one a request; and it may come back."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from ckptstore.errors import AccessDenied, TargetUnavailable
from ckptstore.targets import FaultTarget, MemoryTarget, MeterTarget, Reason
from ckptstore.targets.fault import unavailable
from ckptstore.targets.health import HealthTarget
from ckptstore.targets.retry import RetryTarget


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def faults():
    memory = MemoryTarget("m")
    memory.put("a", b"x")
    return FaultTarget(MeterTarget(memory))


@pytest.fixture
def health(faults, clock):
    return HealthTarget(faults, cool_down=5, clock=clock)


def fails(target, reason):
    with pytest.raises(TargetUnavailable) as caught:
        target.get("a")
    assert caught.value.reason == reason
    return caught.value


def test_one_time_out_and_nobody_asks_for_a_while(health, faults, clock):
    fault = faults.inject(error=unavailable("timed out", reason=Reason.TIMEOUT))
    fails(health, Reason.TIMEOUT)
    for _ in range(10):
        error = fails(health, Reason.RESTING)
    assert fault.hits == 1
    assert "timed out" in error.message
    assert "5.0 s" in error.message


def test_it_recovers_by_one_request_that_looks(health, faults, clock):
    faults.inject(error=unavailable("timed out", reason=Reason.TIMEOUT), times=1)
    fails(health, Reason.TIMEOUT)
    clock.now += 5
    assert bytes(health.get("a")) == b"x"
    assert bytes(health.get("a")) == b"x"


def test_while_one_looks_the_others_rest(health, faults, clock):
    faults.inject(error=unavailable("timed out", reason=Reason.TIMEOUT), times=1)
    fails(health, Reason.TIMEOUT)
    clock.now += 5
    slow = faults.inject("get", seconds=0.3, times=1)
    with ThreadPoolExecutor(1) as pool:
        looking = pool.submit(health.get, "a")
        while not slow.hits:
            time.sleep(0.01)
        fails(health, Reason.RESTING)
        assert bytes(looking.result()) == b"x"
    assert bytes(health.get("a")) == b"x"


def test_rests_double_up_to_a_minute_and_start_over(health, faults, clock):
    fault = faults.inject(error=unavailable("timed out", reason=Reason.TIMEOUT))
    for rest in (5, 10, 20, 40, 60, 60):
        fails(health, Reason.TIMEOUT)
        clock.now += rest - 1
        fails(health, Reason.RESTING)
        clock.now += 1
    assert fault.hits == 6
    faults.heal()
    assert bytes(health.get("a")) == b"x"
    faults.inject(error=unavailable("timed out", reason=Reason.TIMEOUT))
    fails(health, Reason.TIMEOUT)
    clock.now += 5
    fails(health, Reason.TIMEOUT)


def test_refusals_are_borne_for_a_second(health, faults, clock):
    """A server that restarts refuses for a moment; retries get over that."""
    fault = faults.inject(error=unavailable("refused", reason=Reason.UNREACHABLE))
    fails(health, Reason.UNREACHABLE)
    clock.now += 0.5
    fails(health, Reason.UNREACHABLE)
    clock.now += 0.6
    fails(health, Reason.UNREACHABLE)
    fails(health, Reason.RESTING)
    assert fault.hits == 3


def test_an_answer_between_refusals_starts_the_second_over(health, faults, clock):
    for _ in range(5):
        faults.inject(error=unavailable("refused", reason=Reason.UNREACHABLE), times=1)
        fails(health, Reason.UNREACHABLE)
        clock.now += 0.9
        assert bytes(health.get("a")) == b"x"


@pytest.mark.parametrize(
    "error", [unavailable("503", reason=Reason.BUSY), unavailable("gone", reason=Reason.GONE), AccessDenied("403")]
)
def test_what_answers_is_alive(health, faults, error):
    fault = faults.inject("get", error=error)
    for _ in range(5):
        with pytest.raises(type(error)):
            health.get("a")
    assert fault.hits == 5


def test_many_threads_in_one_time_out_rest_once(health, faults, clock):
    """Sixteen that waited together found out one thing, not sixteen: the rest is the first, not the longest."""
    faults.inject(error=unavailable("timed out", reason=Reason.TIMEOUT), seconds=0.1)
    start = threading.Barrier(16)

    def ask():
        start.wait()
        with pytest.raises(TargetUnavailable):
            health.get("a")

    with ThreadPoolExecutor(16) as pool:
        for future in [pool.submit(ask) for _ in range(16)]:
            future.result()
    clock.now += 5
    fails(health, Reason.TIMEOUT)


def test_a_delete_that_could_not_is_told_in_its_answer_and_noticed(faults, clock):
    class Dead(MemoryTarget):
        def delete(self, paths):
            return dict.fromkeys(paths, unavailable("timed out", reason=Reason.TIMEOUT))

    health = HealthTarget(Dead("d"), cool_down=5, clock=clock)
    assert set(health.delete(["a", "b"])) == {"a", "b"}
    fails(health, Reason.RESTING)


def test_under_retries_a_dead_target_costs_one_time_out(faults):
    """As `open_target` stacks them: the retry stops where health lets rest."""
    target = RetryTarget(HealthTarget(faults), deadline=30)
    fault = faults.inject(error=unavailable("timed out", reason=Reason.TIMEOUT), seconds=0.2)
    begun = time.monotonic()
    for _ in range(20):
        with pytest.raises(TargetUnavailable):
            target.get("a")
    with pytest.raises(TargetUnavailable) as caught:
        target.put_if_absent("b", b"x")
    assert caught.value.reason == Reason.RESTING
    assert fault.hits == 1
    assert time.monotonic() - begun < 1.5


@pytest.mark.parametrize("reason", [Reason.BUSY, Reason.BROKEN])
def test_what_does_nothing_but_refuse_or_break_off_is_left_alone_at_last(faults, clock, reason):
    """Else each request of an operation would take the whole deadline."""
    health = HealthTarget(faults, cool_down=5, patience=30, clock=clock)
    fault = faults.inject(error=unavailable("503", reason=reason))
    fails(health, reason)
    for _ in range(3):
        clock.now += 10
        fails(health, reason)
    fails(health, Reason.RESTING)
    clock.now += 5
    fails(health, reason)  # one looks, and it is as it was
    clock.now += 9
    fails(health, Reason.RESTING)
    assert fault.hits == 5
    faults.heal()
    clock.now += 1
    assert bytes(health.get("a")) == b"x"


def test_a_busy_answer_after_time_outs_is_a_sign_of_life(health, faults, clock):
    faults.inject(error=unavailable("timed out", reason=Reason.TIMEOUT), times=1)
    fails(health, Reason.TIMEOUT)
    clock.now += 5
    faults.inject(error=unavailable("503", reason=Reason.BUSY), times=1)
    fails(health, Reason.BUSY)
    assert bytes(health.get("a")) == b"x"


@pytest.mark.parametrize("reason", [Reason.BUSY, Reason.UNREACHABLE])
def test_failures_an_hour_apart_are_not_one_long_failure(health, faults, clock, reason):
    faults.inject(error=unavailable("not now", reason=reason), times=3)
    for _ in range(3):
        fails(health, reason)
        clock.now += 3600
    assert bytes(health.get("a")) == b"x"


def test_throttling_with_successes_in_between_is_borne_for_ever(faults, clock):
    health = HealthTarget(faults, patience=30, clock=clock)
    for _ in range(20):
        faults.inject(error=unavailable("503", reason=Reason.BUSY), times=3)
        for _ in range(3):
            fails(health, Reason.BUSY)
            clock.now += 5
        assert bytes(health.get("a")) == b"x"
