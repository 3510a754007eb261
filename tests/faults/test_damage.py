"""Damage that was once mistaken for something else, each kind by itself; the campaign mixes them all."""

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from ckptstore.operations.verify import VerifyReport, verify
from ckptstore.selection import Selector
from ckptstore.targets.fault import unavailable
from tests.faults.campaign.saving import LyingTarget
from tests.faults.campaign.world import inner_name
from tests.support import RUN, LocalStore, assert_equal, make_store, random_bytes

ARRAYS = {"w": random_bytes(60_000), "b": random_bytes(77, 1)}
OLDER = {"w": random_bytes(60_000, 2), "b": random_bytes(77, 3)}


@pytest.fixture
def store(tmp_path) -> LocalStore:
    return make_store(tmp_path, fragment_size=4096, memory=True)


def report(store: LocalStore) -> VerifyReport:
    return verify(store.opened, RUN, read_data=True)


def objects(store: LocalStore) -> dict[tuple[str, str], bytes]:
    return store.objects(*store.raw)


def found(store: LocalStore) -> set[tuple[str, str, str]]:
    done = report(store)
    every = [finding for health in done.checkpoints for finding in health.findings] + done.history
    return {(finding.kind, finding.target, finding.path) for finding in every}


def assert_repaired(store: LocalStore, before: dict[tuple[str, str], bytes]) -> None:
    assert store.repair().exit_code == 0
    assert objects(store) == before
    assert report(store).exit_code == 0


# -- fragments ----------------------------------------


def test_o13_longer_objects_are_named_and_are_no_loss(store):
    manifest = store.save(ARRAYS)
    before = objects(store)
    longer = [store.fragment(manifest, number) for number in range(4)]
    for fragment in longer:
        store.raw[fragment.target].put(fragment.path, store.read(fragment) + b"trailer")
    assert report(store).exit_code == 3
    assert found(store) == {("corrupt", fragment.target, fragment.path) for fragment in longer}
    assert_repaired(store, before)


def test_o13_longer_objects_of_other_bytes_are_lost(store):
    manifest = store.save(ARRAYS)
    for number in range(3):
        fragment = store.fragment(manifest, number)
        store.raw[fragment.target].put(fragment.path, random_bytes(5000).tobytes())
    assert report(store).exit_code == 4


@pytest.mark.parametrize("what", ["fragment", "record", "index"])
def test_o56_bytes_of_an_older_save_are_refused_by_digest(store, what):
    older, newer = store.save(OLDER, step=1), store.save(ARRAYS, step=2)
    before = objects(store)
    old, new = (_place(store, manifest, what) for manifest in (older, newer))
    store.raw[new[0]].put(new[1], before[old])
    assert_equal(store.load(), ARRAYS)
    assert found(store) == {("corrupt", *new)}
    assert_repaired(store, before)


def _place(store: LocalStore, manifest, what: str) -> tuple[str, str]:
    if what == "fragment":
        fragment = store.fragment(manifest, 1)
        return fragment.target, fragment.path
    index = manifest.copies[0].index
    reference = index if what == "index" else store.index(manifest).shards[0].record
    return reference.targets[0], reference.path


def test_o65_bytes_altered_after_their_digest_was_taken_are_named_and_mended(store):
    """What is altered before its digest is taken can't be told from what was meant, by anybody."""
    honest = store.opened.targets
    liars = {
        name: LyingTarget(target, lambda path: path.endswith((".000", ".005")), lambda data: data[:-1] + b"?")
        for name, target in honest.items()
    }
    store.opened.targets = dict(liars)
    store.save(ARRAYS)
    store.opened.targets = honest
    meant = {(name, path): data for name, liar in liars.items() for path, data in liar.meant.items()}
    assert_equal(store.load(), ARRAYS)
    assert found(store) == {("corrupt", *place) for place in meant}
    assert_repaired(store, objects(store) | meant)


# -- manifests, marks and notes ----------------------------------------


@pytest.mark.parametrize("folder", ["manifests", "marks", "begun", "sessions"])
@pytest.mark.parametrize("kind", ["missing", "corrupt"])
def test_o43_every_copy_of_every_vote_is_looked_at(store, folder, kind):
    manifest = store.save(ARRAYS, step=1)
    store.opened.group.tag(RUN, manifest.session, 1, "best")
    before = objects(store)
    places = [place for place in before if f"/{folder}/" in place[1]]
    assert len(places) == len(store.raw)
    for target, path in places:
        store.raw[target].delete([path])
        if kind == "corrupt":
            store.raw[target].put(path, before[target, path][:-9])
        assert found(store) == {(kind, target, inner_name(path))}
        assert report(store).exit_code == 3
        assert_repaired(store, before)


def test_o43_votes_of_deleted_checkpoints_are_looked_at(store):
    gone = store.save(OLDER, step=1)
    store.save(ARRAYS, step=2)
    store.opened.group.delete(RUN, gone.session, 1)
    before = objects(store)
    target, path = next(place for place in before if "/marks/" in place[1])
    store.raw[target].delete([path])
    assert found(store) == {("missing", target, inner_name(path))}
    assert report(store).exit_code == 3
    assert_repaired(store, before)


