"""What is stored: the records' sums are what lies on the targets, byte for byte, and orphans are told apart."""

import numpy as np
import pytest

from ckptstore.errors import TargetError
from ckptstore.operations.copying import copy
from ckptstore.operations.listing import Orphans, add_listing
from ckptstore.operations.marking import delete
from ckptstore.operations.prune import prune
from ckptstore.operations.usage import Usage, read_usage, total
from ckptstore.retention import Retention
from ckptstore.selection import Selector
from manifests import paths
from tests.support import RUN, make_store, random_bytes


@pytest.fixture
def store(tmp_path):
    made = make_store(tmp_path / "targets")
    for step in (1, 2):
        made.save({"w": random_bytes(500_001, step), "b": np.zeros((0, 3), np.int32)}, step=step, ranks=2)
    return made


def on_disk(store, run=RUN):
    """Bytes by target of everything of a run but its votes."""
    sums = dict.fromkeys(store.raw, 0)
    for (target, path), data in store.objects().items():
        parts = path.split("/")
        if (parts[0] == "data" and parts[2] == run) or (parts[:2] == ["runs", run] and parts[2] != "commit"):
            sums[target] += len(data)
    return sums


def by_target(report):
    sums = {}
    for checkpoint in report.checkpoints:
        for target, usage in checkpoint.targets.items():
            sums[target] = sums.get(target, 0) + usage.stored
    return sums


def test_what_is_recorded_is_what_lies_there(store):
    report = read_usage(store.opened, [RUN])
    assert by_target(report) == on_disk(store)
    assert [(c.name, c.step, c.deleted) for c in report.checkpoints] == [("step-1", 1, False), ("step-2", 2, False)]
    for checkpoint in report.checkpoints:
        assert checkpoint.usage.data == checkpoint.logical
        assert checkpoint.usage.parity == pytest.approx(checkpoint.logical / 2, abs=16)
        assert checkpoint.freed == checkpoint.usage.stored


def test_a_listing_says_the_same_of_a_sound_store(store):
    recorded = read_usage(store.opened, [RUN])
    listed = read_usage(store.opened, [RUN])
    beside = add_listing(store.opened, listed, [RUN])
    assert [c.targets for c in listed.checkpoints] == [c.targets for c in recorded.checkpoints]
    assert all(not found.orphans and found.votes > 0 for found in beside.values())


def test_what_is_gone_is_not_listed(store):
    manifest = store.latest()
    gone = [fragment for fragment in store.fragments(manifest) if fragment.target == "c"]
    size = sum(len(store.read(fragment)) for fragment in gone)
    for fragment in gone:
        store.remove(fragment)
    report = read_usage(store.opened, [RUN])
    add_listing(store.opened, report, [RUN])
    last = report.checkpoints[-1]
    assert last.recorded["c"].stored - last.listed["c"].stored == size > 0
    assert by_target(report) == on_disk(store)


def test_what_a_deleted_one_frees_is_what_a_prune_frees(store):
    delete(store.opened, RUN, Selector(step=1))
    first = read_usage(store.opened, [RUN]).checkpoints[0]
    assert first.deleted
    before = on_disk(store)
    prune(store.opened, RUN, Retention(grace="0s"), sweep_only=True)
    after = on_disk(store)
    assert sum(before.values()) - sum(after.values()) == first.freed
    assert [c.name for c in read_usage(store.opened, [RUN]).checkpoints] == ["step-2"]


def test_orphans_are_told_apart_and_by_run(store, tmp_path):
    shard_id, data = "ab" * 16, b"x" * 1000
    store.raw["a"].put(paths.fragment(RUN, shard_id, 0, 0), data)
    store.raw["a"].put(paths.fragment(RUN, shard_id, 0, 1), data)
    store.raw["b"].put(paths.record(RUN, shard_id), data)
    store.raw["b"].put(paths.index(RUN, "cd" * 16), data)
    store.raw["b"].put(paths.fragment("other", shard_id, 0, 0), data)
    store.raw["b"].put(f"runs/{RUN}/notes.txt", data)
    report = read_usage(store.opened, [RUN])
    beside = add_listing(store.opened, report, [RUN])
    assert {name: found.orphans for name, found in beside.items() if found.orphans} == {
        "a": {RUN: Orphans(2, 2000)},
        "b": {RUN: Orphans(2, 2000)},
    }


def test_what_is_committed_meanwhile_is_no_orphan(store):
    report = read_usage(store.opened, [RUN])
    store.save({"w": random_bytes(300_000)}, step=3)
    assert all(not found.orphans for found in add_listing(store.opened, report, [RUN]).values())


def test_where_an_index_can_t_be_read_nothing_is_an_orphan(store):
    index = store.latest().copies[0].index
    for name in index.targets:
        store.raw[name].put(index.path, b"nonsense")
    store.raw["a"].put(paths.fragment(RUN, "ab" * 16, 0, 0), b"x")
    report = read_usage(store.opened, [RUN])
    assert [c.name for c in report.checkpoints] == ["step-1"]
    assert [error.kind for error in report.errors.values()] == ["CorruptError"]
    assert all(not found.orphans for found in add_listing(store.opened, report, [RUN]).values())


def test_a_target_out_of_reach_counts_as_recorded(store):
    recorded = by_target(read_usage(store.opened, [RUN]))
    store.take_away("c")
    report = read_usage(store.opened, [RUN])
    beside = add_listing(store.opened, report, [RUN])
    assert isinstance(beside["c"], TargetError)
    assert by_target(report) == recorded


def test_several_runs_and_what_a_repair_moved(tmp_path):
    store = make_store(tmp_path / "targets", "abcdef", spare="g")
    store.save({"w": random_bytes(400_000)}, step=1)
    copy(store.opened, RUN, None, store.opened, "kept")
    store.repair(replace={"b": "g"})
    report = read_usage(store.opened, [RUN, "kept"])
    assert [c.run for c in report.checkpoints] == [RUN, "kept"]
    add_listing(store.opened, report, [RUN, "kept"])
    sums = on_disk(store)
    for name, nbytes in on_disk(store, "kept").items():
        sums[name] += nbytes
    found = by_target(report)
    assert {name: found.get(name, 0) for name in sums} == sums
    assert found["g"] > 0


def test_usages_add_up():
    assert total([Usage(1, 2, 3), Usage(10, 20, 30)]) == Usage(11, 22, 33)
    assert total([]).stored == 0
