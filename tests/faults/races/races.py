"""Real processes that race on one run. Each race is held on a new store, and ends with all of them judged."""

import signal
from collections.abc import Callable, Mapping

from ckptstore.errors import NotFoundError
from tests.faults.crash.killing import When
from tests.faults.crash.sweeps import damage
from tests.faults.crash.world import World, kinds
from tests.faults.processes import Job
from tests.faults.races.works import Saved, delete, judge, prune_now, read, repair, save, save_many, tidy
from tests.support import RUN

__all__ = ["FROZEN", "RACES"]

STEP = 10


def begun(world: World, *values: int) -> Saved:
    """Save these values, each under itself as its step, before the race."""
    store, saved = world.open(), Saved()
    for value in values:
        saved.add(value, save(store, value, value))
    store.opened.close()
    return saved


def ended(world: World, saved: Saved, *, voiding: bool = False) -> None:
    """Judge; keep the latest alone, and nothing else may be left: as much as one checkpoint has.

    `voiding`: a collector may have begun to close the register of the latest, and met the save. Its notes stay as long
    as the save: by them every reader knows that a void may lie beside the manifest (docs/commit.md).
    """
    judge(world, saved)
    store = world.open()
    latest = store.latest()
    tidy(world)
    assert store.latest() == latest
    objects, targets = kinds(world), len(world.config.targets)
    assert objects.pop("commit/voiding", 0) in ({0, targets} if voiding else {0})
    assert objects["data/demo"] == 2 * targets
    assert (objects["runs/shards"], objects["runs/index"]) == (2, 2)
    assert objects["commit/begun"] + objects["commit/manifests"] == 2 * targets
    assert sum(objects.values()) == 4 + 4 * targets, objects
    store.opened.close()


# -- at once ----------------------------------------


def writers(world: World, count: int) -> None:
    """O71: two or three jobs save one step of one run, each another value."""
    saved = begun(world, 1)
    tried = [[100 * (number + 1) + i for i in range(3)] for number in range(count)]
    jobs = [Job(world, save_many, values, STEP) for values in tried]
    for values, job in zip(tried, jobs, strict=True):
        for value, outcome in zip(values, job.result(), strict=True):
            saved.add(value, outcome)
    assert saved.committed.keys() - {key for key, value in saved.committed.items() if value == 1}, "nobody won"
    ended(world, saved)


def two_repairs(world: World) -> None:
    """Both end, and all is good."""
    saved = begun(world, 1, 2)
    damage(world)
    jobs = [Job(world, repair) for _ in range(2)]
    codes = [job.result() for job in jobs]
    assert 0 in codes, codes
    store = world.open()
    assert repair(store) == 0
    assert store.verify(read_data=True).state == "good"
    store.opened.close()
    ended(world, saved)


def repair_and_delete(world: World) -> None:
    """What is deleted stays deleted, the rest is repaired."""
    saved = begun(world, 1, 2)
    damage(world)
    jobs = [Job(world, repair), Job(world, delete, 1)]
    assert [job.result() for job in jobs] == [0, None]
    saved.committed = {key: value for key, value in saved.committed.items() if value != 1}
    store = world.open()
    assert [c.manifest.step for c in store.opened.group.history(RUN).checkpoints] == [2]
    assert store.verify(read_data=True).state == "good"
    store.opened.close()
    ended(world, saved)


def saver_and_prune(world: World) -> None:
    """A saver and a collector that knows no grace: saves fail, or are there."""
    saved = begun(world, 1, 2)
    values = [100, 101, 102]
    jobs = [Job(world, save_many, values, STEP), Job(world, prune_now), Job(world, prune_now)]
    outcomes = jobs[0].result()
    for job in jobs[1:]:
        job.outcome()
    for value, outcome in zip(values, outcomes, strict=True):
        saved.add(value, outcome)
    latest = max(saved.committed)
    saved.committed = {latest: saved.committed[latest]}
    ended(world, saved, voiding=True)


# -- one of them frozen at a request ----------------------------------------


def zombie(world: World, at: int, when: When) -> bool:
    """O71: a job is frozen in the middle of a save, a second one saves the same step, and the first wakes up."""
    saved = begun(world, 1)
    job = Job(world, save, 7, STEP, at=at, when=when, number=signal.SIGSTOP)
    stopped = job.is_stopped()
    saved.add(8, save(world.open(), 8, STEP))
    job.go_on()
    saved.add(7, job.outcome())
    ended(world, saved)
    return stopped


def frozen_saver(world: World, at: int, when: When) -> bool:
    """A saver is frozen past the grace period, and its save given up and collected; then it wakes up."""
    saved = begun(world, 1)
    job = Job(world, save, 7, STEP, at=at, when=when, number=signal.SIGSTOP)
    stopped = job.is_stopped()
    store = world.open()
    assert prune_now(store, sweep_only=True) == 0
    read(store, 1)
    job.go_on()
    saved.add(7, job.outcome())
    store.opened.close()
    ended(world, saved)
    return stopped


def reader(world: World, at: int, when: When) -> bool:
    """A reader is frozen, and what it reads deleted and pruned. It gets the right bytes, or is told."""
    saved = begun(world, 1, 2)
    job = Job(world, read, 1, at=at, when=when, number=signal.SIGSTOP)
    stopped = job.is_stopped()
    store = world.open()
    assert prune_now(store) == 0
    assert prune_now(store) == 0
    job.go_on()
    outcome = job.outcome()
    assert outcome == "right" or isinstance(outcome, NotFoundError), repr(outcome)
    store.opened.close()
    saved.committed = {key: value for key, value in saved.committed.items() if value == 2}
    ended(world, saved)
    return stopped


RACES: Mapping[str, Callable[[World], None]] = {
    "two writers": lambda world: writers(world, 2),
    "three writers": lambda world: writers(world, 3),
    "two repairs": two_repairs,
    "repair and delete": repair_and_delete,
    "a saver and two prunes": saver_and_prune,
}

FROZEN: Mapping[str, Callable[[World, int, When], bool]] = {
    "zombie": zombie,
    "saver and prune": frozen_saver,
    "reader and prune": reader,
}
"""Each tells whether the process was still there to be frozen."""
