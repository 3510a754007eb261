"""Servers from a shell: `python -m localstack up --seaweed 3 --gcs 1 --buckets 2`, then `status`, `down`.

`up` writes a store.toml for them and their credentials, as shell exports, into the folder; they go on until `down`.
"""

import argparse
import atexit
import json
import os
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from localstack.domains import KINDS, Domains
from localstack.process import Server, ServerError

STOP_SECONDS = 10.0


def main(arguments: list[str] | None = None) -> int:
    """Run one command; the exit code says whether it went well, `status`'s whether all servers run."""
    parser = argparse.ArgumentParser(prog="python -m localstack", description=__doc__)
    parser.add_argument("command", choices=["up", "down", "status"])
    for kind in KINDS:
        parser.add_argument(f"--{kind}", type=_count, default=0, metavar="N", help=f"how many servers: {HELP[kind]}")
    parser.add_argument("--buckets", type=_count, default=1, metavar="N", help="buckets of each server: its targets")
    parser.add_argument("--code", default="4+2", metavar="K+M", help="of the store.toml")
    parser.add_argument(
        "--folder", type=Path, default=Path(tempfile.gettempdir()) / f"ckptstore-localstack-{os.getuid()}"
    )
    options = parser.parse_args(arguments)
    state = options.folder / "state.json"
    if options.command == "up":
        counts = {kind: getattr(options, kind) for kind in KINDS}
        return up(counts if any(counts.values()) else {"seaweed": 1}, options, state)
    servers: list[dict[str, Any]] = json.loads(state.read_text()) if state.exists() else []
    if options.command == "down":
        return down(servers, state)
    for server in servers:
        print(f"{server['name']}  {server['endpoint']}  {'up' if is_running(server) else 'down'}")
    return 0 if servers and all(map(is_running, servers)) else 1


HELP = {
    "seaweed": "SeaweedFS (S3)",
    "gcs": "fake-gcs-server (Google Cloud Storage)",
    "localstack": "LocalStack (S3), which make test-localstack installs",
    "azurite": "Azurite (Azure Blob Storage), at most 1, which make test-azurite installs",
}


def _count(text: str) -> int:
    if not text.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is no number of servers or buckets")
    return int(text)


def up(counts: dict[str, int], options: argparse.Namespace, state: Path) -> int:
    """Start the servers, note them in `state`, write what a store and a client need."""
    if state.exists():
        print(f"servers are noted in {state} already: python -m localstack down", file=sys.stderr)
        return 1
    if counts.get("azurite", 0) > 1 or not options.buckets:
        print("one Azurite at most, for the environment has room for one account; one bucket at least", file=sys.stderr)
        return 2
    domains = Domains(counts, options.folder, buckets=options.buckets)
    try:
        domains.start()
    except ServerError as error:
        print(error, file=sys.stderr)
        return 1
    for server in domains.servers.values():
        atexit.unregister(server.stop)
    state.write_text(json.dumps([describe(name, server) for name, server in domains.servers.items()]))
    exports = options.folder / "environment.sh"
    exports.touch(mode=0o600)
    exports.write_text("".join(f"export {name}={value}\n" for name, value in domains.environment.items()))
    (options.folder / "store.toml").write_text(domains.store_toml(options.code))
    print(f"{len(domains.servers)} servers with {len(domains.targets)} targets are up")
    print(f"next: . {exports} && ckpt init --store {options.folder}/store.toml")
    return 0


def down(servers: list[dict[str, Any]], state: Path) -> int:
    """TERM, then KILL, each that still is the server noted."""
    for server in filter(is_running, servers):
        os.kill(server["pid"], signal.SIGTERM)
    end = time.monotonic() + STOP_SECONDS
    while any(map(is_running, servers)) and time.monotonic() < end:
        time.sleep(0.1)
    for server in filter(is_running, servers):
        os.kill(server["pid"], signal.SIGKILL)
    state.unlink(missing_ok=True)
    return 0


def describe(name: str, server: Server) -> dict[str, Any]:
    """What `status` and `down` need to know of a server."""
    assert server.process is not None, "it was started"
    return {"name": name, "pid": server.process.pid, "endpoint": server.endpoint, "folder": str(server.folder)}


def is_running(server: dict[str, Any]) -> bool:
    """Whether the process noted is that server still, and not another that got its number: it names its folder."""
    process = Path(f"/proc/{server['pid']}")
    try:
        told = (process / "cmdline").read_bytes() + (process / "environ").read_bytes()
    except OSError:
        return False
    return server["folder"].encode() in told


if __name__ == "__main__":
    raise SystemExit(main())
