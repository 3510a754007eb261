"""Checkpoints into another store: the same bytes under another code, or nothing that anybody sees."""

import numpy as np
import pytest

from ckptstore.buffers import BufferPool
from ckptstore.commit import About, Commit, shard_saver
from ckptstore.errors import CorruptError, DataLost, NotFoundError, ToleranceError, UsageError
from ckptstore.events import Progress
from ckptstore.load.documents import fetch_record
from ckptstore.operations import transfer, written
from ckptstore.operations.copying import copy
from ckptstore.operations.marking import delete, tag, untag
from ckptstore.operations.origin import ORIGIN
from ckptstore.save.stream import lay_out
from ckptstore.selection import Selector, history_of
from ckptstore.source import Source
from manifests import TableBuilder, paths
from tests.support import (
    RUN,
    Listener,
    StoredFragment,
    assert_equal,
    flat_bytes,
    make_store,
    pieces_of,
    random_bytes,
    read_all,
)


@pytest.fixture
def store(tmp_path):
    return make_store(tmp_path / "one")


@pytest.fixture
def other(tmp_path):
    """Another code, another size of fragments, other targets."""
    return make_store(tmp_path / "two", "uvw", code="2+1", fragment_size="20KiB")


def arrays(seed=0):
    """Enough for several stripes in either store, and no multiple of anything."""
    return {
        "w": random_bytes(700_001, seed).view(np.int8),
        "m": np.arange(90_000, dtype=np.float32).reshape(300, 300) + seed,
        "empty": np.zeros((0, 3), np.int64),
        "scalar": np.array(seed, np.int64),
    }


def loaded(store, run, manifest):
    return read_all(Source.open(store.opened, manifest))


def stream(store, manifest, shard):
    """A shard's bytes, by concatenating data fragments."""
    record = store.record(manifest, shard)
    found = [f for f in store.fragments(manifest, shard) if f.number < record.codes[0].k]
    return b"".join(store.read(f) for f in sorted(found, key=lambda f: (f.stripe, f.number)))


def names(store, run=RUN):
    return [checkpoint.manifest.name for checkpoint in history_of(store.opened, run).checkpoints]


@pytest.mark.parametrize("read_back", [False, True])
def test_a_copy_is_the_same_checkpoint_under_the_other_code(store, other, read_back):
    original = store.save(arrays(), step=7, ranks=3)
    report = copy(store.opened, RUN, Selector(), other.opened, RUN, read_back=read_back)
    assert [fate.outcome for fate in report.fates] == ["copied"]
    made = other.latest()
    assert (made.name, made.step, made.world, made.bytes) == ("step-7", 7, 3, original.bytes)
    assert_equal(loaded(other, RUN, made), arrays())
    record = other.record(made)
    assert (record.codes[0].k, record.codes[0].m, len(record.targets)) == (2, 1, 3)
    for shard in range(3):
        assert stream(other, made, shard) == stream(store, original, shard)
        assert other.record(made, shard).tensors == store.record(original, shard).tensors
        assert written.stream_crc(other.record(made, shard)) == written.stream_crc(store.record(original, shard))
    assert [s.rank for s in other.index(made).shards] == [0, 1, 2]
    assert other.index(made).tensors == store.index(original).tensors
    assert other.verify(read_data=True).state == "good"
    assert report.copied[0].tolerance.targets == 1


def test_the_original_is_not_touched(store, other):
    store.save(arrays(), step=7)
    before = store.digest()
    copy(store.opened, RUN, None, other.opened, RUN)
    assert store.digest() == before


def test_what_is_lost_of_the_original_is_rebuilt_on_the_way(store, other):
    original = store.save(arrays(), step=7)
    store.remove(store.fragment(original, 0))
    store.flip(store.fragment(original, 1))
    copy(store.opened, RUN, Selector(), other.opened, RUN)
    assert_equal(other.load(), arrays())


def test_a_second_copy_finds_it_there(store, other):
    for step in (1, 2):
        store.save(arrays(step), step=step)
    copy(store.opened, RUN, Selector(step=1), other.opened, RUN)
    report = copy(store.opened, RUN, None, other.opened, RUN)
    assert [fate.outcome for fate in report.fates] == ["there", "copied"]
    before = other.digest()
    report = copy(store.opened, RUN, None, other.opened, RUN)
    assert [fate.outcome for fate in report.fates] == ["there", "there"]
    assert other.digest() == before
    assert names(other) == ["step-1", "step-2"]


def test_another_save_of_the_same_step_is_another_checkpoint(store, other):
    for seed in (1, 2):
        store.save(arrays(seed), step=7)
        copy(store.opened, RUN, Selector(step=7), other.opened, RUN)
    assert names(other) == ["step-7", "step-7"]
    assert_equal(other.load(), arrays(2))


