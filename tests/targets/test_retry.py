"""Retries: what is tried again, for how long, and that a put-if-absent never is."""

import random
import time

import pytest

from ckptstore.errors import AccessDenied, NoSpace, TargetUnavailable
from ckptstore.targets import FaultTarget, MemoryTarget, MeterTarget, Reason
from ckptstore.targets.backoff import retrying
from ckptstore.targets.fault import unavailable
from ckptstore.targets.retry import RetryTarget


@pytest.fixture
def faults():
    return FaultTarget(MeterTarget(MemoryTarget("m")))


@pytest.fixture
def target(faults):
    return RetryTarget(faults, deadline=5)


def test_transient_errors_are_tried_again(target, faults):
    faults.inject("put", error=unavailable("busy", reason=Reason.BUSY), times=3)
    fault = faults.inject("get", error=unavailable("broken"), times=2)
    target.put("a", b"x")
    assert bytes(target.get("a")) == b"x"
    assert fault.hits == 2
    assert faults.inner.requests == {"put": 1, "get": 1}


def test_o64_waits_draw_nothing_of_what_training_draws_from(target, faults):
    """A background save that meets a busy target would make the job's random numbers other ones."""
    faults.inject("put", error=unavailable("busy", reason=Reason.BUSY), times=2)
    before = random.getstate()
    target.put("a", b"x")
    assert random.getstate() == before


@pytest.mark.parametrize("error", [AccessDenied("403"), NoSpace("full")])
def test_permanent_errors_fail_at_once(target, faults, error):
    fault = faults.inject("put", error=error)
    begun = time.monotonic()
    with pytest.raises(type(error)):
        target.put("a", b"x")
    assert fault.hits == 1
    assert time.monotonic() - begun < 0.1


@pytest.mark.parametrize("reason", [Reason.RESTING, Reason.GONE])
def test_no_second_try_where_it_would_tell_nothing_new(target, faults, reason):
    fault = faults.inject("get", error=unavailable("no", reason=reason))
    with pytest.raises(TargetUnavailable):
        target.get("a")
    assert fault.hits == 1


def test_the_deadline_bounds_all_tries_together(faults):
    target = RetryTarget(faults, deadline=1)
    fault = faults.inject("head", error=unavailable("busy", target="m", reason=Reason.BUSY))
    begun = time.monotonic()
    with pytest.raises(TargetUnavailable, match=r"busy \(head tried \d+ times in [01]\.\d s\)") as caught:
        target.head("a/b")
    assert 0.2 < time.monotonic() - begun < 1.2
    assert caught.value.tries == fault.hits > 2
    assert (caught.value.path, caught.value.target, caught.value.reason) == ("a/b", "m", Reason.BUSY)


def test_a_slow_first_try_counts_against_the_deadline(faults):
    target = RetryTarget(faults, deadline=0.3)
    fault = faults.inject("get", error=unavailable("slow"), seconds=0.4)
    with pytest.raises(TargetUnavailable):
        target.get("a")
    assert fault.hits == 1


def test_o28_waits_grow_and_are_not_synchronous():
    """Full jitter: sixteen clients that failed together come back at sixteen different times."""
    waits = []
    for _ in range(16):
        policy, mine = retrying(60), []
        policy.sleep = mine.append
        failures = iter([unavailable("busy")] * 6)

        def attempt(failures=failures):
            for error in failures:
                raise error

        policy(attempt)
        waits.append(mine)
    assert len({round(mine[0], 6) for mine in waits}) == 16
    means = [sum(mine[i] for mine in waits) / 16 for i in range(6)]
    assert means[5] > 4 * means[0]
    assert max(max(mine) for mine in waits) <= 5


def test_a_told_wait_is_kept(target, faults):
    error = TargetUnavailable("slow down", reason=Reason.BUSY, retry_after=0.5)
    faults.inject("get", error=error, times=1)
    faults.inner.inner.put("a", b"x")
    begun = time.monotonic()
    assert bytes(target.get("a")) == b"x"
    assert time.monotonic() - begun >= 0.5


@pytest.mark.parametrize("reason", Reason)
@pytest.mark.parametrize("after", [False, True], ids=["request lost", "reply lost"])
def test_put_if_absent_is_one_request(target, faults, reason, after):
    """A second try could land after the first was answered; the commit protocol casts again under its own rules."""
    fault = faults.inject("put_if_absent", error=unavailable("lost", reason=reason), after=after)
    with pytest.raises(TargetUnavailable) as caught:
        target.put_if_absent("m/1", b"mine")
    assert caught.value is fault.error
    assert fault.hits == 1
    assert faults.inner.requests == ({"put_if_absent": 1} if after else {})


def test_a_put_if_absent_that_was_answered_is_believed(target, faults):
    assert target.put_if_absent("m/1", b"same") is True
    assert target.put_if_absent("m/1", b"same") is False
    assert faults.inner.requests == {"put_if_absent": 2}


def test_delete_tries_only_those_again_that_failed():
    calls = []

    class Partial(MemoryTarget):
        def delete(self, paths):
            calls.append(list(paths))
            if len(calls) == 1:
                return {"b": unavailable("one of them"), "c": AccessDenied("locked")}
            return {}

    failed = RetryTarget(Partial("p"), deadline=5).delete(["a", "b", "c"])
    assert calls == [["a", "b", "c"], ["b"]]
    assert {path: type(error) for path, error in failed.items()} == {"c": AccessDenied}


def test_delete_tells_what_stayed_after_the_deadline(faults):
    target = RetryTarget(faults, deadline=0.3)
    faults.inject("delete", error=unavailable("broken"))
    failed = target.delete(["a", "b"])
    assert set(failed) == {"a", "b"}
    assert all(isinstance(error, TargetUnavailable) for error in failed.values())
