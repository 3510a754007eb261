"""A process that SIGKILL ends: at a request, or in the middle of whatever it does (cases O49, O59)."""

import random
import shutil
import signal
import time

import pytest

from tests.faults.crash.powercut import unsynced
from tests.faults.crash.sweeps import SWEEPS, check, expected_kinds, requests_of, settle
from tests.faults.crash.world import FolderWorld, folder_world, kinds
from tests.faults.processes import Job
from tests.faults.report import Proof, keep


def prepared(name: str, root) -> tuple[FolderWorld, int, dict[str, int]]:
    world = folder_world(root / name)
    with unsynced():
        SWEEPS[name].prepared(world)
        return world, requests_of(SWEEPS[name], world), dict(expected_kinds(SWEEPS[name], world))


def hold(name: str, world: FolderWorld, expected: dict[str, int], *, done: bool) -> None:
    with unsynced():
        check(SWEEPS[name], world, done=done)
        settle(world)
    assert kinds(world) == expected
    shutil.rmtree(world.root)


def act(store, name: str) -> bool:
    """What dies, in its own process."""
    SWEEPS[name].act(store)
    return True


@pytest.mark.parametrize(("name", "share", "when"), [("save", 0.9, "after"), ("prune", 0.5, "before")])
def test_o59_a_job_killed_at_a_request_costs_nothing(name, share, when, tmp_path):
    pristine, requests, expected = prepared(name, tmp_path)
    world = pristine.copy()
    job = Job(world, act, name, at=int(requests * share), when=when)
    assert job.outcome() is None
    assert job.process.exitcode == -signal.SIGKILL
    hold(name, world, expected, done=False)


@pytest.mark.soak
def test_o59_jobs_killed_at_requests_and_in_between(tmp_path):
    began, rows, failures = time.monotonic(), [], []
    chance = random.Random(49)
    for name in SWEEPS:
        pristine, requests, expected = prepared(name, tmp_path)
        killed = 0
        for number in range(KILLS):
            world = pristine.copy()
            if number % 2:
                job = Job(
                    world, act, name, at=chance.randrange(1, requests + 1), when=chance.choice(("before", "after"))
                )
            else:  # stopped before its first request: from there to its end takes about as long as in this process
                job = Job(world, act, name, at=1, number=signal.SIGSTOP)
                assert job.is_stopped()
                job.go_on()
                time.sleep(chance.random() * SECONDS)
                job.send(signal.SIGKILL)
            done = bool(job.outcome())
            killed += not done
            try:
                hold(name, world, expected, done=done)
            except Exception as error:  # noqa: BLE001 - told with what was killed
                failures.append(f"{name}, kill {number}: {error!r}")
        rows.append([name, requests, killed])
    counts = {"jobs killed": sum(row[-1] for row in rows), "promises broken": len(failures)}
    keep("kills", Proof(TITLE, COMMAND, TEXT, counts, time.monotonic() - began, [[HEADINGS, *rows]]))
    assert not failures, failures[:10]


KILLS = 30
SECONDS = 0.6
TITLE = "SIGKILL"
COMMAND = ".venv/bin/pytest -m soak tests/faults/crash/test_sigkill.py --timeout 7200"
HEADINGS = ["what is killed", "requests", "killed"]
TEXT = """Real processes on three local directories, code 2+1: half of them kill themselves at a request drawn by
chance, half are killed from outside at some moment. The checks are those of a process that dies."""
