"""The power fails under local directories, and what was not synced is gone (case O49)."""

import os
import random
import shutil
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from unittest import mock

import pytest

from ckptstore.errors import CkptStoreError
from ckptstore.targets.directory import DirectoryTarget
from manifests import ManifestError
from tests.faults.crash.killing import Killed, one_by_one
from tests.faults.crash.powercut import PowerCut, unsynced
from tests.faults.crash.sweeps import SWEEPS, Sweep, check, expected_kinds, settle
from tests.faults.crash.world import FolderWorld, folder_world, kinds
from tests.faults.report import Proof, keep


@pytest.fixture
def pristine(tmp_path) -> Callable[[Sweep], FolderWorld]:
    def make(sweep: Sweep) -> FolderWorld:
        world = folder_world(tmp_path / "pristine")
        with unsynced():
            sweep.prepared(world)
        return world

    return make


def calls_of(sweep: Sweep, pristine: FolderWorld) -> int:
    """How many calls of the operating system the whole of it makes."""
    world = pristine.copy()
    cut = PowerCut(world.root)
    with cut.watching(), one_by_one():
        sweep.act(world.open())
    shutil.rmtree(world.root)
    return cut.calls


def cut_at(
    sweep: Sweep,
    pristine: FolderWorld,
    at: int | None,
    seed: int | None = None,
    also: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> FolderWorld:
    """The power fails at call `at`, or right after all was done. Returns the disk that is found, all promises kept.

    What was not synced is lost, or with a seed some of it.
    """
    world = pristine.copy()
    cut = PowerCut(world.root, at)
    done = False
    with cut.watching(), also(), one_by_one(), suppress(Killed):
        store = world.open()
        sweep.act(store)
        done = True
    after = world.at(Path(f"{world.root}-after"))
    chance = random.Random(seed)
    cut.restore(after.root, (lambda: chance.random() < 0.5) if seed is not None else lambda: False)
    gone(world.root)
    with unsynced():
        check(sweep, after, done=done)
    return after


def gone(folder: Path) -> None:
    """Remove what no test looks at any more; a thread of the store that was cut off may still be writing there."""
    for _ in range(100):
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return
        time.sleep(0.1)
    raise AssertionError(f"{folder} is still being written to")


@pytest.mark.parametrize("name", ["save", "prune"])
def test_o49_a_power_cut_takes_nothing_that_was_reported_durable(name, pristine):
    sweep = SWEEPS[name]
    world = pristine(sweep)
    calls = calls_of(sweep, world)
    assert calls > 50
    for at in (None, calls // 3, calls - 9):
        shutil.rmtree(cut_at(sweep, world, at, seed=at).root)


@pytest.mark.parametrize("forgotten", ["file", "folder"])
def test_a_target_that_does_not_sync_is_found_out(forgotten, pristine):
    world = pristine(SWEEPS["save"])
    with pytest.raises((CkptStoreError, ManifestError, AssertionError)):
        cut_at(SWEEPS["save"], world, None, also=lambda: forgetting(forgotten))


@contextmanager
def forgetting(kind: str) -> Iterator[None]:
    """Never sync files, or folders."""
    sync = os.fsync

    def forgetful(file: int) -> None:
        if stat.S_ISDIR(os.fstat(file).st_mode) != (kind == "folder"):
            sync(file)

    with mock.patch.object(os, "fsync", forgetful):
        yield


def test_o49_folders_that_get_the_numbers_of_removed_ones_are_durable_too(tmp_path):
    """ext4 gives the inode of a folder that was removed to the next one that is made."""
    target = DirectoryTarget("t", tmp_path / "t")
    target.create_root()
    target.put("one/two/a", b"x")
    cut = PowerCut(tmp_path / "t")
    with cut.watching():
        target.delete(["one/two/a"])
        for number in range(4):
            target.put(f"other{number}/more{number}/b", b"y")
    cut.restore(tmp_path / "after")
    after = DirectoryTarget("after", tmp_path / "after")
    assert [after.get(f"other{number}/more{number}/b") for number in range(4)] == [b"y"] * 4


@pytest.mark.soak
def test_o49_a_power_cut_at_every_call(pristine, tmp_path):
    began, rows, failures = time.monotonic(), [], []
    for name, sweep in SWEEPS.items():
        world = pristine(sweep)
        calls = calls_of(sweep, world)
        expected = expected_kinds(sweep, world)
        swept = 0
        for at in range(1, calls + 1, 3):
            for seed in (None, at):
                swept += 1
                try:
                    after = cut_at(sweep, world, at, seed)
                    with unsynced():
                        settle(after)
                    assert kinds(after) == expected
                except Exception as error:  # noqa: BLE001 - told with its point
                    failures.append(f"{name} at {at}, seed {seed}: {error!r}")
                gone(tmp_path / "copies")
        rows.append([name, calls, swept])
        shutil.rmtree(world.root)
    counts = {"power cuts": sum(row[-1] for row in rows), "promises broken": len(failures)}
    keep("power-cuts", Proof(TITLE, COMMAND, TEXT, counts, time.monotonic() - began, [[HEADINGS, *rows]]))
    assert not failures, failures[:10]


TITLE = "A power cut under local directories"
COMMAND = ".venv/bin/pytest -m soak tests/faults/crash/test_power_cut.py --timeout 7200"
HEADINGS = ["what is cut off", "calls of the operating system", "cuts"]
TEXT = """Code 2+1 on three directories. The power fails at every third call that makes, names, syncs or removes a file;
once all that was not synced is lost, once half of it at random. The checks are those of a process that dies."""
