"""What nobody can read any more, or nobody put there: it is told, and can be got rid of."""

import pytest

from ckptstore.errors import CorruptError
from ckptstore.operations.repair import repair
from ckptstore.operations.verify import verify
from ckptstore.selection import Selector
from ckptstore.store import Run
from manifests import Manifest, paths
from tests.operations.test_prune import DAY, data_and_documents, pass_time, pruned, saved, state, steps
from tests.support import RUN, LocalStore, assert_equal, make_store, read_all, reopen


@pytest.fixture
def store(tmp_path) -> LocalStore:
    return make_store(tmp_path)


def commit_folder(store: LocalStore, target: str) -> str:
    return paths.commit_prefix(RUN, store.opened.group.standings[target].incarnation)


def damage_every_manifest(store: LocalStore, manifest: Manifest) -> str:
    """The key of a save of which one damaged copy is left: it died after the first put, and that one rotted."""
    name = paths.manifest_name(manifest.session, manifest.ordinal, version=1)
    for target in "bcdef":
        store.raw[target].delete([commit_folder(store, target) + name])
    path = commit_folder(store, "a") + name
    store.raw["a"].put(path, store.raw["a"].get(path)[:100])
    return paths.save_name(manifest.session, manifest.ordinal)


def test_a_save_that_nobody_can_read_can_be_deleted_by_its_key_and_goes_after_the_grace_period(store):
    _, two, _ = saved(store, 1, 2, 3)
    key = damage_every_manifest(store, two)
    run = Run(reopen(store.root, store.config).config, RUN)
    assert verify(store.opened, RUN).exit_code == 4
    with pytest.raises(CorruptError):
        run.delete("nobody")
    gone = run.delete(key)
    assert (gone.key, gone.state, gone.step) == (key, "lost", None)
    kept = data_and_documents(store)
    report = pruned(store, sweep_only=True)
    assert (report.exit_code, data_and_documents(store)) == (1, kept), "what it holds waits for its grace period"
    assert "waits for its grace period" in report.blocked[0]
    pass_time(store, 8 * DAY)
    report = pruned(store, sweep_only=True)
    assert (report.left, report.exit_code) == ([], 0)
    assert data_and_documents(store) < kept
    assert steps(store) == [1, 3]
    assert verify(store.opened, RUN, read_data=True).exit_code == 0
    assert_equal(read_all(store.source(Selector(step=1))), state(1))


def test_a_good_copy_that_comes_back_of_a_save_deleted_so_is_deleted_too(store):
    _, two = saved(store, 1, 2)
    path = commit_folder(store, "b") + paths.manifest_name(two.session, two.ordinal, version=1)
    data = store.raw["b"].get(path)
    run = Run(store.config, RUN)
    run.delete(damage_every_manifest(store, two))
    store.raw["b"].put(path, data)
    assert steps(store) == [1]
    assert run.undelete(2).step == 2
    assert_equal(read_all(store.source(Selector(step=2))), state(2))


@pytest.mark.parametrize(
    "name",
    [
        "sessions/000099.abc",
        "sessions/999999999.abc",
        "begun/999999999.abc.000001",
        "voiding/999999999.abc.000001",
        "collected/999999999.abc.000001",
        "marks/999999999.abc.000001/abc",
        "manifests/{key}/000003.abcdef",
    ],
)
def test_a_vote_that_one_target_lists_and_nobody_can_read_is_removed_by_a_repair(store, name):
    (one,) = saved(store, 1)
    before = store.objects()
    name = name.format(key=paths.save_name(one.session, one.ordinal))
    store.raw["a"].put(commit_folder(store, "a") + name, b"")
    assert repair(reopen(store.root, store.config).opened, RUN).exit_code == 0
    assert store.objects() == before
    fresh = reopen(store.root, store.config)
    assert verify(fresh.opened, RUN).exit_code == 0
    saved(fresh, 2)
    assert steps(fresh) == [1, 2]


def test_a_number_that_nothing_can_follow_is_told_with_what_to_remove(store):
    saved(store, 1)
    name = paths.manifest_name("999999999.abc", 1, version=1)
    store.raw["a"].put(commit_folder(store, "a") + name, b"")
    fresh = reopen(store.root, store.config)
    with pytest.raises(CorruptError, match="remove what has 999999999 in its name"):
        saved(fresh, 2)
    run = Run(fresh.config, RUN)
    run.delete("999999999.abc.000001")
    pass_time(store, 8 * DAY)
    assert pruned(fresh, sweep_only=True).exit_code == 0
    saved(reopen(store.root, store.config), 2)
    assert steps(store) == [1, 2]


@pytest.mark.parametrize("folder", ["", "manifests/", "manifests/{key}/", "marks/", "sessions/"])
def test_what_is_no_vote_is_named_and_does_no_harm(store, folder):
    (one,) = saved(store, 1)
    name = folder.format(key=paths.save_name(one.session, one.ordinal)) + ".nfs0000000001"
    store.raw["a"].put(commit_folder(store, "a") + name, b"x")
    report = verify(store.opened, RUN)
    assert (report.exit_code, [(f.target, f.path) for f in report.strange]) == (0, [("a", name)])
    assert repair(store.opened, RUN).exit_code == 0
