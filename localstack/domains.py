"""Servers of several kinds as the failure domains of one store: what `python -m localstack up` starts."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from localstack.azurite import AzuriteServer
from localstack.process import start_all, stop_all
from localstack.servers import GcsServer, LocalStackServer, SeaweedServer, Server, new_credentials

KINDS = ("seaweed", "gcs", "localstack", "azurite")

__all__ = ["KINDS", "Domains", "Target"]


@dataclass(frozen=True)
class Target:
    """One `[[targets]]` table of a store.toml."""

    name: str
    url: str
    domain: str
    options: Mapping[str, str]
    commit: bool = True

    def __str__(self) -> str:
        options = ", ".join(f'{key} = "{value}"' for key, value in self.options.items())
        place = f'name = "{self.name}"\nurl = "{self.url}"\ndomain = "{self.domain}"'
        commit = "" if self.commit else "commit = false\n"
        return f"[[targets]]\n{place}\n{commit}options = {{ {options} }}\n"


class Domains:
    """Servers that fail one by one, each with `buckets` targets; S3 servers share their credentials."""

    def __init__(self, counts: Mapping[str, int], folder: Path, *, buckets: int = 1) -> None:
        self._credentials = new_credentials()
        self.servers: dict[str, Server] = {}
        self._schemes: dict[str, str] = {}
        for kind in KINDS:
            for number in range(counts.get(kind, 0)):
                domain = f"{kind}-{number}"
                names = [f"ckpt-{domain}-{bucket}" for bucket in range(buckets)]
                self._schemes[domain], self.servers[domain] = self._server(kind, folder / domain, names)

    @property
    def targets(self) -> list[Target]:
        """A target for each bucket."""
        return [
            Target(
                bucket.removeprefix("ckpt-"),
                f"{self._schemes[domain]}://{bucket}",
                domain,
                {"endpoint": server.endpoint},
            )
            for domain, server in self.servers.items()
            for bucket in server.buckets
        ]

    @property
    def environment(self) -> dict[str, str]:
        """What clients of all of them need."""
        return {key: value for server in self.servers.values() for key, value in server.environment.items()}

    def store_toml(self, code: str) -> str:
        """The settings of a store on all targets."""
        return "\n".join([f'name = "localstack"\ncode = "{code}"\nfragment_size = "1MiB"\n', *map(str, self.targets)])

    def start(self) -> None:
        """Start all at once. Raises as `start_all`."""
        start_all(self.servers.values())

    def stop(self) -> None:
        """Stop all at once."""
        stop_all(self.servers.values())

    def _server(self, kind: str, folder: str | os.PathLike[str], names: list[str]) -> tuple[str, Server]:
        """Its scheme in a target's url, and the server."""
        s3: dict[str, Any] = {"buckets": names, "credentials": self._credentials}
        if kind == "seaweed":
            return "s3", SeaweedServer(folder, **s3)
        if kind == "localstack":
            return "s3", LocalStackServer(folder, **s3)
        if kind == "gcs":
            return "fsspec+gs", GcsServer(folder, buckets=names)
        return "az", AzuriteServer(folder, buckets=names)
