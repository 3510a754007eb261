"""Targets that are full (case O57)."""

import errno
import os
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from unittest import mock

import pytest

from ckptstore.errors import TargetsFull
from ckptstore.selection import Selector
from tests.faults.races.works import prune_now
from tests.support import RUN, assert_equal, make_store, random_bytes

MIB = 1 << 20
ROOM = 20 * MIB


@pytest.fixture(params=["tmpfs", "counted"])
def small_disk(request, tmp_path) -> Iterator[Path]:
    """A file system of 20 MiB, where one may be mounted; and one that counts what is written."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if request.param == "counted":
        with mock.patch.object(os, "write", limited(disk, os.write)):
            yield disk
        return
    mount = ["mount", "-t", "tmpfs", "-o", f"size={ROOM}", "tmpfs", str(disk)]
    if os.geteuid() or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("a tmpfs may not be mounted here")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def limited(disk: Path, write):
    """os.write that fails where the files below `disk` would take more than there is room for."""

    def call(file: int, data: bytes) -> int:
        used = 0
        for path in disk.rglob("*"):
            with suppress(FileNotFoundError):
                used += path.stat().st_blocks * 512
        if used + len(data) > ROOM:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(file, data)

    return call


def test_o57_a_save_that_finds_no_room_leaves_the_room_it_found(small_disk):
    store = make_store(small_disk, "abc", "2+1", "1MiB")
    small = {"w": random_bytes(3 * MIB, 1)}
    store.save(small, step=1)
    before = set(store.objects())
    with pytest.raises(TargetsFull, match="No space left") as caught:
        store.save({"w": random_bytes(40 * MIB, 2)}, step=2)
    assert "ckpt prune" in caught.value.hint
    left = set(store.objects()) - before
    assert not [path for _, path in left if path.startswith("data/") or "/shards/" in path or "/index/" in path]
    assert_equal(store.load(), small)
    smaller = {"w": random_bytes(2 * MIB, 3)}
    assert prune_now(store, sweep_only=True) == 0
    store.save(smaller, step=3)
    assert_equal(store.load(), smaller)
    assert_equal(store.load(Selector(step=1)), small)
    assert prune_now(store) == 0
    assert [c.manifest.step for c in store.opened.group.history(RUN).checkpoints] == [3]


def test_o57_prune_makes_room_where_the_next_save_finds_none(small_disk):
    store = make_store(small_disk, "abc", "2+1", "1MiB")
    for step in (1, 2, 3):
        store.save({"w": random_bytes(4 * MIB, step)}, step=step)
    with pytest.raises(TargetsFull):
        store.save({"w": random_bytes(4 * MIB, 4)}, step=4)
    assert prune_now(store) == 0
    store.save({"w": random_bytes(4 * MIB, 4)}, step=4)
    assert_equal(store.load(), {"w": random_bytes(4 * MIB, 4)})
