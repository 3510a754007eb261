"""What a prune makes of the clocks of targets: those that are wrong, and those that can't be told without a trace."""

import os

import pytest

from ckptstore.errors import AccessDenied, UsageError
from ckptstore.operations.ages import Ages
from tests.operations.test_prune import DAY, HOUR, delete, pruned, saved, steps
from tests.support import RUN, LocalStore, make_store


@pytest.fixture
def store(tmp_path):
    return make_store(tmp_path)


def set_back(store: LocalStore, names: str, part: str, seconds: float) -> None:
    """Let what is below a path look older on some targets than it is."""
    for name in names:
        for path in (store.root / name).rglob("*"):
            if path.is_file() and part in path.as_posix():
                at = path.stat().st_mtime - seconds
                os.utime(path, (at, at))


@pytest.mark.parametrize(("wrong", "kept"), [("a", [1, 2, 3]), ("bc", [1, 2, 3]), ("abc", [3])])
def test_as_many_wrong_clocks_as_may_be_lost_make_no_checkpoint_old(store, wrong, kept):
    """Code 4+2: two targets may be lost. Three that agree are believed."""
    saved(store, 1, 2, 3)
    set_back(store, wrong, "/manifests/", 30 * DAY)
    report = pruned(store, keep_within="7d")
    assert steps(store) == kept
    assert report.exit_code == 0


def test_a_repaired_copy_makes_nothing_young(store):
    saved(store, 1, 2)
    set_back(store, "abcd", "/manifests/", 30 * DAY)
    pruned(store, keep_within="7d")
    assert steps(store) == [2]


@pytest.mark.parametrize("ahead", ["a", "abcde"])
def test_a_wrong_clock_ends_no_grace_period(store, ahead):
    one, _ = saved(store, 1, 2)
    delete(store, one)
    set_back(store, ahead, "/marks/", 2 * HOUR)
    assert pruned(store, sweep_only=True, grace="1h").ended == []
    set_back(store, "abcdef", "/marks/", 2 * HOUR)
    assert [c.manifest.step for c in pruned(store, sweep_only=True, grace="1h").ended] == [1]


def test_what_does_not_answer_is_some_of_what_may_be_wrong():
    ages = Ages(wrong=1)
    for age in (50.0, 9.0, 7.0, -3.0):
        ages.add("a", age)
    assert (ages.since_put("a"), ages.youngest("a")) == (9.0, -3.0)
    assert Ages(wrong=0, copies=ages.copies).since_put("a") == 50.0
    assert Ages(wrong=3, copies={"a": [5.0]}).since_put("a") == 5.0
    assert (ages.since_put("b"), ages.youngest("b")) == (0.0, 0.0)


def test_a_clock_that_can_not_be_removed_is_told_and_left_once(store):
    saved(store, 1)
    store.faults["b"].inject("delete", "clock/*", error=AccessDenied("no deletes here", target="b"))
    for _ in range(3):
        report = pruned(store, keep_last=2)
        assert report.exit_code == 1
        assert [left for left in report.left if "clock/" in left and left.startswith("b")]
    assert [path for target, path in store.objects() if path.startswith("clock/")] == ["clock/now"]
    store.faults["b"].heal()
    assert pruned(store, keep_last=2).exit_code == 0
    assert not [path for _, path in store.objects() if path.startswith("clock/")]


def test_a_clock_that_another_prune_removes_is_put_again(store):
    saved(store, 1)
    taken = []

    def call(verb, path, operation):
        done = operation()
        if verb == "put" and path.startswith("clock/") and not taken:
            taken.append(path)
            (store.root / "a" / path).unlink()
        return done

    store.faults["a"].call = call
    assert pruned(store, keep_last=2).exit_code == 0
    assert taken


def test_a_period_longer_than_the_calendar_is_refused(store):
    saved(store, 1)
    for key in ("grace", "keep_within"):
        for text in ("36501d", "999999999w"):
            with pytest.raises(UsageError, match=rf"retention\.{key} = '{text}': at most 36500d"):
                pruned(store, **{"keep_last": 1, key: text})
    assert pruned(store, keep_last=1, keep_within="36500d", grace="36500d").run == RUN
