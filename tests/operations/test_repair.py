"""Repair: the store ends byte-equal, nothing good is touched, and what is merely out of reach is left alone."""

from collections import Counter

import numpy as np
import pytest
from msgspec.structs import replace

import manifests.wire
from ckptstore.errors import AccessDenied, NoSpace, UsageError
from ckptstore.operations.repair import RepairReport, repair
from ckptstore.operations.verify import verify
from ckptstore.selection import Selector
from ckptstore.targets.fault import unavailable
from manifests import Manifest, Reference
from tests.support import RUN, LocalStore, assert_equal, make_store, random_bytes, reopen

ARRAYS = {"w": random_bytes(720_000).view(np.float32).reshape(300, 600), "b": random_bytes(77, 1)}
Objects = dict[tuple[str, str], bytes]


@pytest.fixture
def store(tmp_path) -> LocalStore:
    return make_store(tmp_path)


def fresh(store: LocalStore) -> LocalStore:
    """As the next process opens it."""
    return reopen(store.root, store.config)


def reference_of(store: LocalStore, manifest: Manifest, what: str) -> Reference:
    index = manifest.copies[0].index
    return index if what == "index" else store.index(manifest).shards[0].record


def done(report: RepairReport) -> Counter:
    each = report.checkpoints
    return (
        Counter(
            {name: sum(getattr(r, name) for r in each) for name in ("rebuilt", "moved", "restored")}
            | {"votes": report.votes, "failed": sum(len(r.failed) for r in each)}
        )
        + Counter()
    )


def assert_whole(store: LocalStore) -> None:
    """Verified, and a second repair finds nothing to do."""
    health = store.verify(read_data=True)
    assert (health.state, health.tolerance.targets, health.findings) == ("good", 2, [])
    before = store.digest()
    again = store.repair()
    assert (again.exit_code, done(again), again.readmitted) == (0, Counter(), [])
    assert store.digest() == before


# -- in place ----------------------------------------


def test_repair_of_a_good_store_changes_nothing(store):
    store.save(ARRAYS)
    assert_whole(store)


def repairable(store: LocalStore) -> list[tuple[str, str]]:
    """Every object that repair must be able to put back: all but a target's own standing, and what no reader needs."""
    spared = ("/begun/", "/sessions/")
    found = [key for key in sorted(store.objects(*"abcdef")) if key[1].startswith(("data/", "runs/"))]
    return [(target, path) for target, path in found if not any(part in path for part in spared)]


@pytest.mark.parametrize("damage", ["delete", "flip", "truncate", "empty"])
def test_o17_byte_equal_after_any_single_damage(tmp_path, damage):
    store = make_store(tmp_path, memory=True)
    manifest = store.save({"w": random_bytes(200_000)})
    store.opened.group.delete(RUN, manifest.session, 1)
    store.opened.group.undelete(RUN, manifest.session, 1)
    before = store.objects(*"abcdef")
    for target, path in repairable(store):
        hurt(store, target, path, damage)
        assert store.repair().exit_code == 0, path
        assert store.objects(*"abcdef") == before, path


