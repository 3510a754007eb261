"""The Python API's marks and names: what they return, and what is refused in words."""

import pytest
import torch

import ckptstore
from ckptstore.errors import NotFoundError, UsageError
from tests.support import RUN, make_store, random_bytes


@pytest.fixture
def run(tmp_path):
    """A run with steps 1 and 2, the newer one saved twice."""
    store = make_store(tmp_path)
    for step in (1, 2, 2):
        store.save({"x": random_bytes(1000, step)}, step=step)
    with ckptstore.open(store.config) as opened:
        yield opened.run(RUN)


def steps(run):
    return [checkpoint.step for checkpoint in run.checkpoints()]


def test_delete_hides_the_newest_of_a_step_and_undelete_brings_it_back(run):
    before = run.checkpoints()
    deleted = run.delete(2)
    assert deleted == before[-1]
    assert run.checkpoints() == before[:-1]
    assert run.undelete(2) == deleted
    assert run.checkpoints() == before


def test_deleting_removes_no_data(run, tmp_path):
    stored = {path for path in (tmp_path).rglob("*") if path.is_file()}
    run.delete("step-1")
    assert stored <= {path for path in tmp_path.rglob("*") if path.is_file()}


@pytest.mark.parametrize("which", [2, "step-2", "latest", "key"])
def test_every_way_of_naming_a_checkpoint_is_understood(run, which):
    newest = run.latest()
    assert run.delete(newest.key if which == "key" else which) == newest


def test_a_tag_moves_and_goes(run):
    assert run.tag(1, "best").tags == ("best",)
    moved = run.tag("latest", "best")
    assert (moved.step, moved.tags) == (2, ("best",))
    assert [checkpoint.tags for checkpoint in run.checkpoints()] == [(), (), ("best",)]
    assert run.tag("tag:best", "kept").tags == ("best", "kept")
    assert run.untag("best").tags == ("kept",)
    with pytest.raises(NotFoundError):
        run.untag("best")


def test_what_is_not_there_is_not_found(run):
    for call in (lambda: run.delete(7), lambda: run.undelete(1), lambda: run.tag(7, "best")):
        with pytest.raises(NotFoundError) as caught:
            call()
        assert caught.value.hint
    assert steps(run) == [1, 2, 2]


@pytest.mark.parametrize("name", ["Bad Run", "", "../etc", "-x", "a" * 65])
def test_names_that_can_not_be_are_refused_with_the_rule(run, name):
    store = ckptstore.Store(run.config)
    for call in (lambda: store.run(name), lambda: run.tag(1, name), lambda: run.untag(name)):
        with pytest.raises(UsageError, match="can't be the name of") as caught:
            call()
        assert "letters, digits" in caught.value.hint
        assert caught.value.exit_code == 2


def test_automatic_pruning_follows_every_save(tmp_path):
    retention = ckptstore.Retention(keep_last=2, keep_every=4, grace="0", automatic=True)
    run = ckptstore.open(make_store(tmp_path, retention=retention).config).run("r")
    for step in range(1, 8):
        if step % 2:
            run.save({"w": torch.full((10,), step)}, step=step)
        else:
            run.save_async({"w": torch.full((10,), step)}, step=step).result()
    assert [checkpoint.step for checkpoint in run.checkpoints()] == [4, 6, 7]


def test_automatic_pruning_follows_every_save_of_a_tolerant_run(tmp_path):
    retention = ckptstore.Retention(keep_last=1, grace="0", automatic=True)
    run = ckptstore.open(make_store(tmp_path, retention=retention).config).run("r")
    tolerant = ckptstore.TolerantRun(run, tolerate_failures=1)
    tolerant.save({"w": torch.ones(10)}, step=1)
    for step in (2, 3):
        tolerant.save_async({"w": torch.ones(10)}, step=step).result()
        assert [checkpoint.step for checkpoint in run.checkpoints()] == [step]


def test_what_automatic_pruning_could_not_do_is_a_warning_and_the_save_stands(tmp_path):
    retention = ckptstore.Retention(keep_last=1, grace="0", automatic=True)
    run = ckptstore.open(make_store(tmp_path, retention=retention).config).run("r")
    run.save({"w": torch.ones(10)}, step=1)
    (tmp_path / "c").rename(tmp_path / "c.away")
    tolerant = ckptstore.TolerantRun(run, tolerate_failures=1)

    def save_in_every_way():
        saved = run.save({"w": torch.ones(10)}, step=2)
        run.save_async({"w": torch.ones(10)}, step=3).result()
        tolerant.save_async({"w": torch.ones(10)}, step=4).result()
        return saved

    with pytest.warns(ckptstore.PruneFailedWarning, match="could not be pruned of everything") as caught:
        saved = save_in_every_way()
    assert (saved.step, run.latest().step) == (2, 4)
    pruned = [warning for warning in caught if warning.category is ckptstore.PruneFailedWarning]
    assert [warning.filename for warning in pruned] == [__file__] * 3


def test_a_checkpoint_is_taken_wherever_a_step_is_and_no_other_of_that_step_is_meant(run):
    first, second = run.save({"w": torch.zeros(4)}, step=5), run.save({"w": torch.ones(4)}, step=5)
    for checkpoint, value in ((first, 0), (second, 1)):
        state = {"w": torch.full((4,), 9.0)}
        run.load(state, step=checkpoint)
        assert state["w"].tolist() == [value] * 4
    assert run.tag(first, "best").key == first.key
    assert [health.key for health in run.verify(first).checkpoints] == [first.key]
    assert [result.key for result in run.repair(first, dry_run=True).checkpoints] == [first.key]
    assert run.delete(first).key == first.key
    with pytest.raises(NotFoundError):
        run.load({}, step=first)
    assert run.undelete(first).key == first.key


