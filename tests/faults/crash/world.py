"""A store that is copied, opened by one process after another, and grows older."""

import os
import re
import shutil
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from tempfile import mkdtemp
from typing import Protocol

import msgspec

from ckptstore.config import Config, TargetConfig
from ckptstore.opened import Opened
from ckptstore.placement import full_tolerance
from ckptstore.targets import MemoryTarget, TargetRegister
from ckptstore.targets.memory import MemoryObjects
from manifests import init_store
from tests.faults.crash.killing import Killer, KillTarget
from tests.support import RUN, LocalStore

__all__ = ["FolderWorld", "MemoryWorld", "World", "folder_world", "init_world", "kinds", "memory_world", "with_killer"]

FOR_EVER = re.compile(rf"runs/{RUN}/commit/[^/]+/(sessions|collected)/|ckptstore\.json|incarnations/")
"""What stays: openings, the notes of saves that have ended, what a target counts for."""
LOCK = re.compile(rf"runs/{RUN}/commit/[^/]+/voiding/(.+)")
"""The votes on a save that was voided stay too: they are the lock on its register."""


class World(Protocol):
    """What every target holds. Processes open it, and may die. `tick`: what its clocks tell apart, in seconds."""

    config: Config
    tick: float

    def copy(self) -> "World":
        """The same objects with the same ages, on targets of their own."""

    def open(self, killer: Killer | None = None) -> LocalStore:
        """The store as a new process opens it."""

    def pass_time(self, days: float = 2.0) -> None:
        """Let everything that is stored be older."""

    def wipe(self, name: str) -> None:
        """Empty one target."""

    def paths(self) -> list[tuple[str, str]]:
        """Every object, by target and path."""


@dataclass
class MemoryWorld:
    """In memory: copied in no time."""

    config: Config
    held: dict[str, MemoryObjects]
    tick: float = 0.001

    def copy(self) -> "MemoryWorld":
        twin = {name: MemoryObjects() for name in self.held}
        for name, objects in self.held.items():
            twin[name].by_path.update(objects.by_path)
        return MemoryWorld(self.config, twin)

    def open(self, killer: Killer | None = None) -> LocalStore:
        store = LocalStore(self.config, Opened(self.config), Path("/nowhere"))
        store.raw = {name: MemoryTarget(name, objects) for name, objects in self.held.items()}
        return with_killer(store, killer)

    def pass_time(self, days: float = 2.0) -> None:
        for objects in self.held.values():
            for path, (data, modified) in objects.by_path.items():
                objects.by_path[path] = data, modified - timedelta(days=days)

    def wipe(self, name: str) -> None:
        self.held[name].by_path.clear()

    def paths(self) -> list[tuple[str, str]]:
        return [(name, path) for name, objects in self.held.items() for path in objects.by_path]


@dataclass
class FolderWorld:
    """In local directories below `root`."""

    config: Config
    root: Path
    tick: float = 0.02

    def copy(self) -> "FolderWorld":
        self.root.parent.joinpath("copies").mkdir(exist_ok=True)
        into = Path(mkdtemp(dir=self.root.parent / "copies"))
        shutil.copytree(self.root, into, dirs_exist_ok=True)
        return self.at(into)

    def at(self, root: Path) -> "FolderWorld":
        """The same store, its directories below another folder."""
        targets = [msgspec.structs.replace(target, url=str(root / target.name)) for target in self.config.targets]
        return FolderWorld(msgspec.structs.replace(self.config, targets=targets), root)

    def open(self, killer: Killer | None = None) -> LocalStore:
        store = LocalStore(self.config, Opened(self.config), self.root)
        store.raw = dict(store.opened.targets)
        return with_killer(store, killer)

    def pass_time(self, days: float = 2.0) -> None:
        for path in self.root.rglob("*"):
            if path.is_file():
                at = path.stat().st_mtime - days * 86400
                os.utime(path, (at, at))

    def wipe(self, name: str) -> None:
        shutil.rmtree(self.root / name)
        (self.root / name).mkdir()

    def paths(self) -> list[tuple[str, str]]:
        found = (path.relative_to(self.root) for path in self.root.rglob("*") if path.is_file())
        return [(path.parts[0], "/".join(path.parts[1:])) for path in found]


def with_killer(store: LocalStore, killer: Killer | None) -> LocalStore:
    """The store, in a process that dies as the killer says."""
    targets = store.raw.items()
    store.opened.targets = {n: target if killer is None else KillTarget(target, killer) for n, target in targets}
    return store


def memory_world(names: str = "abc", code: str = "2+1") -> MemoryWorld:
    """A new store in memory."""
    config = _config(code, {name: f"memory://crash/{name}" for name in names})
    world = MemoryWorld(config, {name: MemoryObjects() for name in names})
    init_world(world)
    return world


def folder_world(root: Path, names: str = "abc", code: str = "2+1") -> FolderWorld:
    """A new store in directories below `root`."""
    world = FolderWorld(_config(code, {name: str(root / name) for name in names}), root)
    for name in names:
        (root / name).mkdir(parents=True)
    init_world(world)
    return world


def _config(code: str, urls: Mapping[str, str]) -> Config:
    targets = [TargetConfig(name=name, url=url) for name, url in urls.items()]
    return Config(name="store", code=code, fragment_size="64KiB", targets=targets)


def init_world(world: World) -> None:
    """Make it a store."""
    tolerance = full_tolerance(world.config.k, world.config.m, world.config.places)
    init_store([TargetRegister(target) for target in world.open().raw.values()], t=tolerance.targets)


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
