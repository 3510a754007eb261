"""Verify and repair of what is deleted and could be undeleted: an undelete is to bring it back whole."""

import numpy as np
import pytest

from ckptstore.errors import NotFoundError
from ckptstore.operations.prune import prune
from ckptstore.operations.repair import repair
from ckptstore.operations.verify import verify
from ckptstore.retention import Retention
from manifests import paths
from tests.support import RUN, LocalStore, assert_equal, make_store, random_bytes, reopen

ARRAYS = {"w": random_bytes(720_000).view(np.float32).reshape(300, 600), "b": random_bytes(77, 1)}


def fresh(store: LocalStore) -> LocalStore:
    """As the next process opens it."""
    return reopen(store.root, store.config)


def flipped(data: bytes) -> bytes:
    return bytes([data[0] ^ 1]) + data[1:]


@pytest.fixture
def deleted(tmp_path) -> LocalStore:
    """Step 1 is deleted and not removed, step 2 is live."""
    store = make_store(tmp_path)
    store.save(ARRAYS, step=1)
    store.save(ARRAYS, step=2)
    key = store.opened.group.history(RUN).checkpoints[0].key
    store.opened.group.delete(RUN, *key)
    return store


def one_of(store: LocalStore, what: str) -> tuple[str, str]:
    """A target, and the path of an object on it of the checkpoint that is deleted."""
    (checkpoint,) = store.opened.group.history(RUN).deleted
    reference = checkpoint.manifest.copies[0].index
    if what != "index":
        shard = store.index(checkpoint.manifest).shards[0]
        reference = shard.record
        if what == "fragment":
            prefix = paths.shard_data_prefix(RUN, shard.shard_id)
            return next((target, path) for target, path in sorted(store.objects()) if path.startswith(prefix))
    return reference.targets[0], reference.path


@pytest.mark.parametrize("what", ["fragment", "record", "index"])
@pytest.mark.parametrize("damage", ["gone", "flipped"])
def test_what_an_undelete_would_bring_back_is_verified_and_repaired(deleted, what, damage):
    before = deleted.objects()
    target, path = one_of(deleted, what)
    if damage == "gone":
        deleted.raw[target].delete([path])
    else:
        deleted.raw[target].put(path, flipped(before[target, path]))
    report = verify(fresh(deleted).opened, RUN, read_data=True)
    assert [health.state for health in report.checkpoints] == ["good"]
    assert [(health.step, health.state) for health in report.deleted] == [(1, "degraded")]
    assert report.exit_code == 3
    repaired = fresh(deleted).repair()
    assert (repaired.exit_code, [result.deleted for result in repaired.checkpoints]) == (0, [False, True])
    assert deleted.objects() == before
    assert verify(fresh(deleted).opened, RUN, read_data=True).exit_code == 0


def test_a_deleted_checkpoint_moves_with_a_replaced_target_and_stays_deleted(tmp_path):
    store = make_store(tmp_path, names="abcdefg", code="4+2")
    store.save(ARRAYS, step=1)
    store.opened.group.delete(RUN, *store.opened.group.history(RUN).checkpoints[0].key)
    report = repair(store.opened, RUN, replace={"a": "g"})
    assert (report.exit_code, report.checkpoints[0].deleted) == (0, True)
    assert (report.voting, report.replaced) == (["a"], [])
    history = store.opened.group.history(RUN)
    assert (history.checkpoints, len(history.deleted)) == ((), 1)
    store.opened.group.undelete(RUN, *history.deleted[0].key)
    assert_equal(fresh(store).load(), ARRAYS)
    assert "a" not in store.index(history.deleted[0].manifest).shards[0].record.targets


def test_a_deleted_checkpoint_that_is_lost_counts_as_degraded(deleted):
    (checkpoint,) = deleted.opened.group.history(RUN).deleted
    path = checkpoint.manifest.copies[0].index.path
    for target in deleted.raw.values():
        target.delete([path])
    report = verify(fresh(deleted).opened, RUN)
    assert ([health.state for health in report.deleted], report.exit_code) == (["lost"], 3)
    assert fresh(deleted).repair().exit_code == 3


def test_what_is_being_removed_is_neither_verified_nor_repaired(deleted):
    rules = Retention(keep_last=1, grace="0")
    prune(deleted.opened, RUN, rules)
    assert verify(fresh(deleted).opened, RUN).deleted == []
    assert [result.deleted for result in fresh(deleted).repair().checkpoints] == [False]


@pytest.mark.parametrize(("damage", "code"), [(None, 0), ("one target's data", 3), ("too much", 3)])
def test_where_all_is_deleted_verify_and_repair_say_the_same_of_it(tmp_path, damage, code):
    store = make_store(tmp_path, memory=True)
    store.save(ARRAYS, step=1)
    store.opened.group.delete(RUN, *store.opened.group.history(RUN).checkpoints[0].key)
    for target in {None: "", "one target's data": "a", "too much": "abc"}[damage]:
        store.raw[target].delete([path for at, path in store.objects(target) if path.startswith("data/")])
    report = verify(store.opened, RUN)
    assert (report.exit_code, report.checkpoints, len(report.deleted)) == (code, [], 1)
    assert repair(store.opened, RUN, dry_run=True).exit_code == code
    assert repair(store.opened, RUN).exit_code == (3 if damage == "too much" else 0)
    assert verify(store.opened, RUN).exit_code == (3 if damage == "too much" else 0)


def test_where_all_is_removed_neither_has_anything_to_look_at(tmp_path):
    store = make_store(tmp_path, memory=True)
    store.save(ARRAYS, step=1)
    store.opened.group.delete(RUN, *store.opened.group.history(RUN).checkpoints[0].key)
    prune(store.opened, RUN, Retention(grace="0"), sweep_only=True)
    for look in (verify, repair):
        with pytest.raises(NotFoundError):
            look(store.opened, RUN)
