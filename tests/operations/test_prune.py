"""Retention and collecting: what is kept, what goes, and that nothing needed ever does."""

import os
import shutil
from pathlib import Path

import msgspec
import numpy as np
import pytest

from ckptstore.commit import Commit
from ckptstore.errors import AccessDenied, ConflictError, CorruptError, NotFoundError, OutOfReach, UsageError
from ckptstore.operations.prune import PruneReport, prune
from ckptstore.operations.prune_plan import deleted_in
from ckptstore.operations.repair import repair
from ckptstore.operations.verify import verify
from ckptstore.protocolerrors import protocol_errors
from ckptstore.retention import Retention
from ckptstore.selection import Selector
from ckptstore.targets.fault import unavailable
from manifests import Manifest
from tests.support import RUN, LocalStore, assert_equal, make_store, read_all, reopen

DAY = 86400
HOUR = 3600


def state(step: int) -> dict[str, np.ndarray]:
    return {"w": np.arange(50_000, dtype=np.float32) + step}


def saved(store: LocalStore, *steps: int) -> list[Manifest]:
    return [store.save(state(step), step=step) for step in steps]


def pruned(store: LocalStore, run: str = RUN, **options: object) -> PruneReport:
    rules = {name: options.pop(name) for name in list(options) if name.startswith(("keep_", "grace"))}
    return prune(store.opened, run, Retention(**rules), **options)


def pass_time(store: LocalStore, seconds: float) -> None:
    """Let everything stored become older: a directory target's clock is that of its files."""
    for path in store.root.rglob("*"):
        if path.is_file():
            at = path.stat().st_mtime - seconds
            os.utime(path, (at, at))


def steps(store: LocalStore) -> list[int]:
    return [c.manifest.step for c in store.opened.group.history(RUN).checkpoints]


def delete(store: LocalStore, manifest: Manifest) -> None:
    store.opened.group.delete(RUN, manifest.session, manifest.ordinal)


def tag(store: LocalStore, manifest: Manifest, name: str) -> None:
    store.opened.group.tag(RUN, manifest.session, manifest.ordinal, name)


def data_and_documents(store: LocalStore) -> set[tuple[str, str]]:
    folders = ("data/", f"runs/{RUN}/index/", f"runs/{RUN}/shards/")
    return {(target, path) for target, path in store.objects() if path.startswith(folders)}


@pytest.fixture
def store(tmp_path):
    return make_store(tmp_path)


# -- rules -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rules", "kept"),
    [
        ({"keep_last": 2}, [50, 60]),
        ({"keep_every": 20}, [20, 40, 60]),
        ({"keep_last": 1, "keep_every": 30}, [30, 60]),
        ({"keep_every": 40}, [40, 60]),
        ({"keep_within": "90m"}, [40, 50, 60]),
        ({"keep_tags": ["best"]}, [10, 60]),
    ],
    ids=str,
)
def test_a_checkpoint_is_kept_if_any_rule_names_it_and_the_latest_always(store, rules, kept):
    manifests = saved(store, 10, 20, 30)
    if "keep_tags" in rules:
        tag(store, manifests[0], "best")
    pass_time(store, 2 * HOUR)
    saved(store, 40, 50, 60)
    report = pruned(store, **rules)
    assert steps(store) == kept
    assert [c.checkpoint.manifest.step for c in report.choices if c.keep] == kept
    assert report.exit_code == 0


def test_o14_rules_that_keep_nothing_are_refused(store):
    saved(store, 1, 2)
    before = store.digest()
    for options, error in (
        ({"keep_last": 0}, UsageError),
        ({"keep_tags": ["nosuch"]}, NotFoundError),
        ({}, UsageError),
        ({"keep_within": "0"}, UsageError),
    ):
        for dry_run in (True, False):
            if options == {"keep_within": "0"}:
                pass_time(store, 10)
                before = store.digest()
            with pytest.raises(error):
                pruned(store, **options, dry_run=dry_run)
    assert store.digest() == before
    pruned(store, keep_last=0, allow_nothing=True)
    assert steps(store) == []


