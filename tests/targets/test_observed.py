"""Each request to a target is told with its time, bytes and outcome, and only where somebody listens."""

from datetime import UTC, datetime

import pytest

from ckptstore.errors import AccessDenied, ObjectNotFound, TargetError
from ckptstore.events import RequestEnded
from ckptstore.targets import FaultTarget, MemoryTarget, open_target
from ckptstore.targets.fault import unavailable
from ckptstore.targets.observed import ObservedTarget
from ckptstore.telemetry import observe
from tests.support import Listener


@pytest.fixture
def heard():
    listener = Listener()
    with observe(listener):
        yield listener


def told(listener):
    return [(event.verb, event.bytes, event.outcome) for event in listener.of(RequestEnded)]


def test_every_verb_is_told_with_its_bytes(heard):
    target = ObservedTarget(MemoryTarget("m"))
    target.put("a", [b"12", b"345"])
    assert bytes(target.get("a", start=1, length=2)) == b"23"
    target.get_into("a", memoryview(bytearray(3)))
    assert (target.put_if_absent("a", b"123456"), target.put_if_absent("b", b"1")) == (False, True)
    assert [entry.path for entry in target.list("")] == ["a", "b"]
    assert target.head("a").modified <= datetime.now(UTC)
    assert target.delete(["a", "b"]) == {}
    assert told(heard) == [
        ("put", 5, "ok"),
        ("get", 2, "ok"),
        ("get_into", 3, "ok"),
        ("put_if_absent", 0, "ok"),
        ("put_if_absent", 1, "ok"),
        ("list", 0, "ok"),
        ("head", 0, "ok"),
        ("delete", 0, "ok"),
    ]
    assert all(event.target == "m" and 0 <= event.seconds < 60 for event in heard.events)


def test_outcomes_are_reasons_and_kinds(heard):
    faults = FaultTarget(MemoryTarget("m"))
    target = ObservedTarget(faults)
    with pytest.raises(ObjectNotFound):
        target.get("nothing")
    for error in (unavailable("throttled", reason="busy"), AccessDenied("no", target="m")):
        faults.inject(error=error, times=1)
        with pytest.raises(TargetError):
            target.put("a", b"x")
    assert told(heard) == [("get", 0, "absent"), ("put", 0, "busy"), ("put", 0, "AccessDenied")]


def test_what_a_delete_could_not_is_its_outcome(heard):
    class Keeping(MemoryTarget):
        def delete(self, paths):
            return {paths[0]: AccessDenied("no", target="m", path=paths[0])}

    assert list(ObservedTarget(Keeping("m")).delete(["a", "b"])) == ["a"]
    assert told(heard) == [("delete", 0, "AccessDenied")]


def test_each_try_of_an_opened_target_is_a_request_and_what_rests_is_none(heard, tmp_path):
    target = open_target("t", tmp_path / "t", options={"deadline": 1})
    with pytest.raises(TargetError):
        target.get("a")
    target.create_root()
    target.put("a", b"xy")
    assert told(heard)[0] == ("get", 0, "gone")
    assert told(heard)[-1] == ("put", 2, "ok")


def test_nobody_is_told_after_the_end(tmp_path):
    listener = Listener()
    target = open_target("t", tmp_path)
    with observe(listener):
        target.put("a", b"x")
    target.put("b", b"x")
    assert len(told(listener)) == 1
