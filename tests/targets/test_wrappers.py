"""Meters, faults and registers: they say exactly what happened."""

import pickle

import pytest

from ckptstore import targets
from ckptstore.errors import AccessDenied, NoSpace, TargetUnavailable
from ckptstore.targets import FaultTarget, MemoryTarget, MeterTarget, TargetRegister
from ckptstore.targets.fault import flip_bit, unavailable
from manifests.errors import Unavailable


def test_all_names_are_there():
    assert all(getattr(targets, name) is not None for name in targets.__all__)
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = targets.no_such_name


def test_a_meter_counts_requests_and_bytes_that_went_through():
    meter = MeterTarget(MemoryTarget("m"))
    meter.put("a", [b"12", b"345"])
    meter.get("a", start=1, length=2)
    meter.get_into("a", memoryview(bytearray(3)))
    assert meter.put_if_absent("a", b"123456") is False
    assert meter.put_if_absent("b", b"1") is True
    list(meter.list(""))
    meter.delete(["a", "b"])
    with pytest.raises(targets.base.TargetError):
        meter.get("a")
    assert meter.requests == {"put": 1, "get": 2, "get_into": 1, "put_if_absent": 2, "list": 1, "delete": 1}
    assert (meter.bytes_read, meter.bytes_written) == (5, 6)
    assert meter.paths[0] == ("put", "a")
    meter.reset()
    assert (meter.requests, meter.bytes_read, meter.paths) == ({}, 0, [])


def test_faults_strike_by_verb_path_and_count():
    faults = FaultTarget(MemoryTarget("m"))
    fault = faults.inject("put", "data/*", error=unavailable("no"), skip=1, times=2)
    outcomes = []
    for path in ("data/1", "other", "data/2", "data/3", "data/4"):
        try:
            faults.put(path, b"x")
            outcomes.append(path)
        except TargetUnavailable:
            outcomes.append("failed")
    assert outcomes == ["data/1", "other", "failed", "failed", "data/4"]
    assert fault.hits == 2


def test_a_fault_after_the_fact_has_been_carried_out():
    faults = FaultTarget(MemoryTarget("m"))
    faults.inject("put", error=NoSpace("full"), after=True)
    with pytest.raises(NoSpace):
        faults.put("a", b"x")
    assert bytes(faults.inner.get("a")) == b"x"


def test_damage_changes_what_is_read_and_nothing_stored():
    faults = FaultTarget(MemoryTarget("m"))
    faults.put("a", b"\x00" * 9)
    faults.inject("get", damage=flip_bit, times=1)
    faults.inject("get_into", damage=flip_bit, times=1)
    memory = bytearray(9)
    faults.get_into("a", memoryview(memory))
    assert faults.get("a") == memory == b"\x00" * 4 + b"\x01" + b"\x00" * 4
    assert bytes(faults.get("a")) == b"\x00" * 9


@pytest.mark.parametrize("error", [unavailable("down", target="m"), AccessDenied("403", target="m", path="x")])
def test_a_register_tells_any_failure_as_unavailable_with_its_cause(error):
    """To the protocol a target that refuses is one that counts for nothing; the cause says what it was."""
    faults = FaultTarget(MemoryTarget("m"))
    register = TargetRegister(faults)
    faults.inject(error=error)
    verbs = [
        lambda: register.get("x"),
        lambda: register.put("x", b""),
        lambda: register.put_if_absent("x", b""),
        lambda: register.list(""),
    ]
    for verb in verbs:
        with pytest.raises(Unavailable) as caught:
            verb()
        assert caught.value.__cause__ is error
        assert caught.value.register == "m"
        assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