@pytest.mark.parametrize("dry_run", [True, False])
@pytest.mark.parametrize(
    "rules", [{"keep_every": 100}, {"keep_within": "1s"}, {"keep_last": 0, "keep_every": 7}], ids=str
)
def test_the_latest_is_kept_where_the_rules_happen_to_name_none(store, rules, dry_run):
    saved(store, 1, 2, 3)
    pass_time(store, HOUR)
    for allow_nothing in (False, True):
        report = pruned(store, **rules, dry_run=dry_run, allow_nothing=allow_nothing)
        assert [(c.checkpoint.manifest.step, c.reasons) for c in report.choices if c.keep] == [(3, ("the latest",))]
        assert steps(store) == ([1, 2, 3] if dry_run else [3])


def test_rules_that_can_keep_nothing_are_refused_whatever_there_is(store):
    """Also where tags keep something today, or there is nothing to delete yet."""
    with pytest.raises(UsageError, match="can keep nothing"):
        pruned(store, keep_last=0)
    tagged, *_ = saved(store, 1, 2)
    tag(store, tagged, "best")
    with pytest.raises(UsageError, match="can keep nothing") as caught:
        pruned(store, keep_last=0)
    assert "--unsafe-allow-remove-all" in caught.value.hint
    assert "unsafe_allow_remove_all=True" in caught.value.hint
    pruned(store, keep_last=0, allow_nothing=True)
    assert steps(store) == [1]


def test_a_tag_that_settings_name_and_nobody_has_yet_matches_nothing(store):
    saved(store, 1, 2, 3)
    report = pruned(store, keep_last=2, keep_tags=["best"], strict_tags=False)
    assert (steps(store), report.left) == ([2, 3], [])


def test_o33_pins_do_not_use_up_the_last_and_go_when_they_are_unpinned(store):
    best, *_ = saved(store, 10)
    tag(store, best, "best")
    for step in (20, 30, 40):
        saved(store, step)
        pruned(store, keep_last=1)
        assert steps(store) == [10, step]
    store.opened.group.untag(RUN, "best")
    pruned(store, keep_last=1)
    assert steps(store) == [40]


def test_a_dry_run_tells_the_same_and_writes_nothing(store):
    gone, *_ = saved(store, 1, 2, 3)
    delete(store, gone)
    pass_time(store, 2 * DAY)
    saved(store, 4)
    before = store.digest()
    plan = pruned(store, keep_last=1, dry_run=True)
    assert store.digest() == before
    done = pruned(store, keep_last=1)
    for report in (plan, done):
        assert [c.manifest.step for c in report.deleted] == [2, 3]
        assert [c.manifest.step for c in report.ended] == [1]
    assert (plan.removal.objects, plan.removal.bytes) == (done.removal.objects, done.removal.bytes)


def test_a_dry_run_without_grace_tells_the_same_too(store):
    """What is deleted now is past a grace period of nothing at once."""
    saved(store, 1, 2, 3)
    plan = pruned(store, keep_last=1, grace="0", dry_run=True)
    done = pruned(store, keep_last=1, grace="0")
    for report in (plan, done):
        assert [c.manifest.step for c in report.deleted] == [1, 2]
        assert [c.manifest.step for c in report.ended] == [1, 2]
        assert report.waiting == []
    assert (plan.removal.objects, plan.removal.bytes) == (done.removal.objects, done.removal.bytes)
    assert done.removal.objects > 0


def test_the_repr_of_a_report_fits_on_a_screen(store):
    saved(store, 1, 2, 3)
    text = repr(pruned(store, keep_last=1))
    assert len(text) < 500
    assert "step-1" in text
    assert "step-3" in text


# -- grace -------------------------------------------------------------------------------------------------------


