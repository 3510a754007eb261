"""What a process does that dies at a request, and what must hold however far it came."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from ckptstore.operations.prune import prune
from ckptstore.retention import Retention
from ckptstore.selection import Selector
from manifests import Checkpoint, Manifest
from tests.faults.crash.killing import Killed, Killer, When
from tests.faults.crash.world import World, kinds
from tests.support import RUN, LocalStore, assert_equal

__all__ = ["SWEEPS", "Sweep", "damage", "expected_kinds", "requests_of", "settle", "state", "sweep_point"]

Steps = tuple[int, ...]
LAST = 99


@dataclass(frozen=True)
class Sweep:
    """`prepare` a store; `act`, and die at some request; `again` ends what was begun.

    `before` and `after`: the steps that are live when nothing and when all of it was done.
    """

    prepare: Callable[[World], None]
    act: Callable[[LocalStore], object]
    again: Callable[[LocalStore], object]
    before: Steps
    after: Steps

    def prepared(self, world: World) -> World:
        """A new store, made the one that the process finds."""
        self.prepare(world)
        return world


def state(step: int) -> dict[str, np.ndarray]:
    """160,000 bytes of step `step`: two stripes, the second short."""
    return {"w": np.arange(40_000, dtype=np.float32) + step, "step": np.array(step)}


def save(store: LocalStore, *steps: int) -> list[Manifest]:
    """Save these steps."""
    return [store.save(state(step), step=step) for step in steps]


def live(store: LocalStore) -> Steps:
    """The steps that are listed; each of them, and the latest, must load bit for bit."""
    found = tuple(checkpoint.manifest.step or 0 for checkpoint in store.opened.group.history(RUN).checkpoints)
    for step in found:
        assert_equal(store.load(Selector(step=step)), state(step))
    assert_equal(store.load(), state(found[-1]))
    return found


def find(store: LocalStore, step: int) -> Checkpoint:
    """The save of a step, live or deleted."""
    history = store.opened.group.history(RUN)
    return next(c for c in (*history.checkpoints, *history.deleted) if c.manifest.step == step)


def delete(store: LocalStore, step: int) -> None:
    """Put a delete mark on a step."""
    store.opened.group.delete(RUN, *find(store, step).key)


def undelete(store: LocalStore, step: int) -> None:
    """Take back its delete marks."""
    store.opened.group.undelete(RUN, *find(store, step).key)


def pruned(store: LocalStore) -> None:
    """Keep the latest alone; nothing may be left undone."""
    report = prune(store.opened, RUN, Retention(keep_last=1))
    assert report.exit_code == 0, [*report.blocked, *report.failed]


def repaired(store: LocalStore) -> None:
    """After a repair every byte of everything is good."""
    report = store.repair()
    assert report.exit_code == 0, report
    for step in live(store):
        assert store.verify(Selector(step=step), read_data=True).state == "good"


# -- stores ----------------------------------------


def _saved(*steps: int) -> Callable[[World], None]:
    return lambda world: _done(world, lambda store: save(store, *steps))


def _done(world: World, act: Callable[[LocalStore], object]) -> None:
    store = world.open()
    act(store)
    store.opened.close()


def _with_a_deleted_one(world: World) -> None:
    _done(world, lambda store: (save(store, 1, 2), delete(store, 2)))


def _to_be_pruned(world: World) -> None:
    """One live too many, one deleted two days ago, and what a saver left that died two days ago, its data put."""
    _done(world, lambda store: (save(store, 1, 2), delete(store, 1)))
    killer = Killer()
    save(world.copy().open(killer), 8)
    with suppress(Killed):
        save(world.open(Killer(killer.count * 2 // 3)), 8)
    world.pass_time()
    _saved(3)(world)


def _damaged(world: World) -> None:
    _saved(1, 2)(world)
    damage(world)


def damage(world: World) -> None:
    """As many fragments missing or rotten as a stripe may lose; a record, an index and a manifest a copy short."""
    store = world.open()
    for number, checkpoint in enumerate(store.opened.group.history(RUN).checkpoints):
        manifest = checkpoint.manifest
        fragments = store.fragments(manifest)
        store.flip(fragments[number])
        store.remove(fragments[-1])
        record = store.index(manifest).shards[0].record
        store.raw[record.targets[0]].delete([record.path])
        index = manifest.copies[0].index
        store.raw[index.targets[0]].put(index.path, b"rotten")
    name, path = next((name, path) for name, path in world.paths() if "/manifests/" in path)
    store.raw[name].delete([path])
    store.opened.close()


def _wiped(world: World) -> None:
    _saved(1, 2)(world)
    world.wipe("c")


SWEEPS = {
    "save": Sweep(_saved(1), lambda s: save(s, 2), lambda s: save(s, 3), (1,), (1, 2)),
    "first save": Sweep(lambda world: None, lambda s: save(s, 2), lambda s: save(s, 3), (), (2,)),
    "delete": Sweep(_saved(1, 2), lambda s: delete(s, 2), lambda s: delete(s, 2), (1, 2), (1,)),
    "undelete": Sweep(_with_a_deleted_one, lambda s: undelete(s, 2), lambda s: undelete(s, 2), (1,), (1, 2)),
    "repair": Sweep(_damaged, repaired, repaired, (1, 2), (1, 2)),
    "repair of a wiped target": Sweep(_wiped, repaired, repaired, (1, 2), (1, 2)),
    "prune": Sweep(_to_be_pruned, pruned, pruned, (2, 3), (3,)),
}


# -- one point ----------------------------------------


def requests_of(sweep: Sweep, pristine: World) -> int:
    """How many requests the whole of it makes."""
    killer = Killer()
    sweep.act(pristine.copy().open(killer))
    return killer.count


def sweep_point(sweep: Sweep, pristine: World, at: int, when: When) -> World:
    """Die at request `at`; then hold what is left against the promises, go on, and tidy up. Returns what is left."""
    world = pristine.copy()
    dying = world.open(Killer(at, when))
    done = False
    with suppress(Killed):
        sweep.act(dying)
        done = True
    dying.opened.close()
    check(sweep, world, done=done)
    settle(world)
    return world


def check(sweep: Sweep, world: World, *, done: bool) -> None:
    """What was reported is so, what is listed loads, and what was begun can be done to the end."""
    store = world.open()
    allowed: Sequence[Steps] = (sweep.after,) if done else (sweep.before, sweep.after)
    history = store.opened.group.history(RUN)
    seen = live(store) if history.checkpoints else ()
    assert seen in allowed, f"{seen} is none of {allowed}"
    sweep.again(store)
    live(store)
    store.opened.close()


def settle(world: World) -> None:
    """Save once more, and when all is old keep that alone."""
    _saved(LAST)(world)
    for _ in range(2):
        world.pass_time()
        _done(world, pruned)
    assert live(world.open()) == (LAST,)


def expected_kinds(sweep: Sweep, pristine: World) -> Mapping[str, int]:
    """What is left where nobody dies."""
    world = pristine.copy()
    _done(world, sweep.act)
    check(sweep, world, done=True)
    settle(world)
    return kinds(world)