def test_copied_back_it_is_known_as_the_original(store, other, tmp_path):
    store.save(arrays(), step=7)
    copy(store.opened, RUN, Selector(), other.opened, RUN)
    back = copy(other.opened, RUN, Selector(), store.opened, RUN)
    assert [fate.outcome for fate in back.fates] == ["there"]
    third = make_store(tmp_path / "three", "xyz", code="2+1")
    copy(other.opened, RUN, Selector(), third.opened, RUN)
    named = [{**found.latest().user[ORIGIN], "copy": None} for found in (third, other)]
    assert named[0] == named[1]
    again = copy(store.opened, RUN, Selector(), third.opened, RUN)
    assert [fate.outcome for fate in again.fates] == ["there"]


def test_a_save_that_was_handed_the_user_of_a_copy_is_none(store, other):
    """A job that goes on from a copy and keeps what that said of itself."""
    store.save(arrays(1), step=1)
    copy(store.opened, RUN, Selector(), other.opened, RUN)
    places = other.opened.ready_to_save()
    commit = Commit(other.opened, RUN, places)
    commit.begin()
    saved = [shard_saver(other.opened, RUN, places).save(lay_out(pieces_of({"w": np.ones(3)})), flat_bytes, 0)]
    table = TableBuilder()
    table.add("w", "float64", (3,), [((0,), (3,), 0)])
    commit.finish(saved, table.build(), About("step-1", "step-1", 1, user=other.latest().user))
    back = copy(other.opened, RUN, None, store.opened, RUN)
    assert [fate.outcome for fate in back.fates] == ["there", "copied"]
    assert_equal(store.load(), {"w": np.ones(3)})


def test_into_another_run_of_the_same_store(store):
    original = store.save(arrays(), step=7, ranks=2)
    report = copy(store.opened, RUN, Selector(), store.opened, "kept")
    assert report.copied[0].run == "kept"
    assert_equal(loaded(store, "kept", history_of(store.opened, "kept").latest.manifest), arrays())
    assert store.latest() == original


def test_onto_itself_is_refused(store):
    store.save(arrays(), step=7)
    before = store.digest()
    with pytest.raises(UsageError, match="onto itself"):
        copy(store.opened, RUN, Selector(), store.opened, RUN)
    with pytest.raises(UsageError, match="name of a run"):
        copy(store.opened, RUN, Selector(), store.opened, "No/Run")
    with pytest.raises(NotFoundError):
        copy(store.opened, RUN, Selector(step=8), store.opened, "kept")
    assert store.digest() == before


def test_tags_come_along_and_move_as_they_moved(store, other):
    for step in (1, 2):
        store.save(arrays(step), step=step)
    tag(store.opened, RUN, Selector(step=1), "best")
    copy(store.opened, RUN, None, other.opened, RUN)
    assert history_of(other.opened, RUN).tags["best"].manifest.step == 1
    tag(store.opened, RUN, Selector(step=2), "best")
    report = copy(store.opened, RUN, None, other.opened, RUN)
    assert history_of(other.opened, RUN).tags["best"].manifest.step == 2
    assert report.fates[1].copy.tags == ("best",)


def test_a_tag_of_a_checkpoint_that_is_no_copy_stays_with_it(store, other):
    other.save(arrays(5), step=5)
    tag(other.opened, RUN, Selector(step=5), "best")
    store.save(arrays(1), step=1)
    tag(store.opened, RUN, Selector(step=1), "best")
    report = copy(store.opened, RUN, None, other.opened, RUN)
    assert report.fates[0].tags_left == ("best",)
    assert report.fates[0].copy.tags == ()
    assert history_of(other.opened, RUN).tags["best"].manifest.step == 5
    untag(other.opened, RUN, "best")
    assert copy(store.opened, RUN, None, other.opened, RUN).fates[0].copy.tags == ("best",)


def test_a_copy_deleted_there_is_made_again_by_name_only(store, other):
    store.save(arrays(1), step=1)
    copy(store.opened, RUN, None, other.opened, RUN)
    delete(other.opened, RUN, Selector(step=1))
    assert [f.outcome for f in copy(store.opened, RUN, None, other.opened, RUN).fates] == ["deleted"]
    assert names(other) == []
    copy(store.opened, RUN, Selector(step=1), other.opened, RUN)
    assert names(other) == ["step-1"]


def test_an_older_one_after_a_newer_is_told(store, other):
    for step in (1, 2):
        store.save(arrays(step), step=step)
    assert copy(store.opened, RUN, Selector(step=2), other.opened, RUN).newest is None
    report = copy(store.opened, RUN, None, other.opened, RUN)
    assert report.newest.step == 2
    assert names(other) == ["step-2", "step-1"]


def test_a_dry_run_writes_nothing(store, other):
    store.save(arrays(), step=7)
    before = other.digest()
    report = copy(store.opened, RUN, None, other.opened, RUN, dry_run=True)
    assert [fate.outcome for fate in report.fates] == ["planned"]
    assert other.digest() == before