@pytest.mark.parametrize("target", "abcdef")
def test_o12_a_mark_under_the_name_of_another_is_named_and_decides_nothing(store, target):
    """A delete mark where the undelete should be: the checkpoint would look deleted to whoever reads that copy."""
    manifest = store.save(ARRAYS, step=1)
    store.opened.group.delete(RUN, manifest.session, 1)
    store.opened.group.undelete(RUN, manifest.session, 1)
    before = objects(store)
    marks = [path for at, path in before if at == target and "/marks/" in path]
    undelete = next(path for path in marks if b'"undelete"' in before[target, path])
    delete = next(path for path in marks if path != undelete)
    store.raw[target].put(undelete, before[target, delete])
    assert [health.state for health in report(store).checkpoints] == ["degraded"]
    assert_equal(store.load(), ARRAYS)
    assert found(store) == {("corrupt", target, inner_name(undelete))}
    assert_repaired(store, before)


def test_votes_without_a_good_copy_are_no_success_of_a_repair(store):
    store.save(ARRAYS)
    for target, path in objects(store):
        if "/begun/" in path:
            store.raw[target].put(path, b"{}")
    assert_equal(store.load(), ARRAYS)
    done = store.repair()
    assert done.exit_code == 1
    assert "begun/" in done.failed[0]


def test_o25_a_save_whose_manifest_can_not_be_read_is_no_save_given_up(store):
    manifest = store.save(ARRAYS, step=1)
    for target, path in objects(store):
        if "/manifests/" in path:
            store.raw[target].put(path, b"{")
    history = store.opened.group.history(RUN)
    assert history.begun == ()
    assert {problem.save for problem in history.problems if problem.fatal} == {(manifest.session, 1)}
    assert (report(store).checkpoints[0].state, report(store).exit_code) == ("lost", 4)
    assert store.repair().exit_code == 4


def test_o43_a_session_on_one_target_that_answers_no_get_is_no_damage(store):
    store.save(ARRAYS)
    sessions = [place for place in objects(store) if "/sessions/" in place[1]]
    for target, path in sessions[1:]:
        store.raw[target].delete([path])
    target, path = sessions[0]
    store.faults[target].inject("get", path, error=unavailable("down", target=target))
    assert report(store).exit_code == 3  # of the copies deleted


def test_o42_a_shard_without_a_record_keeps_no_other_shard_from_verify_and_repair(store):
    manifest = store.save({"w": ARRAYS["w"], "v": OLDER["w"]}, ranks=2)
    lost = store.index(manifest).shards[0].record
    hurt = store.fragments(manifest, shard=1)[0]
    intact = store.read(hurt)
    for target in lost.targets:
        store.raw[target].delete([lost.path])
    store.remove(hurt)
    missing = {("missing", target, lost.path) for target in lost.targets}
    assert found(store) == {*missing, ("missing", hurt.target, hurt.path)}
    assert store.repair().exit_code == 4
    assert store.read(hurt) == intact
    assert found(store) == missing


# -- meanwhile ----------------------------------------


def meanwhile(store: LocalStore, act: Callable[[], None], verb: str = "get", path: str = "runs/*/index/*") -> None:
    """Let `act` happen once: when the index has been read, unless told."""
    left = [act]

    def once(data: bytes) -> bytes:
        if left:
            left.pop()()
        return data

    for fault in store.faults.values():
        fault.inject(verb, path, damage=once)


def test_o54_what_was_deleted_meanwhile_is_neither_missing_nor_lost(store):
    first = store.save(OLDER, step=1)
    fragments = store.fragments(first)

    def prune() -> None:
        store.opened.group.delete(RUN, first.session, 1)
        for fragment in fragments:
            store.remove(fragment)

    meanwhile(store, prune)
    done = report(store)
    assert (done.checkpoints[0].state, done.exit_code) == ("changed", 11)
    assert [finding.kind for finding in done.checkpoints[0].findings] == ["changed"]


def test_o54_the_others_are_judged_all_the_same(store):
    first = store.save(OLDER, step=1)
    store.save(ARRAYS, step=2)
    fragment = store.fragment(first, 5, stripe=1)

    def prune() -> None:
        store.opened.group.delete(RUN, first.session, 1)
        store.remove(fragment)

    meanwhile(store, prune)
    done = report(store)
    assert ([health.state for health in done.checkpoints], done.exit_code) == (["changed", "good"], 0)


def test_o54_what_was_repaired_meanwhile_is_looked_at_again(store):
    manifest = store.save(ARRAYS, step=1)
    store.remove(store.fragment(manifest, 0))

    def mend() -> None:
        store.heal()
        store.repair()
        store.opened.group.supersede(msgspec.structs.replace(manifest, kind="repair"))

    meanwhile(store, mend, "get_into", "data/*")
    assert report(store).exit_code == 0


# -- directories ----------------------------------------


@pytest.mark.parametrize("folder", ["data", "runs/demo/shards", "runs/demo/index", "runs/demo/commit"])
def test_a_folder_in_the_place_of_an_object_is_missing_and_in_the_way(tmp_path, folder):
    store = make_store(tmp_path, fragment_size=4096)
    store.save(ARRAYS, step=1)
    before = objects(store)
    target, path = next(place for place in sorted(before) if place[1].startswith(folder))
    file = Path(store.root, target, path)
    file.unlink()
    (file / "inner").mkdir(parents=True)
    assert_equal(store.load(Selector(step=1)), ARRAYS)
    assert found(store) == {("missing", target, inner_name(path))}
    failed = store.repair()
    assert failed.exit_code != 0
    assert [*failed.failed, *failed.checkpoints[0].failed]
    assert objects(store) == {place: data for place, data in before.items() if place != (target, path)}
    (file / "inner").rmdir()
    file.rmdir()
    assert_repaired(store, before)
