"""Stores over servers that fail as told: one server, one target; and what must hold whatever they do."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ckptstore.config import Config, TargetConfig
from ckptstore.operations.setup import init
from localstack.faulty import FaultyServer, Rule
from tests.support import LocalStore, random_bytes, reopen

CREDENTIALS = {"AWS_ACCESS_KEY_ID": "an-id", "AWS_SECRET_ACCESS_KEY": "a-secret", "AWS_REGION": "us-east-1"}
FAST = {"connect_timeout": 2.0, "read_timeout": 1.5, "timeout": 10.0, "deadline": 0.5}
"""What a loaded machine needs, client and servers in one process; a silence of 1.5 s is the shortest that tells."""
ARRAYS = {"weights": random_bytes(200_000), "bias": random_bytes(4_321, seed=1)}


@dataclass
class Served:
    """An open store and the server behind each of its targets."""

    store: LocalStore
    servers: Mapping[str, FaultyServer]

    def reopen(self) -> "Served":
        """As another process would open it: nothing remembered of what was out of reach."""
        return Served(reopen(self.store.root, self.store.config), self.servers)

    def inject(self, *rule: Any, **options: Any) -> list[Rule]:
        """One fault on every server."""
        return [server.inject(*rule, **options) for server in self.servers.values()]

    def heal(self) -> None:
        """End all faults."""
        for server in self.servers.values():
            server.heal()

    def held(self) -> dict[str, dict[str, bytes]]:
        """What every server holds."""
        return {name: server.objects for name, server in self.servers.items()}


@contextmanager
def served(root: Path, names: str = "abc", code: str = "2+1", **settings: Any) -> Iterator[Served]:
    """A new store on new servers. `client`, `options`: of each target; other settings are the store's."""
    servers = {name: FaultyServer(credentials=CREDENTIALS).start() for name in names}
    try:
        config = settings_of(servers, code, **settings)
        store = reopen(root, config)
        init(store.opened)
        yield Served(store, servers)
    finally:
        for server in servers.values():
            server.stop()


def settings_of(
    servers: Mapping[str, FaultyServer],
    code: str,
    *,
    client: str = "obstore",
    options: Mapping[str, float] = FAST,
    fragment_size: str = "16KiB",
    **settings: Any,
) -> Config:
    """The settings of a store with one target on each server."""
    targets = [
        TargetConfig(
            name=name,
            url="s3://bucket/prefix",
            options={"endpoint": server.endpoint, "client": client, **options},
        )
        for name, server in servers.items()
    ]
    return Config(name="faulty", code=code, fragment_size=fragment_size, targets=targets, **settings)


def timed(action: Callable[[], Any]) -> tuple[Any, float]:
    """What an action gives, and the seconds that it took."""
    begun = time.monotonic()
    return action(), time.monotonic() - begun