def test_deleted_data_stays_for_the_grace_period_and_undelete_works_within_it(store):
    first, _ = saved(store, 1, 2)
    pruned(store, keep_last=1)
    assert pruned(store, keep_last=1).removal.objects == 0
    pass_time(store, 20 * HOUR)
    report = pruned(store, keep_last=1)
    assert (report.removal.objects, report.ended) == (0, [])
    assert 3 * HOUR < report.waiting[0].seconds <= 4 * HOUR
    store.opened.group.undelete(RUN, first.session, first.ordinal)
    assert_equal(store.load(Selector(step=1)), state(1))


def test_past_the_grace_period_the_data_goes_and_only_the_notes_stay(store):
    before_any = data_and_documents(store)
    saved(store, 1)
    pruned(store, keep_last=0, allow_nothing=True)
    pass_time(store, 25 * HOUR)
    report = pruned(store, sweep_only=True)
    assert [c.manifest.step for c in report.ended] == [1]
    assert data_and_documents(store) == before_any
    votes = {path.split("/")[4] for _, path in store.objects() if "/commit/" in path}
    assert votes == {"sessions", "collected"}
    assert pruned(store, sweep_only=True).removal.objects == 0


def test_o26_a_slow_reader_finishes_within_the_grace_period(store):
    saved(store, 1)
    reader = store.source(Selector(step=1))
    saved(store, 2)
    pruned(store, keep_last=1)
    pass_time(store, 23 * HOUR)
    pruned(store, keep_last=1)
    assert_equal(read_all(reader), state(1))


def test_o26_a_reader_slower_than_the_grace_period_is_told_and_gets_nothing(store, monkeypatch):
    """What a reader begins with goes first: index, record, fragments."""
    saved(store, 1)
    reader = store.source(Selector(step=1))
    saved(store, 2)
    pruned(store, keep_last=1)
    pass_time(store, 25 * HOUR)
    removed: dict[str, list[str]] = {}
    for name, target in store.raw.items():
        real = target.delete
        note = removed.setdefault(name, [])
        monkeypatch.setattr(target, "delete", lambda paths, real=real, note=note: (note.extend(paths), real(paths))[1])
    pruned(store, keep_last=1)
    rooms = [f"runs/{RUN}/index/", f"runs/{RUN}/shards/", "data/"]
    orders = [
        [at for path in paths for at, room in enumerate(rooms) if path.startswith(room)] for paths in removed.values()
    ]
    assert {at for order in orders for at in order} == {0, 1, 2}
    assert all(order == sorted(order) for order in orders)
    with pytest.raises(NotFoundError, match="step-1 of run demo was deleted and pruned while it was read"):
        read_all(reader)
    assert_equal(store.load(), state(2))


def test_a_mark_that_was_undone_and_put_again_begins_its_grace_anew(store):
    first, _ = saved(store, 1, 2)
    delete(store, first)
    pass_time(store, 2 * DAY)
    store.opened.group.undelete(RUN, first.session, first.ordinal)
    delete(store, first)
    assert pruned(store, sweep_only=True).ended == []
    store.opened.group.undelete(RUN, first.session, first.ordinal)
    assert_equal(store.load(Selector(step=1)), state(1))


def test_what_is_deleted_is_listed_also_where_nothing_can_be_written_to_learn_the_time(store):
    first, *_ = saved(store, 1, 2)
    delete(store, first)
    (waiting,) = deleted_in(store.opened, RUN, Retention())
    assert 23 * HOUR < waiting.seconds <= DAY
    for name, fault in store.faults.items():
        fault.inject("put", "clock/*", error=AccessDenied("read only", target=name))
    (waiting,) = deleted_in(store.opened, RUN, Retention())
    assert (waiting.checkpoint.manifest.step, waiting.seconds) == (1, None)


# -- what is needed stays ----------------------------------------------------------------------------------------