@pytest.mark.parametrize("step", [1.5, {"step": 1}, [1]])
def test_what_names_no_checkpoint_is_refused_in_words(run, step):
    for ask in (lambda: run.load({}, step=step), lambda: run.delete(step), lambda: run.verify(step)):
        with pytest.raises(UsageError, match="asked for by its step"):
            ask()


def test_a_repair_can_be_rehearsed_from_python(run, tmp_path):
    fragment = next((tmp_path / "a" / "data").glob("*/*/*/*"))
    fragment.unlink()
    assert sum(result.rebuilt for result in run.repair(dry_run=True).checkpoints) == 1
    assert not fragment.exists()
    run.repair()
    assert fragment.exists()


def test_a_tolerant_run_is_a_run(run):
    tolerant = ckptstore.TolerantRun(run, tolerate_failures=1)
    assert isinstance(tolerant, ckptstore.Run)
    tolerant.save({"w": torch.ones(4)}, step=5)
    state = {"w": torch.zeros(4)}
    tolerant.load(state)
    assert state["w"].sum() == 4
    assert (tolerant.latest().step, tolerant.check().targets) == (5, 2)
    assert tolerant.prune(ckptstore.Retention(keep_last=1)).left == []


@pytest.mark.parametrize("asynchronous", [False, True])
def test_whatever_automatic_pruning_raises_fails_no_save(tmp_path, monkeypatch, asynchronous):
    def broken(*_, **__):
        raise OverflowError("no such date")

    monkeypatch.setattr("ckptstore.operations.automatic.prune", broken)
    retention = ckptstore.Retention(keep_last=1, automatic=True)
    run = ckptstore.open(make_store(tmp_path, retention=retention).config).run("r")
    save = (lambda *a, **k: run.save_async(*a, **k).result()) if asynchronous else run.save
    with pytest.warns(UserWarning, match="could not be pruned of everything: no such date"):
        saved = save({"w": torch.ones(10)}, step=1)
    assert saved.step == run.latest().step == 1


def test_automatic_pruning_keeps_as_many_as_were_asked_for_where_one_is_lost(tmp_path):
    retention = ckptstore.Retention(keep_last=2, automatic=True)
    store = make_store(tmp_path, retention=retention)
    run = ckptstore.open(store.config).run("r")
    for step in (1, 2):
        run.save({"w": torch.ones(10)}, step=step)
    for name in "abc":
        newest = max((tmp_path / name / "data").rglob("*.*"), key=lambda path: path.stat().st_mtime_ns)
        newest.unlink()
    with pytest.warns(UserWarning, match="step-2 is lost"):
        run.save({"w": torch.ones(10)}, step=3)
    assert steps(run) == [1, 2, 3]


def test_a_tag_in_the_settings_that_nobody_has_yet_stops_no_pruning(tmp_path, recwarn):
    retention = ckptstore.Retention(keep_last=2, keep_tags=["best"], automatic=True)
    run = ckptstore.open(make_store(tmp_path, retention=retention).config).run("r")
    for step in range(1, 5):
        run.save({"w": torch.ones(10)}, step=step)
    assert steps(run) == [3, 4]
    assert not [warning for warning in recwarn if "pruned" in str(warning.message)]
    run.prune()
    with pytest.raises(NotFoundError, match="no checkpoint has the tag best"):
        run.prune(keep_tags=["best"])
    with pytest.raises(NotFoundError):
        run.prune(ckptstore.Retention(keep_tags=["best"]))


def test_rules_that_name_none_of_the_first_steps_warn_of_nothing(tmp_path, recwarn):
    retention = ckptstore.Retention(keep_every=100, automatic=True)
    run = ckptstore.open(make_store(tmp_path, retention=retention).config).run("r")
    for step in range(1, 4):
        run.save({"w": torch.ones(10)}, step=step)
    assert steps(run) == [3]
    assert not [warning for warning in recwarn if "pruned" in str(warning.message)]


def test_prune_takes_its_rules_as_keywords(run):
    assert [c.manifest.step for c in run.prune(keep_last=1, dry_run=True).deleted]
    assert run.prune(keep_last=1, grace="5h").rules == ckptstore.Retention(keep_last=1, grace="5h")
    assert len(run.checkpoints()) == 1


@pytest.mark.parametrize(
    ("rules", "keep", "words"),
    [
        (({"keep_last": 2},), {}, ["dict", "keep_last="]),
        ((), {"keep": 2}, ["keep", "keep_last"]),
        ((), {"keep_last": "2"}, ["keep_last", "'2'"]),
        ((), {"keep_last": -1}, ["keep_last = -1", "0 or more"]),
        ((), {"keep_within": "5x"}, ["keep_within = '5x'", "24h"]),
        ((), {"keep_within": 7}, ["keep_within = 7", "24h"]),
        ((), {"keep_tags": "best"}, ["keep_tags", "best"]),
        ((ckptstore.Retention(keep_last=1),), {"keep_last": 2}, ["Retention", "keep_last"]),
        ((), {"keep_last": 2, "sweep_only": True}, ["sweep_only", "keep_last"]),
        ((), {"grace": "1h"}, ["nothing says what to keep", "run.prune(keep_last=3)"]),
    ],
    ids=str,
)
def test_prune_says_what_is_wrong_with_its_rules_and_blames_no_file(run, rules, keep, words):
    before = steps(run)
    with pytest.raises(UsageError) as caught:
        run.prune(*rules, **keep)
    assert all(word in str(caught.value) for word in words), str(caught.value)
    assert "store.toml, then" not in str(caught.value)
    assert caught.value.hint
    assert steps(run) == before
