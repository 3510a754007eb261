"""A store in memory that is copied in no time, as processes come and go and days pass."""

import re
from collections import Counter
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from ckptstore.config import Config, TargetConfig
from ckptstore.opened import Opened
from ckptstore.placement import full_tolerance
from ckptstore.targets import MemoryTarget, TargetRegister
from ckptstore.targets.memory import MemoryObjects
from manifests import init_store
from tests.faults.crash.killing import Killer, KillTarget
from tests.support import RUN, LocalStore

__all__ = ["World", "kinds", "make_world"]

FOR_EVER = re.compile(rf"runs/{RUN}/commit/[^/]+/(sessions|collected)/|ckptstore\.json|incarnations/")
"""What stays: openings, the notes of saves that have ended, what a target counts for."""
LOCK = re.compile(rf"runs/{RUN}/commit/[^/]+/voiding/(.+)")
"""The votes on a save that was voided stay too: they are the lock on its register."""


@dataclass
class World:
    """What every target holds. A process opens it, and may die."""

    config: Config
    held: dict[str, MemoryObjects]

    def copy(self) -> "World":
        """The same objects with the same ages, on targets of their own."""
        twin = {name: MemoryObjects() for name in self.held}
        for name, objects in self.held.items():
            twin[name].by_path.update(objects.by_path)
        return World(self.config, twin)

    def open(self, killer: Killer | None = None) -> LocalStore:
        """The store as a new process opens it."""
        store = LocalStore(self.config, Opened(self.config), Path("/nowhere"))
        for name, objects in self.held.items():
            store.raw[name] = MemoryTarget(name, objects)
        store.opened.targets = {
            name: target if killer is None else KillTarget(target, killer) for name, target in store.raw.items()
        }
        return store

    def pass_time(self, days: float = 2.0) -> None:
        """Let everything that is stored be older."""
        for objects in self.held.values():
            for path, (data, modified) in objects.by_path.items():
                objects.by_path[path] = data, modified - timedelta(days=days)

    def wipe(self, name: str) -> None:
        """Empty one target."""
        self.held[name].by_path.clear()

    def paths(self) -> list[tuple[str, str]]:
        """Every object, by target and path."""
        return [(name, path) for name, objects in self.held.items() for path in objects.by_path]


def make_world(names: str = "abc", code: str = "2+1", **settings: object) -> World:
    """A new store in memory."""
    targets = [TargetConfig(name=name, url=f"memory://crash/{name}") for name in names]
    config = Config(name="store", code=code, fragment_size="64KiB", targets=targets, **settings)
    world = World(config, {name: MemoryObjects() for name in names})
    members = [TargetRegister(target) for target in world.open().raw.values()]
    init_store(members, t=max(full_tolerance(config.k, config.m, config.places).targets, 0))
    return world


def kinds(world: World) -> Counter[str]:
    """How many objects there are of each kind, without those that stay for ever: two stores alike have as many."""
    locked = {match[1] for _, path in world.paths() if (match := LOCK.search(path))}
    return Counter(
        _kind(path)
        for _, path in world.paths()
        if not FOR_EVER.match(path) and not any(f"/{save}" in path for save in locked)
    )


def _kind(path: str) -> str:
    parts = path.split("/")
    return "/".join(parts[2:5:2]) if "/commit/" in path else "/".join(parts[0:3:2])
