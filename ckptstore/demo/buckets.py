"""S3 buckets behind the demo's targets: one SeaweedFS server each, read and damaged by a plain client."""

import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from typing import Any

from obstore.exceptions import BaseError
from obstore.store import S3Store

from ckptstore.demo.backings import Backing, Backings
from ckptstore.demo.jobs import wait_until
from ckptstore.errors import UsageError

__all__ = ["BucketBackings"]


class BucketBacking(Backing):
    """A bucket on a server of its own; out of reach means that the server is stopped."""

    def __init__(self, name: str, server: Any) -> None:
        super().__init__(name, f"s3://{server.buckets[0]}", {"endpoint": server.endpoint})
        self._server = server
        self._client = S3Store(
            server.buckets[0],
            endpoint=server.endpoint,
            client_options={"allow_http": True},
            **credentials(server),
        )

    def objects(self, prefix: str) -> set[str]:
        return {meta["path"] for page in self._client.list(prefix or None) for meta in page}

    def get(self, path: str) -> bytes:
        return bytes(self._client.get(path).bytes())

    def put(self, path: str, data: bytes) -> None:
        self._client.put(path, data)

    def wipe(self) -> None:
        self._server.stop()
        shutil.rmtree(self._server.folder)

    def leave(self) -> None:
        self._server.stop()

    def come_back(self) -> None:
        self._server.start()
        self.wait()

    def wait(self) -> None:
        """Wait for the bucket: the server says that it is ready a little before it has made it."""
        wait_until(self._exists, f"bucket {self.url}", pause=0.05)

    def _exists(self) -> bool:
        try:
            self._client.list_with_delimiter()
        except BaseError:
            return False
        return True


class BucketBackings(Backings):
    """A SeaweedFS server for each bucket; started here, stopped by `close`."""

    kind = "S3 buckets"

    def __init__(self, folder: Path, names: str) -> None:
        self._folder = folder
        self._module = servers_module()
        self._servers = self._module.SeaweedServers(len(names), folder, names=list(names))
        try:
            self._servers.start()
        except self._module.ServerError as error:
            raise UsageError(str(error), hint="pip install 'ckptstore[servers]'") from error
        os.environ.update(self._servers.environment)  # the children's credentials
        super().__init__(names)

    def _make(self, name: str) -> Backing:
        backing = BucketBacking(name, self._server(name))
        backing.wait()
        return backing

    def _server(self, name: str) -> Any:
        if name in self._servers.names:
            return self._servers.servers[self._servers.names.index(name)]
        fresh = self._module.SeaweedServer(
            self._folder / name, buckets=[f"ckpt-{name}"], credentials=self._servers.environment
        )
        return fresh.start()

    def close(self) -> None:
        """Stop all servers, at once: each takes two seconds."""
        with ThreadPoolExecutor(len(self.members)) as pool:
            list(pool.map(lambda backing: backing.leave(), self.members.values()))


def credentials(server: Any) -> dict[str, Any]:
    """Key id, secret and region under the names that obstore's client takes."""
    return {name.lower(): value for name, value in server.environment.items()}


def servers_module() -> Any:
    """Find what starts the servers. Raises UsageError outside a source checkout."""
    try:
        return import_module("localstack.servers")
    except ModuleNotFoundError:
        hint = "clone the repository and run: make demo S3=1"
        message = "the S3 demo starts its servers with localstack/servers.py, which the wheel lacks"
        raise UsageError(message, hint=hint) from None
