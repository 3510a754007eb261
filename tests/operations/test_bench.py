"""`ckpt bench` on real directories: it measures, and leaves nothing behind, whatever happens."""

import shutil

import pytest

from ckptstore.errors import AccessDenied, OutOfReach, ToleranceError, UsageError
from ckptstore.opened import shared
from ckptstore.operations import bench as module
from ckptstore.operations.bench import bench, clean, leftovers
from ckptstore.targets.directory import DirectoryTarget
from tests.operations.digests import digests
from tests.support import make_store, random_bytes

MIB = 1 << 20


@pytest.fixture
def store(tmp_path):
    found = make_store(tmp_path / "targets", "abcdef", "4+2", "64KiB")
    found.save({"w": random_bytes(300_000)}, step=1)
    return found


def test_it_measures_and_takes_everything_away(store):
    before = digests(store.root)
    report = bench(store.config, size=2 * MIB, rounds=2)
    assert [t.what for t in report.timed] == ["save", "load", "load, 2 targets lost", "repair of one target"]
    assert all(len(t.seconds) == 2 and t.rate > 0 and t.bytes == 2 * MIB for t in report.timed)
    assert (report.left_out, report.failed) == ({}, {})
    assert digests(store.root) == before


def test_more_than_one_piece(store, monkeypatch):
    monkeypatch.setattr(module, "PIECE", 100_000)
    assert bench(store.config, size=1_234_567, rounds=1).timing("load").bytes == 1_234_567


def test_a_target_that_is_gone_is_no_reason_to_leave_anything(store):
    (store.root / "f").rename(store.root / "away")
    before = digests(store.root)
    report = bench(store.config, size=MIB, rounds=1)
    assert "f is not well" in report.left_out["repair"]
    assert list(report.failed) == ["f"], "what is out of reach can't be looked at; nothing was put there"
    assert digests(store.root) == before


def test_what_fails_in_the_middle_leaves_nothing(store, monkeypatch):
    before = digests(store.root)
    monkeypatch.setattr(module, "shards_of", lambda _: (_ for _ in ()).throw(OutOfReach("so it is")))
    with pytest.raises(OutOfReach, match="so it is"):
        bench(store.config, size=MIB, rounds=1)
    assert digests(store.root) == before


def test_a_killed_one_is_told_and_cleaned(store, monkeypatch):
    before = digests(store.root)
    with monkeypatch.context() as patch:
        patch.setattr(module, "_remove", lambda *_: {})
        bench(store.config, size=MIB, rounds=1)
    (left,) = leftovers(shared(store.config))
    assert left.startswith("ckpt-bench-")
    assert clean(shared(store.config)) == {}
    assert digests(store.root) == before
    assert leftovers(shared(store.config)) == []


@pytest.mark.parametrize("wrong", [{"size": 0}, {"size": 1 << 45}, {"rounds": 0}])
def test_what_can_t_be_measured_is_refused(store, wrong):
    with pytest.raises(UsageError, match="are wanted"):
        bench(store.config, **wrong)


def test_too_few_targets_to_save_on(store):
    for name in "bcdef":
        (store.root / name).rename(store.root / f"{name}.away")
    with pytest.raises(ToleranceError):
        bench(store.config, size=MIB, rounds=1)


def test_what_can_not_be_removed_is_found_again(store, monkeypatch):
    before = digests(store.root)
    remove = DirectoryTarget.delete

    def some(target, paths):
        stuck = {
            path: AccessDenied("no deletes here", target=target.name) for path in paths if path.startswith("data/")
        }
        return stuck if target.name == "b" else remove(target, paths)

    with monkeypatch.context() as patch:
        patch.setattr(DirectoryTarget, "delete", some)
        report = bench(store.config, size=MIB, rounds=1)
    assert {place.partition(":")[0] for place in report.failed} == {"b"}
    (left,) = leftovers(shared(store.config))
    for target in "abcdef":  # as if it had been killed with only data left
        shutil.rmtree(store.root / target / "runs" / left, ignore_errors=True)
    assert leftovers(shared(store.config)) == [left]
    assert clean(shared(store.config)) == {}
    assert digests(store.root) == before