def test_o10_nothing_is_deleted_where_the_latest_does_not_load(store):
    saved(store, 1)
    broken, *_ = saved(store, 2)
    for fragment in store.fragments(broken)[:3]:
        store.remove(fragment)
    before = store.digest()
    with pytest.raises(CorruptError, match="nothing was deleted"):
        pruned(store, keep_last=1)
    assert store.digest() == before
    assert_equal(store.load(Selector(step=1)), state(1))


def test_reading_back_every_byte_finds_what_a_listing_cannot(store):
    saved(store, 1)
    rotten, *_ = saved(store, 2)
    for fragment in store.fragments(rotten)[:3]:
        store.flip(fragment)
    with pytest.raises(CorruptError, match="nothing was deleted"):
        pruned(store, keep_last=1, read_data=True)
    assert steps(store) == [1, 2]


def test_o25_what_cannot_be_read_now_is_kept_and_so_is_what_it_may_name(store):
    old, *_ = saved(store, 1)
    saved(store, 2)
    delete(store, old)
    pass_time(store, 2 * DAY)
    manifest = f"/manifests/{old.session}.000002/"
    for damage in (lambda data: data[: len(data) // 2], lambda data: data[:-1]):
        copies = {key: data for key, data in store.objects().items() if manifest in key[1]}
        for (target, path), data in copies.items():
            store.raw[target].put(path, damage(data))
        before = data_and_documents(store)
        report = pruned(store, sweep_only=True)
        assert report.exit_code == 1
        assert report.blocked
        assert data_and_documents(store) == before
        for (target, path), data in copies.items():
            store.raw[target].put(path, data)
    assert_equal(store.load(Selector(step=2)), state(2))


@pytest.mark.parametrize(
    ("ordinal", "error", "told"),
    [(1, AccessDenied("403"), AccessDenied), (2, unavailable("no answer in time"), OutOfReach)],
    ids=["deleted", "live"],
)
def test_o25_a_manifest_that_may_not_be_read_now_is_an_error_and_nothing_goes(store, monkeypatch, ordinal, error, told):
    monkeypatch.setattr("manifests.attempts.PAUSE", 0.001)
    old, _ = saved(store, 1, 2)
    delete(store, old)
    pass_time(store, 2 * DAY)
    before = store.objects()
    for fault in store.faults.values():
        fault.inject("get", f"*/manifests/{old.session}.{ordinal:06d}/*", error=error)
    for options in ({"sweep_only": True}, {"keep_last": 1}):
        with pytest.raises(told, match=f"a: {error.message}.*f: {error.message}"):
            pruned(store, **options)
    kept = store.objects()
    assert {key: kept.get(key) for key in before} == before
    store.heal()
    assert_equal(store.load(), state(2))


def test_o25_data_whose_commit_records_are_gone_is_no_orphan(store):
    """Nothing names it any more, and whoever removed them may put them back."""
    saved(store, 1)
    pass_time(store, 3 * DAY)
    for name in store.raw:
        (store.root / name / "runs" / RUN / "commit").rename(store.root / f"commit of {name}")
    before = store.objects()
    later = reopen(store.root, store.config)
    for options in ({"sweep_only": True}, {"keep_last": 1}):
        with pytest.raises(CorruptError, match="every record of its saves is gone"):
            pruned(later, **options)
    assert later.objects() == before
    for ask in (verify, repair):
        with pytest.raises(CorruptError, match="every record of its saves is gone"):
            ask(later.opened, RUN)
    for name in store.raw:
        (store.root / f"commit of {name}").rename(store.root / name / "runs" / RUN / "commit")
    assert_equal(reopen(store.root, store.config).load(), state(1))


def test_o25_an_unreadable_index_makes_no_orphans(store):
    manifest, *_ = saved(store, 1)
    pass_time(store, 3 * DAY)
    reference = manifest.copies[0].index
    for name in reference.targets:
        store.faults[name].inject("get", reference.path, error=unavailable("down", target=name))
    before = data_and_documents(store)
    report = pruned(store, sweep_only=True)
    assert report.blocked
    assert data_and_documents(store) == before


def test_o09_only_the_own_run_is_touched(tmp_path):
    store = make_store(tmp_path)
    saved(store, 1)
    pass_time(store, 3 * DAY)
    before = data_and_documents(store)
    report = pruned(store, "resumed", keep_last=1, grace="0")
    assert (report.choices, report.removal.objects) == ([], 0)
    assert data_and_documents(store) == before
    assert_equal(store.load(), state(1))


def test_o22_what_people_put_beside_our_objects_stays(store):
    manifest, *_ = saved(store, 1)
    shard = store.record(manifest).shard_id
    home = store.fragments(manifest)[0]
    folder = store.root / home.target
    strangers = [
        folder / "notes.txt",
        folder / "data" / "README",
        (folder / home.path).parent / "step-10-tmp",
        folder / "runs" / RUN / "shards" / "Strange File.txt",
        folder / "data" / "zz" / RUN / "step-final" / "000000.000",
    ]
    for path in strangers:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("mine")
    delete(store, manifest)
    pass_time(store, 3 * DAY)
    pruned(store, sweep_only=True)
    assert all(path.read_text() == "mine" for path in strangers)
    assert not any(shard in path and path.endswith((".000", ".001")) for _, path in store.objects())


# -- given up and orphaned -----------------------------------------------------------------------------------------


def given_up(store: LocalStore, step: int = 9) -> None:
    """A save that was killed before it committed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(store.opened.group), "commit", _killed)
        with pytest.raises(KeyboardInterrupt):
            store.save(state(step), step=step)


def _killed(*_: object) -> None:
    raise KeyboardInterrupt


def test_o59_what_killed_saves_left_is_removed_after_the_grace_period(store):
    for _ in range(3):
        given_up(store)
    saved(store, 9)
    assert pruned(store, sweep_only=True).removal.objects == 0, "they may be in progress"
    pass_time(store, 25 * HOUR)
    saved(store, 10)
    report = pruned(store, sweep_only=True)
    assert len(report.given_up) == 3
    pass_time(store, 3 * HOUR)
    pruned(store, sweep_only=True)
    stored = sum(len(data) for (_, path), data in store.objects().items() if path.startswith("data/"))
    named = sum(
        len(store.read(f)) for c in store.opened.group.history(RUN).checkpoints for f in store.fragments(c.manifest)
    )
    assert stored == named
    for step in (9, 10):
        assert_equal(store.load(Selector(step=step)), state(step))


def test_o71_a_saver_frozen_past_the_grace_period_is_told_that_its_save_was_given_up(store):
    saved(store, 1)
    places, _ = store.opened.writable()
    frozen = Commit(store.opened, RUN, places)
    frozen.begin()
    pass_time(store, 2 * DAY)
    assert pruned(store, sweep_only=True).given_up == [(frozen.session, frozen.ordinal)]
    manifest = store.latest()
    late = msgspec.structs.replace(manifest, session=frozen.session, ordinal=frozen.ordinal)
    with pytest.raises(ConflictError, match="closed by a collector"), protocol_errors():
        store.opened.group.commit(late)
    assert steps(store) == [1]


def test_a_save_in_progress_loses_nothing(store):
    places, _ = store.opened.writable()
    commit = Commit(store.opened, RUN, places)
    commit.begin()
    pruned(store, sweep_only=True, grace="1h")
    assert store.opened.group.history(RUN).begun == ((commit.session, commit.ordinal),)


def test_with_a_commit_target_away_nothing_of_a_given_up_save_goes(store):
    given_up(store)
    pass_time(store, 2 * DAY)
    store.take_away("f")
    before = data_and_documents(store)
    report = pruned(store, sweep_only=True)
    assert report.exit_code == 1
    assert "begun and never committed" in report.blocked[0]
    assert data_and_documents(store) == before


# -- failures -----------------------------------------------------------------------------------------------------


def test_o03_what_could_not_be_deleted_is_told_and_goes_the_next_time(store):
    manifest, _ = saved(store, 1, 2)
    delete(store, manifest)
    pass_time(store, 2 * DAY)
    locked = store.fragments(manifest)[0]
    target = store.raw[locked.target]
    real = target.delete

    def refusing(paths):
        failed = {locked.path: AccessDenied("retention lock", target=locked.target, path=locked.path)}
        rest = [path for path in paths if path != locked.path]
        return {**real(rest), **(failed if locked.path in paths else {})}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(target, "delete", refusing)
        report = pruned(store, sweep_only=True)
    assert report.exit_code == 1
    assert [failure for failure in report.failed if locked.path in failure] == report.failed != []
    shard = store.record(store.latest()).shard_id
    left = {(at, path) for at, path in data_and_documents(store) if path.startswith("data/") and shard not in path}
    assert left == {(locked.target, locked.path)}, "the rest is gone"
    again = pruned(store, sweep_only=True)
    assert (again.exit_code, again.removal.objects) == (0, 1)
    assert (locked.target, locked.path) not in data_and_documents(store)


def test_o72_a_delete_while_a_target_is_away_stays_a_delete_and_its_leftovers_go(store):
    manifest, _ = saved(store, 1, 2)
    store.take_away("c")
    delete(store, manifest)
    pass_time(store, 2 * DAY)
    report = pruned(store, sweep_only=True)
    assert [c.manifest.step for c in report.ended] == [1]
    assert report.exit_code == 1, "c was out of reach"
    store.bring_back("c")
    pass_time(store, 2 * DAY)
    assert steps(store) == [2]
    store.repair()
    assert steps(store) == [2]
    with pytest.raises(NotFoundError):
        store.load(Selector(step=1))
    assert pruned(store, sweep_only=True).exit_code == 0
    needed = store.record(store.latest()).shard_id, store.latest().copies[0].index.path
    assert not [path for _, path in data_and_documents(store) if not any(name in path for name in needed)]


def test_o60_a_prune_that_ends_anywhere_leaves_what_is_kept_and_is_finished_by_the_next(tmp_path):
    pristine = make_store(tmp_path / "pristine")
    first, *_ = saved(pristine, 1, 2, 3)
    delete(pristine, first)
    given_up(pristine)
    pass_time(pristine, 2 * DAY)
    whole = copy_of(pristine, tmp_path / "whole")
    pruned(whole, keep_last=1)
    pass_time(whole, 2 * DAY)
    pruned(whole, sweep_only=True)
    clean = len(whole.objects())
    ended = 0
    for number in range(0, 400, 41):
        store = copy_of(pristine, tmp_path / f"cut-{number}")
        if not interrupted(store, number):
            break
        ended += 1
        fresh = reopen(store.root, store.config)
        assert_equal(fresh.load(Selector(step=3)), state(3))
        assert steps(fresh)[-1] == 3
        pruned(fresh, keep_last=1)
        pass_time(fresh, 2 * DAY)
        report = pruned(fresh, sweep_only=True)
        assert report.exit_code == 0
        assert (steps(fresh), len(fresh.objects())) == ([3], clean)
        shutil.rmtree(store.root)
    assert ended > 3


def copy_of(store: LocalStore, root: Path) -> LocalStore:
    shutil.copytree(store.root, root)
    targets = [msgspec.structs.replace(t, url=str(root / t.name)) for t in store.config.targets]
    return reopen(root, msgspec.structs.replace(store.config, targets=targets))


def interrupted(store: LocalStore, number: int) -> bool:
    """Prune until so many requests were made in all; whether it ended before its time."""
    left = [number]

    class Killed(BaseException):
        pass

    def counting(verb, path, operation):
        left[0] -= 1
        if left[0] < 0:
            raise Killed
        return operation()

    for fault in store.faults.values():
        fault.call = counting
    try:
        pruned(store, keep_last=1)
    except Killed:
        return True
    return False
