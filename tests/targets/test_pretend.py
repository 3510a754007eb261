"""Targets that are only looked at, and made to seem empty, slow or rotten."""

import time

import pytest

from ckptstore.errors import ObjectNotFound, TargetUnusable
from ckptstore.targets import MemoryTarget
from ckptstore.targets.pretend import EmptyTarget, ReadOnlyTarget, ThrottledTarget, rot


@pytest.fixture
def inner():
    target = MemoryTarget("a")
    target.put("data/one", b"x" * 1000)
    return target


WRITES = [
    lambda target: target.put("data/two", b"y"),
    lambda target: target.put_if_absent("data/two", b"y"),
    lambda target: target.delete(["data/one"]),
    lambda target: target.create_root(),
]


@pytest.mark.parametrize("wrap", [lambda t: t, EmptyTarget, lambda t: ThrottledTarget(t, rate=1 << 30)])
@pytest.mark.parametrize("write", WRITES)
def test_nothing_is_written_through_it(inner, wrap, write):
    with pytest.raises(TargetUnusable):
        write(wrap(ReadOnlyTarget(inner)))
    assert [entry.path for entry in inner.list("")] == ["data/one"]


def test_what_is_read_is_passed_on_and_counted(inner):
    reader = ReadOnlyTarget(inner)
    into = bytearray(400)
    assert bytes(reader.get("data/one")) == b"x" * 1000
    reader.get_into("data/one", memoryview(into), start=600)
    assert bytes(into) == b"x" * 400
    assert reader.head("data/one").size == 1000
    assert [entry.path for entry in reader.list("")] == ["data/one"]
    assert reader.list_folders("") == ["data"]
    assert reader.bytes_read == 1400


def test_an_empty_one_answers_and_has_nothing(inner):
    empty = EmptyTarget(ReadOnlyTarget(inner))
    for read in (empty.get, empty.head, lambda path: empty.get_into(path, memoryview(bytearray(3)))):
        with pytest.raises(ObjectNotFound):
            read("data/one")
    assert [*empty.list("")] == []
    assert [*empty.list_folders("")] == []
    assert [*empty.kinds()] == []


def test_a_throttled_one_takes_the_time_that_its_rate_says(inner):
    throttled = ThrottledTarget(inner, rate=10_000)
    began = time.monotonic()
    for _ in range(2):
        throttled.get("data/one")
    throttled.get_into("data/one", memoryview(bytearray(1000)))
    assert 0.3 <= time.monotonic() - began < 3


@pytest.mark.parametrize("size", [1, 4096, 4097, 1 << 20])
def test_rot_spares_no_block(size):
    data = bytes(size)
    rotten = rot(data)
    assert len(rotten) == size
    for start in range(0, size, 4096):
        assert rotten[start : start + 4096] != data[start : start + 4096]
