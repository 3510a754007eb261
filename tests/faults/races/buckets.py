"""A store in the buckets of real servers."""

import time
from dataclasses import dataclass
from pathlib import Path

from ckptstore.config import Config, TargetConfig
from ckptstore.opened import Opened
from ckptstore.targets.testing import unique
from localstack.servers import SeaweedServers
from tests.faults.crash.killing import Killer
from tests.faults.crash.world import init_world, with_killer
from tests.support import LocalStore

__all__ = ["BucketWorld", "bucket_world"]


@dataclass
class BucketWorld:
    """One bucket a target. Its credentials are in the environment; nothing in it grows older than it is."""

    config: Config
    tick: float = 1.1

    def copy(self) -> "BucketWorld":
        raise NotImplementedError

    def open(self, killer: Killer | None = None) -> LocalStore:
        store = LocalStore(self.config, Opened(self.config), Path("/nowhere"))
        store.raw = dict(store.opened.targets)
        return with_killer(store, killer)

    def pass_time(self, days: float = 2.0) -> None:
        time.sleep(days)

    def wipe(self, name: str) -> None:
        target = self.open().raw[name]
        target.delete([entry.path for entry in target.list("")])

    def paths(self) -> list[tuple[str, str]]:
        return [(name, entry.path) for name, target in self.open().raw.items() for entry in target.list("")]


def bucket_world(servers: SeaweedServers) -> BucketWorld:
    """A new store of code 2+1, under a prefix of its own on every server."""
    prefix = unique()
    targets = [
        TargetConfig(name=name, url=f"{url}/{prefix}", options=options)
        for name, (url, options) in zip(servers.names, servers.targets, strict=True)
    ]
    world = BucketWorld(Config(name="store", code="2+1", fragment_size="64KiB", targets=targets))
    init_world(world)
    return world