def test_a_lost_one_costs_no_other(store, other):
    manifests = [store.save(arrays(step), step=step) for step in (1, 2, 3)]
    for fragment in store.fragments(manifests[1]):
        if fragment.number < 3:
            store.remove(fragment)
    report = copy(store.opened, RUN, None, other.opened, RUN)
    assert [fate.outcome for fate in report.fates] == ["copied", "failed", "copied"]
    assert isinstance(report.fates[1].error, DataLost)
    assert report.exit_code == 4
    assert names(other) == ["step-1", "step-3"]
    with pytest.raises(DataLost):
        copy(store.opened, RUN, Selector(step=2), other.opened, RUN)


@pytest.mark.parametrize("where", ["saver.save", "check_written", "save.finish"])
def test_a_crash_in_the_middle_leaves_nothing_visible_and_can_be_run_again(store, other, monkeypatch, where):
    store.save(arrays(), step=7, ranks=2)

    def crash(*_arguments, **_named):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        if where == "check_written":
            patch.setattr(transfer, "check_written", crash)
        elif where == "save.finish":
            patch.setattr(transfer.Commit, "finish", crash)
        else:
            patch.setattr(other.faults["u"], "put", crash)
        with pytest.raises(KeyboardInterrupt):
            copy(store.opened, RUN, None, other.opened, RUN)
    assert names(other) == []
    assert [fate.outcome for fate in copy(store.opened, RUN, None, other.opened, RUN).fates] == ["copied"]
    assert_equal(other.load(), arrays())


def test_bytes_that_change_on_the_way_are_never_committed(store, other, monkeypatch):
    """A bit that flips between the check of what was read and the encoding: the copy's own digests agree with it."""
    store.save(arrays(), step=7)
    stripes = Source.stripes

    def flipping(self, *arguments):
        for data in stripes(self, *arguments):
            changed = data.copy()
            changed[100] ^= 4
            yield changed

    monkeypatch.setattr(Source, "stripes", flipping)
    with pytest.raises(CorruptError, match="other bytes"):
        copy(store.opened, RUN, Selector(), other.opened, RUN)
    assert names(other) == []


@pytest.mark.parametrize(("damage", "read_back", "found"), [("remove", False, "missing"), ("flip", True, "corrupt")])
def test_what_a_target_took_and_does_not_hold_is_never_committed(store, other, monkeypatch, damage, read_back, found):
    store.save(arrays(), step=7, ranks=2)
    check = transfer.check_written

    def damaged(opened, run, original, saved, **how):
        record = fetch_record(saved.reference, other.raw)
        path = paths.fragment(run, record.shard_id, 1, 0)
        getattr(other, damage)(StoredFragment(record.targets[record.stripes[1].at[0]], path, 1, 0))
        return check(opened, run, original, saved, **how)

    monkeypatch.setattr(transfer, "check_written", damaged)
    with pytest.raises(CorruptError, match=f"000001.000 and now it is {found}"):
        copy(store.opened, RUN, Selector(), other.opened, RUN, read_back=read_back)
    assert names(other) == []


def test_a_target_out_of_reach_costs_tolerance_or_the_copy(store, tmp_path):
    wide = make_store(tmp_path / "wide")
    store.save(arrays(), step=7)
    wide.take_away("c")
    report = copy(store.opened, RUN, Selector(), wide.opened, RUN)
    assert (report.copied[0].state, report.copied[0].tolerance.targets) == ("degraded", 1)
    strict = make_store(tmp_path / "strict", require_tolerance=2)
    strict.take_away("c")
    with pytest.raises(ToleranceError):
        copy(store.opened, RUN, Selector(), strict.opened, RUN)
    assert names(strict) == []


def test_progress_is_of_all_that_is_copied(store, other):
    total = sum(store.save(arrays(step), step=step, ranks=2).bytes for step in (1, 2))
    listener = Listener()
    copy(store.opened, RUN, None, other.opened, RUN, observer=listener)
    told = [event for event in listener.of(Progress) if event.work == "copy"]
    assert {event.total for event in told} == {total}
    assert sum(event.done for event in told) == total


def test_memory_is_the_windows_whatever_the_checkpoint(tmp_path, monkeypatch):
    one = make_store(tmp_path / "one", fragment_size="16KiB", window="256KiB")
    two = make_store(tmp_path / "two", "uvw", code="2+1", fragment_size="32KiB", window="256KiB")
    one.save({"w": random_bytes(3_000_000)}, step=1)
    lent = []
    take = BufferPool._take

    def watched(pool, size):
        buffer = take(pool, size)
        lent.append((id(pool), pool._lent))
        return buffer

    monkeypatch.setattr(BufferPool, "_take", watched)
    copy(one.opened, RUN, None, two.opened, RUN, read_back=True)
    assert len({pool for pool, _ in lent}) == 2
    assert max(held for _, held in lent) <= 256 * 1024
    assert_equal(two.load(), {"w": random_bytes(3_000_000)})
