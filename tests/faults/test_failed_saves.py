"""Saves that fail: what they leave, who is told, how many are tolerated; and a store that is closed meanwhile."""

import json
import threading
from collections import Counter

import pytest
import torch

import ckptstore
from ckptstore.cli.entry import run as ckpt
from ckptstore.errors import CkptStoreError, StateError, StoreClosed, ToleranceError
from ckptstore.opened import release, shared
from ckptstore.retention import Retention
from ckptstore.targets.fault import unavailable
from tests.support import RUN, make_store, reopen

DATA, MANIFESTS = "data/*", "runs/*/commit/*/manifests/*"


class Faulty:
    """A store that this process saves to, over targets that count and fail as told."""

    def __init__(self, root, **settings):
        self.config = make_store(root, **settings).config
        self.store = ckptstore.open(self.config)
        self.run = self.store.run(RUN)
        self.local = reopen(root, self.config)
        shared(self.config).targets = self.local.opened.targets

    def fail(self, path):
        for fault in self.local.faults.values():
            for verb in ("put", "put_if_absent"):
                fault.inject(verb, path, error=unavailable("the disk sulks"))

    def steps(self):
        return [checkpoint.step for checkpoint in self.run.checkpoints()]

    def loaded(self, **which):
        state = weights(0)
        self.run.load(state, **which)
        return state["w"][0].item()


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch):
    monkeypatch.setattr("manifests.attempts.PAUSE", 0.001)


@pytest.fixture
def faulty(tmp_path):
    made = Faulty(tmp_path)
    yield made
    release(made.config)


def weights(value, count=1000):
    return {"w": torch.full((count,), float(value))}


@pytest.mark.parametrize("where", [DATA, MANIFESTS])
def test_o06_after_a_failed_save_and_a_roll_back_nothing_is_skipped(faulty, where):
    faulty.run.save(weights(10), step=10)
    faulty.fail(where)
    with pytest.raises(CkptStoreError):
        faulty.run.save(weights(20), step=20)
    faulty.local.heal()
    assert faulty.steps() == [10]
    assert faulty.loaded() == 10
    for step in (12, 20):
        faulty.run.save(weights(step + 0.5), step=step)
    assert faulty.steps() == [10, 12, 20]
    assert faulty.run.latest().step == 20
    assert (faulty.loaded(step=12), faulty.loaded()) == (12.5, 20.5)
    faulty.run.save(weights(11), step=11)
    assert faulty.run.latest().step == 11, "the last save is the latest, whatever its step"


def test_o10_an_async_save_that_fails_at_its_commit_leaves_the_old_one(faulty):
    faulty.run.save(weights(1), step=1)
    faulty.fail(MANIFESTS)
    with pytest.raises(CkptStoreError):
        faulty.run.save_async(weights(2), step=2).result()
    assert faulty.loaded() == 1
    faulty.local.heal()
    assert faulty.steps() == [1]


@pytest.mark.parametrize("where", [DATA, MANIFESTS])
def test_o10_automatic_retention_waits_for_a_commit_that_is_read_back(tmp_path, where):
    """Keep-last 1 and no grace: what is deleted is gone at once, so nothing may go for a save that fails."""
    faulty = Faulty(tmp_path, retention=Retention(keep_last=1, grace="0", automatic=True))
    faulty.run.save(weights(1), step=1)
    before = faulty.local.objects()
    faulty.fail(where)
    with pytest.raises(CkptStoreError):
        faulty.run.save_async(weights(2), step=2).result()
    faulty.local.heal()
    after = faulty.local.objects()
    assert {key: after.get(key) for key in before} == before
    assert (faulty.steps(), faulty.loaded()) == ([1], 1)
    faulty.run.save_async(weights(3), step=3).result()
    assert (faulty.steps(), faulty.loaded()) == ([3], 3)
    release(faulty.config)


def test_o09_a_run_that_went_on_from_another_ones_checkpoint_leaves_it_alone(faulty):
    faulty.run.save(weights(1), step=1)
    before = faulty.local.objects()
    resumed = faulty.store.run("resumed")
    for step in (2, 3, 4):
        resumed.save(weights(step), step=step)
        assert resumed.prune(keep_last=1, grace="0").exit_code == 0
    assert [checkpoint.step for checkpoint in resumed.checkpoints()] == [4]
    after = faulty.local.objects()
    assert {key: after.get(key) for key in before} == before
    assert (faulty.steps(), faulty.loaded()) == ([1], 1)


@pytest.mark.parametrize("next_one", ["save", "save_async", "close"])
def test_a_background_failure_that_nobody_asked_for_is_raised_once_by_what_comes_next(faulty, next_one):
    faulty.fail(DATA)
    handle = faulty.run.save_async(weights(1), step=1)
    while not handle.done():
        pass
    faulty.local.heal()
    with pytest.raises(ToleranceError):
        faulty.store.close() if next_one == "close" else getattr(faulty.run, next_one)(weights(2), step=2)
    assert faulty.run.save(weights(3), step=3).step == 3
    faulty.store.close()


