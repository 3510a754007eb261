"""Where metrics go: an HTTP endpoint, or a file for node_exporter's textfile collector."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from ckptstore.errors import UsageError
from ckptstore.telemetry.extras import import_extra

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

ADDRESS = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[^:\[\]]+):(?P<port>[0-9]{1,5})")
MOST_PORTS = 65535
SUCCESS = "ckptstore_last_success_timestamp_seconds"
"""What a process whose work fails doesn't know, and the file of the one before does."""
ATTEMPT = "ckptstore_last_attempt_ok"

__all__ = ["Server", "check_textfile", "exposition", "serve", "write_textfile"]


class Server:
    """An endpoint that answers with the metrics of one registry, until `close`."""

    def __init__(self, server: Any, thread: Any) -> None:
        self._server = server
        self._thread = thread
        self.port: int = server.server_port

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Answer no more, and free the port."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def serve(registry: "CollectorRegistry", address: str) -> Server:
    """Answer at `HOST:PORT` (`127.0.0.1:9464`, `[::1]:9464`; port 0 takes a free one) from a thread of its own.

    Without TLS and without a password: whoever reaches the port reads the names of runs and targets. Raises
    `UsageError` for what is no address, or can't be listened on.
    """
    match = ADDRESS.fullmatch(address)
    if match is None or int(match["port"]) > MOST_PORTS:
        raise UsageError(f"{address!r} is no address to listen on: HOST:PORT is wanted", hint="127.0.0.1:9464")
    start = import_extra("prometheus_client", "metrics").start_http_server
    try:
        return Server(*start(int(match["port"]), match["host"].strip("[]"), registry))
    except OSError as error:
        message = f"{address} can't be listened on: {error.strerror or error}"
        raise UsageError(message, hint="choose another port, or an address of this machine") from error


def exposition(registry: "CollectorRegistry") -> str:
    """The metrics in Prometheus' text format."""
    text: bytes = import_extra("prometheus_client", "metrics").generate_latest(registry)
    return text.decode()


def write_textfile(registry: "CollectorRegistry", path: Path) -> None:
    """Write the metrics by rename, so that a scrape sees the old file or the new one.

    Of work that was tried in this process and never ended well, the time in the file that is there already is kept.
    Raises `UsageError` for a name that node_exporter would not read, `OSError`.
    """
    check_textfile(path)
    client = import_extra("prometheus_client", "metrics")
    client.write_to_textfile(str(path), _WithEarlier(registry, _samples(_families_of(path), SUCCESS)))


def check_textfile(path: Path) -> None:
    """Raise `UsageError` for a name that node_exporter would not read."""
    if path.suffix != ".prom":
        raise UsageError(f"{path}: node_exporter reads files that end in .prom", hint=f"name it {path}.prom")


class _WithEarlier:
    """A registry, and what was there earlier of works that have failed since."""

    def __init__(self, registry: Any, earlier: dict[tuple[str, str], float]) -> None:
        self._registry = registry
        self._earlier = earlier

    def collect(self) -> Iterator[Any]:
        """As a registry's."""
        families = list(self._registry.collect())
        failed = _samples(families, ATTEMPT).keys() - _samples(families, SUCCESS)
        for family in families:
            if family.name == SUCCESS:
                for run, work in failed & self._earlier.keys():
                    family.add_sample(SUCCESS, {"run": run, "work": work}, self._earlier[run, work])
            yield family


def _samples(families: Iterable[Any], name: str) -> dict[tuple[str, str], float]:
    """The values of one metric, by run and work."""
    samples = [sample for family in families for sample in family.samples if sample.name == name]
    return {(sample.labels["run"], sample.labels["work"]): sample.value for sample in samples}


def _families_of(path: Path) -> list[Any]:
    """What a file holds. Nothing where there is none, or it is none of ours."""
    parser = import_extra("prometheus_client.parser", "metrics")
    try:
        return list(parser.text_string_to_metric_families(path.read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return []
