"""What racing processes do, and what must hold when all of them have ended."""

import time
from collections.abc import Collection
from dataclasses import dataclass, field

from ckptstore.errors import CommitInDoubt, ConflictError
from ckptstore.operations.prune import prune
from ckptstore.retention import Retention
from ckptstore.selection import Selector, key_of
from ckptstore.source import Source
from manifests import Manifest
from tests.faults.crash.sweeps import find, state
from tests.faults.crash.world import World
from tests.support import RUN, LocalStore, assert_equal, read_all

__all__ = ["Saved", "delete", "judge", "prune_now", "read", "repair", "save", "save_many", "tidy"]


@dataclass
class Saved:
    """What savers were told: which value each key holds. `tried`: all values that anybody tried to save."""

    tried: set[int] = field(default_factory=set)
    committed: dict[str, int] = field(default_factory=dict)

    def add(self, value: int, outcome: object) -> None:
        """Note what came of saving a value: a key, or a refusal that is none of the saver's fault."""
        self.tried.add(value)
        if isinstance(outcome, str):
            self.committed[outcome] = value
        else:
            assert isinstance(outcome, ConflictError | CommitInDoubt), repr(outcome)


# -- done by one process ----------------------------------------


def save(store: LocalStore, value: int, step: int) -> str:
    """Save a value under a step; its key."""
    return key_of(store.save(state(value), step=step))


def save_many(store: LocalStore, values: Collection[int], step: int) -> list[object]:
    """Save values one after the other; keys, and refusals."""
    outcomes: list[object] = []
    for value in values:
        try:
            outcomes.append(save(store, value, step))
        except (ConflictError, CommitInDoubt) as error:
            outcomes.append(error)
    return outcomes


def repair(store: LocalStore) -> int:
    """Repair all; the exit code."""
    return store.repair().exit_code


def delete(store: LocalStore, step: int) -> None:
    """Delete a step."""
    store.opened.group.delete(RUN, *find(store, step).key)


def prune_now(store: LocalStore, *, sweep_only: bool = False) -> int:
    """Keep the latest alone, or whatever is live, without any grace; the exit code."""
    return prune(store.opened, RUN, Retention(grace="0", keep_last=1), sweep_only=sweep_only).exit_code


def read(store: LocalStore, step: int) -> str:
    """Load a step and compare every bit."""
    assert_equal(store.load(Selector(step=step)), state(step))
    return "right"


# -- when all have ended ----------------------------------------


def judge(world: World, saved: Saved) -> None:
    """What was reported committed is listed and is what was saved; whatever is listed is exactly one saver's value."""
    store = world.open()
    history = store.opened.group.history(RUN)
    values = {key_of(c): value_of(store, c.manifest) for c in history.checkpoints}
    assert saved.committed.items() <= values.items()
    assert set(values.values()) <= saved.tried
    latest = store.latest()
    assert value_of(store, latest) == values[max(values)]
    store.opened.close()


def value_of(store: LocalStore, manifest: Manifest) -> int:
    """The value that a checkpoint holds; all of it must be that one's."""
    arrays = read_all(Source.open(store.opened, manifest))
    value = int(arrays["step"])
    assert_equal(arrays, state(value))
    return value


def tidy(world: World) -> None:
    """Keep the latest alone and remove all that isn't needed."""
    for _ in range(2):
        time.sleep(world.tick)
        store = world.open()
        assert prune_now(store) == 0
        store.opened.close()