def test_a_result_that_was_not_waited_for_long_enough_tells_nothing_yet(faulty):
    for fault in faulty.local.faults.values():
        fault.inject("put", DATA, seconds=0.5, error=unavailable("the disk sulks"))
    handle = faulty.run.save_async(weights(1), step=1)
    with pytest.raises(TimeoutError):
        handle.result(timeout=0.01)
    with pytest.raises(ToleranceError):
        faulty.store.close()


@pytest.mark.parametrize("background", [False, True], ids=["save", "save_async"])
def test_o75_two_failures_in_a_row_are_tolerated_and_counted(faulty, capsys, tmp_path, background):
    run = ckptstore.TolerantRun(faulty.run, tolerate_failures=2)

    def save(step):
        return run.save_async(weights(step), step=step).result() if background else run.save(weights(step), step=step)

    faulty.fail(DATA)
    for step in (1, 2):
        message = f"step-{step}: save {step} in a row failed, 2 are tolerated"
        with pytest.warns(ckptstore.SaveFailedWarning, match=message) as caught:
            assert save(step) is None
        told = [warning.filename for warning in caught if warning.category is ckptstore.SaveFailedWarning]
        assert told == [__file__]
    faulty.local.heal()
    assert [save(3).step, save(4).step] == [3, 4]
    assert (run.failed, run.failed_in_a_row) == (2, 0)
    faulty.fail(DATA)
    for step in (5, 6):
        with pytest.warns(ckptstore.SaveFailedWarning):
            save(step)
    with pytest.raises(ToleranceError):
        save(7)
    assert (run.failed, run.failed_in_a_row) == (5, 3)
    faulty.local.heal()
    assert events(faulty, tmp_path, capsys) == {"begun": 7, "committed": 2}


def events(faulty, tmp_path, capsys):
    """Saves begun and committed, as `ckpt log --json` counts them."""
    tables = "".join(f'[[targets]]\nname = "{t.name}"\nurl = "{t.url}"\n' for t in faulty.config.targets)
    (tmp_path / "store.toml").write_text(f'name = "store"\n{tables}')
    assert ckpt(["log", "--json", "--store", str(tmp_path / "store.toml"), "--run", RUN]) == 0
    told = json.loads(capsys.readouterr().out.splitlines()[-1])
    return Counter(event["kind"] for event in told["events"] if event["kind"] in {"begun", "committed"})


def test_o75_what_is_wrong_with_the_state_is_never_tolerated(faulty):
    run = ckptstore.TolerantRun(faulty.run, tolerate_failures=2)
    with pytest.raises(StateError):
        run.save({"w": torch.zeros(2).to_sparse()}, step=1)
    assert faulty.steps() == []


def test_o75_a_save_sends_the_payload_with_its_parity_and_little_else(faulty):
    payload = 8 << 20
    state = {f"w{i}": torch.rand(payload // 32) for i in range(8)}
    for step in range(3):
        for meter in faulty.local.meters.values():
            meter.reset()
        faulty.run.save(state, step=step)
        sent = sum(meter.bytes_written for meter in faulty.local.meters.values())
        assert payload * 6 / 4 <= sent <= payload * 6 / 4 * 1.05, step


def test_a_store_closed_under_a_load_refuses_it_in_words_and_opens_again(faulty):
    faulty.run.save(weights(1, 200_000), step=1)
    began = threading.Event()
    outcomes = []

    def load():
        try:
            while True:
                began.set()
                faulty.run.load(weights(0, 200_000), step=1)
        except BaseException as error:  # noqa: BLE001 - told to the main thread
            outcomes.append(error)

    thread = threading.Thread(target=load)
    opened = shared(faulty.config)
    thread.start()
    began.wait()
    opened.close()
    thread.join(30)
    assert [type(error) for error in outcomes] == [StoreClosed]
    assert "closed by another thread" in str(outcomes[0])
    faulty.store.close()
    assert faulty.run.verify(read_data=True).exit_code == 0


@pytest.mark.parametrize("save", ["save", "save_async"])
def test_a_state_that_changes_while_it_is_saved_is_stored_as_it_is_digested(tmp_path, save):
    """Another thread trains on meanwhile: what is stored may be of two moments, and it loads all the same."""
    run = ckptstore.open(make_store(tmp_path, "abc", "2+1", "256KiB").config).run("r")
    tensor, done = torch.zeros(2 << 20, dtype=torch.int32), threading.Event()

    def train() -> None:
        while not done.is_set():
            tensor.add_(1)

    trainer = threading.Thread(target=train)
    trainer.start()
    try:
        for step in range(3):
            saved = getattr(run, save)({"w": tensor}, step=step)
            if save == "save_async":
                saved.result()
    finally:
        done.set()
        trainer.join()
    for step in range(3):
        run.load({"w": torch.zeros_like(tensor)}, step=step)
    assert run.verify(read_data=True).exit_code == 0
