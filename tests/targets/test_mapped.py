"""What is copied from mapped pages is what a read gives, whatever happens to the file meanwhile."""

import mmap
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ckptstore.errors import ShortObject
from ckptstore.targets import directory, mapped
from ckptstore.targets.directory import DirectoryTarget
from tests.support import random_bytes

PAGE = mmap.PAGESIZE
SIZE = 5 * PAGE + 100
DATA = random_bytes(SIZE).tobytes()

pytestmark = pytest.mark.skipif(mapped._C is None, reason="mapped on 64-bit Linux only")


@pytest.fixture
def target(tmp_path, monkeypatch):
    if not mapped.is_mappable(tmp_path.stat().st_dev):
        pytest.skip("the temporary files aren't on a file system that is mapped")
    monkeypatch.setattr(directory, "LEAST", 1)
    found = DirectoryTarget("a", tmp_path)
    found.put("x", DATA)
    return found


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("mapped") / "x"
    path.write_bytes(DATA)
    opened = os.open(path, os.O_RDONLY)
    yield opened
    os.close(opened)


@settings(max_examples=200)
@given(st.integers(0, SIZE), st.integers(1, SIZE), st.sampled_from([PAGE, 2 * PAGE, 1 << 20]))
def test_any_range_is_copied(file, start, length, piece):
    length = min(length, SIZE - start)
    memory = bytearray(b"x" * (length + 20))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mapped, "PIECE", piece)
        if length:
            assert mapped.copy_mapped(file, memoryview(memory)[10 : 10 + length], start) == length
    assert memory == b"x" * 10 + DATA[start : start + length] + b"x" * 10


def test_a_target_reads_by_mapping(target, monkeypatch):
    monkeypatch.setattr(directory.posix, "read_fully", lambda file, into, start: len(into) and pytest.fail("read"))
    memory = bytearray(SIZE - 7)
    target.get_into("x", memoryview(memory), start=7)
    assert memory == DATA[7:]


@pytest.mark.parametrize("advice", [9999, 0])
def test_pages_that_can_not_be_had_are_read(target, monkeypatch, advice):
    """A kernel without MADV_POPULATE_READ; a mapping that fails."""
    monkeypatch.setattr(mapped, "POPULATE_READ", advice)
    if not advice:
        monkeypatch.setattr(mapped, "_copy", lambda *_: False)
    memory = bytearray(SIZE)
    target.get_into("x", memoryview(memory))
    assert memory == DATA


@pytest.mark.parametrize("left", [0, 1, PAGE - 1, PAGE, 2 * PAGE + 1, SIZE - 1])
def test_a_file_that_is_cut_after_its_size_was_seen_is_short_and_no_signal(target, monkeypatch, left):
    seen = directory.check_range

    def cut(*arguments):
        os.truncate(f"{target.root}/x", left)
        return seen(*arguments)

    monkeypatch.setattr(directory, "check_range", cut)
    with pytest.raises(ShortObject):
        target.get_into("x", memoryview(bytearray(SIZE)))


def test_only_file_systems_of_this_machine_are_mapped(monkeypatch, tmp_path):
    mapped.is_mappable.cache_clear()
    assert not mapped.is_mappable(Path("/proc").stat().st_dev)
    assert not mapped.is_mappable(os.makedev(4095, 77))
    monkeypatch.setattr(mapped, "LOCAL", set())
    assert not mapped.is_mappable(tmp_path.stat().st_dev)
    mapped.is_mappable.cache_clear()


def test_no_page_stays_mapped(target):
    def maps():
        return Path("/proc/self/maps").read_text(encoding="utf-8").count(target.root)

    memory = bytearray(SIZE)
    for _ in range(20):
        target.get_into("x", memoryview(memory))
    assert maps() == 0