def hurt(store: LocalStore, target: str, path: str, damage: str) -> None:
    data = bytearray(store.raw[target].get(path))
    if damage == "delete":
        store.raw[target].delete([path])
        return
    if damage == "flip":
        data[len(data) // 2] ^= 1
    store.raw[target].put(path, bytes(data[: {"truncate": len(data) - 1, "empty": 0}.get(damage, len(data))]))


def test_o42_missing_and_rotten_are_rebuilt_with_one_target_slow(store):
    manifest = store.save(ARRAYS)
    before = store.objects()
    store.remove(store.fragment(manifest, 0))
    store.flip(store.fragment(manifest, 1))
    slow = store.fragment(manifest, 3).target
    store.faults[slow].inject("get_into", "data/*", seconds=0.1)
    report = store.repair()
    assert (report.exit_code, done(report)) == (0, Counter(rebuilt=2))
    assert store.objects() == before


def test_only_what_is_bad_is_written(store):
    manifest = store.save(ARRAYS)
    bad = store.fragment(manifest, 2)
    store.flip(bad)
    for meter in store.meters.values():
        meter.reset()
    store.repair()
    written = [(name, *p) for name, meter in store.meters.items() for p in meter.paths if p[0].startswith("put")]
    assert written == [(bad.target, "put", bad.path)]


@pytest.mark.parametrize("what", ["index", "record"])
def test_o43_copies_of_documents_come_back(store, what):
    manifest = store.save(ARRAYS)
    before = store.objects()
    reference = reference_of(store, manifest, what)
    store.raw[reference.targets[0]].delete([reference.path])
    store.raw[reference.targets[1]].put(reference.path, b"{}")
    report = store.repair()
    assert (report.exit_code, done(report)) == (0, Counter(restored=2))
    assert store.objects() == before


def test_a_document_that_another_zlib_compressed_comes_back_as_it_was(store, monkeypatch):
    """The bytes are referred to by digest: compressing the document again need not give them."""
    monkeypatch.setattr(manifests.wire, "GZIP_FROM", 0)
    compress = manifests.wire.zlib.compressobj
    monkeypatch.setattr(manifests.wire.zlib, "compressobj", lambda **how: compress(1, **how))
    manifest = store.save(ARRAYS)
    monkeypatch.undo()
    before = store.objects()
    reference = reference_of(store, manifest, "record")
    store.raw[reference.targets[0]].delete([reference.path])
    store.repair()
    assert store.objects() == before


def test_o43_manifests_missing_on_m_targets_and_rotten_on_one_come_back(store):
    store.save(ARRAYS)
    before = store.objects()
    copies = {target: path for target, path in before if "/manifests/" in path}
    store.raw["a"].delete([copies["a"]])
    store.raw["b"].delete([copies["b"]])
    hurt(store, "c", copies["c"], "flip")
    assert_equal(store.load(), ARRAYS)
    report = store.repair()
    assert (report.exit_code, done(report)) == (0, Counter(votes=3))
    assert store.objects() == before


# -- out of reach ----------------------------------------


def test_nothing_moves_off_a_target_that_is_merely_down(store):
    manifest = store.save(ARRAYS)
    before = store.objects()
    store.take_away("a")
    later = fresh(store)
    report = later.repair()
    assert (report.exit_code, done(report)) == (3, Counter())
    store.bring_back("a")
    assert store.objects() == before
    assert store.latest() == manifest
    assert_whole(fresh(store))


def test_what_is_bad_elsewhere_is_repaired_meanwhile(store):
    manifest = store.save(ARRAYS)
    before = store.objects()
    bad = store.fragment(manifest, 2)
    store.flip(bad)
    away = next(name for name in "abcdef" if name != bad.target)
    store.take_away(away)
    report = fresh(store).repair()
    assert (report.exit_code, done(report)) == (3, Counter(rebuilt=1))
    store.bring_back(away)
    assert store.objects() == before


def test_fragments_that_a_target_failed_to_take_get_a_home(store):
    store.faults["c"].inject("put", "data/*", error=unavailable("down", target="c"))
    store.save(ARRAYS, step=1)
    store.heal()
    assert store.repair().exit_code == 0
    assert_whole(store)
    assert_equal(store.load(), ARRAYS)
    manifest = store.latest()
    assert (manifest.kind, manifest.version, manifest.tolerance.targets, manifest.missing) == ("repair", 2, 2, [])


def test_o19_doubled_up_fragments_move_when_targets_return(store):
    store.take_away("a", "b")
    old = store.save(ARRAYS, step=1)
    store.bring_back("a", "b")
    later = fresh(store)
    report = later.repair()
    moved = done(report)["moved"]
    assert report.exit_code == 0
    assert moved == 2 * len(later.record(old).stripes)
    assert_whole(later)
    assert all(len(set(row)) == len(row) for row in later.homes(later.latest()))
    assert {f for f in later.fragments(old) if f.target not in "ab"} <= set(later.fragments(old))
    assert_equal(later.load(), ARRAYS)
    later.take_away("c", "d")
    assert_equal(fresh(later).load(), ARRAYS)


def test_moved_fragments_leave_the_old_ones_alone(store):
    store.take_away("a", "b")
    old = store.save(ARRAYS, step=1)
    before = store.objects()
    store.bring_back("a", "b")
    fresh(store).repair()
    after = store.objects()
    assert all(after[key] == data for key, data in before.items())
    assert store.record(old) is not None


# -- replaced and wiped targets ----------------------------------------


@pytest.mark.parametrize("gone", ["down", "wiped", "there"])
def test_a_target_is_replaced_by_a_new_one(tmp_path, gone):
    store = make_store(tmp_path, spare="g")
    store.save(ARRAYS, step=1)
    store.save(ARRAYS, step=2)
    if gone == "down":
        store.take_away("b")
    if gone == "wiped":
        store.wipe("b")
    report = fresh(store).repair(replace={"b": "g"})
    assert (report.exit_code, report.readmitted) == (0, ["g"])
    without = [spec for spec in store.config.targets if spec.name != "b"]
    later = reopen(tmp_path, replace(store.config, targets=without))
    for step in (1, 2):
        assert not [t for row in later.homes(later.source(Selector(step=step)).manifest) for t in row if t == "b"]
        assert_equal(later.load(Selector(step=step)), ARRAYS)
    assert_whole(later)
    assert sorted(later.opened.group.members.targets) == list("acdefg")
    later.take_away("a", "c")
    assert_equal(reopen(tmp_path, later.config).load(), ARRAYS)


def test_a_replacement_that_the_settings_lack_is_refused(store):
    store.save(ARRAYS)
    before = store.digest()
    with pytest.raises(UsageError, match="g"):
        store.repair(replace={"a": "g"})
    assert store.digest() == before


def test_a_wiped_target_is_admitted_again_and_filled(store):
    store.save(ARRAYS, step=1)
    data = {key: value for key, value in store.objects().items() if key[1].startswith("data/")}
    store.wipe("a")
    later = fresh(store)
    report = later.repair()
    assert (report.exit_code, report.readmitted) == (0, ["a"])
    assert {key: value for key, value in store.objects().items() if key[1].startswith("data/")} == data
    assert_whole(later)


def test_m_wiped_targets_too(store):
    store.save(ARRAYS, step=1)
    store.wipe("a", "b")
    later = fresh(store)
    assert later.repair().readmitted == ["a", "b"]
    assert_whole(later)
    later.take_away("c", "d")
    assert_equal(fresh(later).load(), ARRAYS)


def test_a_wiped_target_without_votes_gets_its_identity_back(tmp_path):
    names = "abcdef"
    store = make_store(tmp_path, names)
    fragments_only = [replace(spec, commit=spec.name != "f") for spec in store.config.targets]
    store.opened.group.change_members(list("abcde"), 2)
    later = reopen(tmp_path, replace(store.config, targets=fragments_only))
    later.save(ARRAYS)
    later.wipe("f")
    later = reopen(tmp_path, later.config)
    report = later.repair()
    assert (report.exit_code, report.readmitted) == (0, ["f"])
    assert later.verify(read_data=True).state == "good"
    assert_equal(later.load(), ARRAYS)


@pytest.mark.parametrize("damage", ["delete", "flip"])
def test_documents_of_older_versions_come_back_too(tmp_path, damage):
    """They are kept: a store that lost a target and was repaired is byte-equal to one that never did."""
    store = make_store(tmp_path, "abc", "2+1", spare="d")
    first = store.save({"w": random_bytes(20_000)})
    assert store.repair(replace={"c": "d"}).exit_code == 0
    before = store.objects(*"abd")
    assert store.latest().version == 2
    for reference in (first.copies[0].index, store.index(first).shards[0].record):
        for target in sorted(set(reference.targets) - {"c"}):
            hurt(store, target, reference.path, damage)
            assert [f.path for f in store.verify().findings] == [reference.path]
            assert done(store.repair()) == Counter(restored=1)
            assert store.objects(*"abd") == before


def test_a_wiped_target_gets_the_documents_of_older_versions_too(tmp_path):
    store = make_store(tmp_path, "abc", "2+1", spare="d")
    store.save({"w": random_bytes(20_000)})
    store.repair(replace={"c": "d"})
    own = ("ckptstore.json", "incarnations/")
    before = {k: v for k, v in store.objects(*"abd").items() if not k[1].startswith(own) and "/commit/" not in k[1]}
    for name in "abd":
        store.wipe(name)
        assert fresh(store).repair().exit_code == 0
        after = store.objects(*"abd")
        assert {key: after.get(key) for key in before} == before


def test_documents_of_older_versions_that_are_nowhere_any_more_are_no_damage(tmp_path):
    store = make_store(tmp_path, "abc", "2+1", spare="d")
    first = store.save({"w": random_bytes(20_000)})
    store.repair(replace={"c": "d"})
    for name in "abcd":
        store.raw[name].delete([first.copies[0].index.path])
    assert store.verify().state == "good"
    assert done(store.repair()) == Counter()


# -- failures ----------------------------------------


def test_o42_a_repair_that_fails_leaves_every_good_fragment(store):
    manifest = store.save(ARRAYS)
    bad = store.fragment(manifest, 1)
    store.remove(bad)
    before = store.objects()
    store.faults[bad.target].inject("put", "data/*", error=NoSpace("full", target=bad.target))
    report = store.repair()
    assert (report.exit_code, done(report)) == (3, Counter(failed=1))
    assert store.objects() == before
    store.heal()
    assert done(store.repair()) == Counter(rebuilt=1)
    assert_whole(store)


def test_o42_a_move_that_fails_forgets_no_good_fragment(store):
    store.take_away("a", "b")
    store.save(ARRAYS, step=1)
    store.bring_back("a", "b")
    later = fresh(store)
    later.faults["a"].inject("put", "data/*", error=NoSpace("full", target="a"))
    report = later.repair()
    assert report.exit_code == 3
    assert done(report)["failed"] > 0
    health = later.verify(read_data=True)
    assert health.tolerance.targets >= 1
    assert {f.kind for f in health.findings} == {"doubled"}
    assert_equal(later.load(), ARRAYS)
    later.heal()
    assert later.repair().exit_code == 0
    assert_whole(later)


def test_a_move_that_wholly_fails_writes_no_new_version(store):
    store.take_away("a", "b")
    manifest = store.save(ARRAYS, step=1)
    store.bring_back("a", "b")
    later = fresh(store)
    for name in "ab":
        later.faults[name].inject("put", "data/*", error=NoSpace("full", target=name))
    assert later.repair().exit_code == 3
    assert later.latest() == manifest


def test_a_corrupt_fragment_that_could_not_be_replaced_is_no_success(store):
    """It has its size: only reading it shows that it is bad still."""
    manifest = store.save(ARRAYS)
    bad = store.fragment(manifest, 1)
    store.flip(bad)
    store.faults[bad.target].inject("put", "data/*", error=NoSpace("full", target=bad.target))
    report = store.repair()
    assert (report.exit_code, report.checkpoints[0].state) == (3, "degraded")
    assert report.checkpoints[0].failed


def test_o42_repair_of_one_goes_on_when_another_is_lost(store):
    lost, hurt_one = store.save(ARRAYS, step=1), store.save(ARRAYS, step=2)
    for number in range(3):
        store.remove(store.fragment(lost, number))
    store.remove(store.fragment(hurt_one, 0))
    kept = store.objects()
    report = store.repair()
    assert [result.state for result in report.checkpoints] == ["lost", "good"]
    assert report.exit_code == 4
    assert done(report) == Counter(rebuilt=1, failed=1)
    assert all(store.objects()[key] == data for key, data in kept.items())


def test_a_lost_stripe_does_not_keep_the_others_from_repair(store):
    manifest = store.save(ARRAYS)
    for number in range(3):
        store.remove(store.fragment(manifest, number, stripe=0))
    bad = store.fragment(manifest, 4, stripe=1)
    store.remove(bad)
    report = store.repair()
    assert (report.exit_code, done(report)) == (4, Counter(rebuilt=1, failed=1))
    assert store.read(bad)


def test_o43_a_lost_index_keeps_nothing_else_from_repair(store):
    first, second = store.save(ARRAYS, step=1), store.save(ARRAYS, step=2)
    for name in first.copies[0].index.targets:
        store.raw[name].delete([first.copies[0].index.path])
    store.remove(store.fragment(second, 0))
    report = store.repair()
    assert [result.state for result in report.checkpoints] == ["lost", "good"]
    assert done(report)["rebuilt"] == 1


def test_out_of_reach_is_not_called_lost(store):
    manifest = store.save(ARRAYS)
    for number in (0, 2):
        store.remove(store.fragment(manifest, number))
    away = store.fragment(manifest, 1).target
    store.take_away(away)
    report = fresh(store).repair()
    assert report.exit_code == 5
    store.bring_back(away)
    assert fresh(store).repair().exit_code == 0
    assert_whole(fresh(store))


# -- dry run ----------------------------------------


def test_a_dry_run_says_what_would_be_done_and_writes_nothing(store):
    manifest = store.save(ARRAYS)
    store.remove(store.fragment(manifest, 0))
    store.flip(store.fragment(manifest, 1))
    reference = reference_of(store, manifest, "record")
    store.raw[reference.targets[0]].delete([reference.path])
    before = store.digest()
    planned = store.repair(dry_run=True)
    assert store.digest() == before
    assert done(planned) == done(store.repair()) == Counter(rebuilt=2, restored=1)


def test_a_dry_run_counts_moves(store):
    store.take_away("a", "b")
    store.save(ARRAYS, step=1)
    store.bring_back("a", "b")
    later = fresh(store)
    planned = later.repair(dry_run=True)
    carried_out = later.repair()
    assert planned.checkpoints[0].moved == carried_out.checkpoints[0].moved > 0
    assert planned.checkpoints[0].bytes == carried_out.checkpoints[0].bytes > 0


def test_a_run_s_selection_is_respected(store):
    first, second = store.save(ARRAYS, step=1), store.save(ARRAYS, step=2)
    for manifest in (first, second):
        store.remove(store.fragment(manifest, 0))
    report = repair(store.opened, RUN, Selector(step=2))
    assert [result.name for result in report.checkpoints] == ["step-2"]
    assert store.verify(Selector(step=1)).state == "degraded"


def test_a_dry_run_tells_of_a_wiped_target_what_a_repair_then_does(store):
    store.save(ARRAYS, step=1)
    store.wipe("b")
    later = fresh(store)
    planned = later.repair(dry_run=True)
    assert planned.readmitted == ["b"]
    done = fresh(store).repair()
    assert done.readmitted == ["b"]
    assert (planned.checkpoints[0].rebuilt, planned.checkpoints[0].bytes) == (
        done.checkpoints[0].rebuilt,
        done.checkpoints[0].bytes,
    )


def test_a_save_that_nobody_can_read_is_told_as_lost(store):
    store.save(ARRAYS, step=1)
    newest = store.save(ARRAYS, step=2)
    for target in store.raw.values():
        for entry in list(target.list("runs/")):
            if "/manifests/" in entry.path and f".{newest.ordinal:06d}/" in entry.path:
                target.put(entry.path, b"{}")
    report = verify(fresh(store).opened, RUN)
    assert [health.state for health in report.checkpoints] == ["good", "lost"]
    assert report.exit_code == 4
    assert fresh(store).repair().exit_code == 4


def test_a_checkpoint_that_is_deleted_while_it_is_repaired_is_no_failure(store, monkeypatch):
    gone, kept = store.save(ARRAYS, step=1), store.save(ARRAYS, step=2)
    hurt = store.fragment(gone, 0)
    store.remove(hurt)
    passed_on = store.faults[hurt.target].call

    def call(verb, path, operation):
        if path == hurt.path and verb == "put":
            fresh(store).opened.group.delete(RUN, gone.session, gone.ordinal)
            raise unavailable("the disk sulks", target=hurt.target)
        return passed_on(verb, path, operation)

    monkeypatch.setattr(store.faults[hurt.target], "call", call)
    report = store.repair()
    assert [result.key for result in report.checkpoints] == [f"{kept.session}.{kept.ordinal:06d}"]
    assert (report.exit_code, report.checkpoints[0].state) == (0, "good")


def test_a_change_of_members_that_was_cut_off_is_brought_to_its_end(tmp_path):
    """The change is stated, and the new target refuses to join: a repair without --replace ends what was begun."""
    store = make_store(tmp_path, names="abc", code="2+1", spare="d")
    store.save(ARRAYS, step=1)
    store.faults["d"].inject("put_if_absent", "incarnations/*", error=AccessDenied("d: 403", target="d"), skip=1)
    report = repair(store.opened, RUN, replace={"c": "d"})
    assert (report.exit_code, report.readmitted) == (3, [])
    assert any("d: 403" in failure for failure in report.failed)
    assert fresh(store).opened.group.members.old is not None
    again = fresh(store)
    report = again.repair()
    assert (report.exit_code, report.failed) == (0, [])
    assert (again.opened.group.members.targets, again.opened.group.members.old) == (["a", "b", "d"], None)
    assert_equal(again.load(), ARRAYS)
