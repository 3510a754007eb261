"""How processes that save end, and what is left of their stores: signals, exits, forks, many saves."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from ckptstore.config import Config, TargetConfig
from ckptstore.selection import Selector
from tests.support import RUN, reopen

ROOT = Path(__file__).parents[2]
COUNT = 20_000
TERMINATED = 143
SOON = 20.0  # seconds, on a busy machine
pytestmark = [pytest.mark.timeout(200)]


class Ended:
    """One scenario of `tests.faults.lives`, over."""

    def __init__(self, folder: Path) -> None:
        end = json.loads((folder / "end.json").read_text())
        self.status: int = end["status"]
        self.seconds: float = end["seconds"]
        self.out = (folder / "out").read_text()
        self.err = (folder / "err").read_text()
        self.folder = folder

    def steps(self) -> list[int]:
        """The checkpoints that are there, oldest first; every one loads, bit for bit."""
        root = self.folder / "targets"
        targets = [TargetConfig(name=name, url=str(root / name)) for name in "abcdef"]
        store = reopen(root, Config(name="store", targets=targets))
        steps = [checkpoint.manifest.step for checkpoint in store.opened.group.history(RUN).checkpoints]
        for step in steps:
            assert np.array_equal(store.load(Selector(step=step))["w"], np.full(COUNT, step, np.float32))
        return steps


def live(folder: Path, *options: str) -> Path:
    subprocess.run([sys.executable, "-m", "tests.faults.lives", str(folder), *options], check=True, cwd=ROOT)
    return folder


@pytest.fixture(scope="module")
def lives(tmp_path_factory):
    """All scenarios, each over."""
    return live(tmp_path_factory.mktemp("lives"))


@pytest.mark.parametrize("name", ["term_once_and_the_save_is_quick", "term_once_in_a_foreground_save"])
def test_o46_sigterm_lets_the_save_in_flight_finish_and_commit(lives, name):
    ended = Ended(lives / name)
    assert ended.status == TERMINATED, ended.err
    assert ended.seconds < SOON
    assert ended.steps() == [1, 2]
    assert "save step-2 of run demo: committed" in ended.err


def test_o46_a_save_that_takes_longer_than_the_grace_is_cut_off_and_told(lives):
    ended = Ended(lives / "term_once_and_the_save_hangs")
    assert ended.status == TERMINATED, ended.err
    assert ended.seconds < SOON
    assert ended.steps() == [1]
    assert "save step-2 of run demo: cut off" in ended.err


@pytest.mark.parametrize("name", ["term_twice", "term_twice_while_the_main_thread_runs_no_python"])
def test_o46_a_second_sigterm_ends_at_once(lives, name):
    ended = Ended(lives / name)
    assert ended.status == TERMINATED, ended.err
    assert ended.seconds < SOON, "the grace is 30 s"
    assert ended.steps() == [1]
    assert "a second SIGTERM" in ended.err


def test_o46_sigterm_ends_at_once_where_nothing_is_in_flight(lives):
    ended = Ended(lives / "term_with_nothing_in_flight")
    assert (ended.status, ended.steps()) == (TERMINATED, [1])
    assert ended.seconds < SOON


def test_o46_a_failure_before_the_sigterm_that_nobody_asked_for_is_told(lives):
    ended = Ended(lives / "term_after_a_failure_that_nobody_asked_for")
    assert (ended.status, ended.steps()) == (TERMINATED, [1])
    assert ended.err.count("save step-2 of run demo: failed: ") == 1


def test_o46_a_failure_before_the_sigterm_that_was_told_is_not_told_again(lives):
    ended = Ended(lives / "term_after_a_failure_that_was_told")
    assert (ended.status, ended.steps()) == (TERMINATED, [1])
    assert "failed: " not in ended.err


def test_o46_the_users_own_handler_is_called_and_decides(lives):
    ended = Ended(lives / "term_with_a_handler_of_the_users")
    assert ended.status == 0, ended.err
    assert ended.steps() == [1, 2, 3]


def test_o46_what_a_forked_worker_gets_does_not_concern_the_trainer(lives):
    ended = Ended(lives / "term_of_a_forked_worker_is_not_the_trainers")
    assert ended.status == 0, ended.err
    assert ended.steps() == [1, 2]
    assert ended.err == ""


def test_o46_sigkill_leaves_the_old_checkpoint(lives):
    ended = Ended(lives / "killed_in_a_save")
    assert (ended.status, ended.steps()) == (-signal.SIGKILL, [1])


@pytest.mark.parametrize(("name", "status"), [("falls_off_the_end", 0), ("sys_exit", 3), ("exception", 1)])
def test_o47_a_pending_save_is_committed_before_the_interpreter_ends(lives, name, status):
    ended = Ended(lives / name)
    assert ended.status == status, ended.err
    assert ended.steps() == [1, 2]
    assert ("ZeroDivisionError" in ended.err) == (name == "exception")


def test_o47_a_failure_that_nobody_asked_for_is_told_at_exit_with_status_1(lives):
    ended = Ended(lives / "failed_and_nobody_asked")
    assert (ended.status, ended.steps()) == (1, [1])
    assert "a background save of run demo failed: ToleranceError" in ended.err
    assert "the user's own exit ran" in ended.out


def test_o47_a_failure_that_somebody_asked_for_is_not_told_again(lives):
    ended = Ended(lives / "failed_and_somebody_asked")
    assert (ended.status, ended.err, ended.out) == (0, "", "ToleranceError\n")


def test_o47_so_it_is_in_a_process_of_multiprocessing(lives):
    ended = Ended(lives / "failed_in_a_process_of_multiprocessing")
    assert ended.status == 1
    assert "a background save of run demo failed: ToleranceError" in ended.err


def test_o47_exit_hangs_no_longer_than_a_save_may(lives):
    ended = Ended(lives / "hangs_at_exit")
    assert (ended.status, ended.steps()) == (1, [1])
    assert ended.seconds < SOON, "save_timeout is 2 s, a put takes 90"
    assert "SaveStalled" in ended.err


@pytest.mark.parametrize("name", ["outlived_by_a_thread_that_saves", "saved_in_atexit"])
def test_o47_a_save_after_the_main_thread_s_end_says_what_to_do(lives, name):
    """There the interpreter has stopped all thread pools, for good."""
    ended = Ended(lives / name)
    assert (ended.status, ended.err, ended.steps()) == (0, "", [1])
    assert ended.out == "StoreClosed True\n" * 6


@pytest.mark.parametrize("name", ["four_forked_children_read", "four_spawned_children_read"])
def test_o48_children_read_and_the_parent_goes_on(lives, name):
    ended = Ended(lives / name)
    assert ended.status == 0, ended.err


def test_o40_50_saves_hold_no_more_than_5(lives):
    assert_steady(lives / "fifty_small_saves")


@pytest.mark.soak
def test_o40_50_saves_of_64_mib_hold_no_more_than_5(tmp_path):
    assert_steady(live(tmp_path, "soak") / "fifty_large_saves")


def assert_steady(folder: Path) -> None:
    assert Ended(folder).status == 0, Ended(folder).err
    held = json.loads((folder / "held.json").read_text())
    print(held)  # noqa: T201 - the numbers, for whoever runs it with -s
    for what, after_5 in held["5"].items():
        assert held["50"][what] <= 1.1 * after_5, (what, held)
