"""Servers from a shell: `python -m localstack up --count 6`, then `status`, `down`.

`up` prints the credentials as shell exports and the targets for a store.toml; the servers go on until `down`.
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

from localstack.servers import SeaweedServer, SeaweedServers

STOP_SECONDS = 10.0


def main() -> int:
    """Run one command; the exit code says whether it went well, `status`'s whether all servers run."""
    parser = argparse.ArgumentParser(prog="python -m localstack", description=__doc__)
    parser.add_argument("command", choices=["up", "down", "status"])
    parser.add_argument("--count", type=int, default=1, help="how many SeaweedFS servers, one bucket each")
    parser.add_argument(
        "--folder", type=Path, default=Path(tempfile.gettempdir()) / f"ckptstore-localstack-{os.getuid()}"
    )
    arguments = parser.parse_args()
    state = arguments.folder / "state.json"
    if arguments.command == "up":
        return up(arguments.count, arguments.folder, state)
    servers: list[dict[str, Any]] = json.loads(state.read_text()) if state.exists() else []
    if arguments.command == "down":
        return down(servers, state)
    for server in servers:
        print(f"{server['name']}  {server['endpoint']}  {'up' if is_running(server) else 'down'}")
    return 0 if servers and all(map(is_running, servers)) else 1


def up(count: int, folder: Path, state: Path) -> int:
    """Start the servers, note them in `state`, print what a client needs."""
    if state.exists():
        print(f"servers are noted in {state} already: python -m localstack down", file=sys.stderr)
        return 1
    servers = SeaweedServers(count, folder).start()
    for server in servers.servers:
        atexit.unregister(server.stop)
    found = [describe(name, server) for name, server in zip(servers.names, servers.servers, strict=True)]
    state.write_text(json.dumps(found))
    for name, value in servers.environment.items():
        print(f"export {name}={value}")
    for name, (url, options) in zip(servers.names, servers.targets, strict=True):
        print(f'# [[targets]] name = "{name}", url = "{url}", options = {{ endpoint = "{options["endpoint"]}" }}')
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


def describe(name: str, server: SeaweedServer) -> dict[str, Any]:
    """What `status` and `down` need to know of a server."""
    assert server.process is not None
    return {"name": name, "pid": server.process.pid, "endpoint": server.endpoint, "folder": str(server.folder)}


def is_running(server: dict[str, Any]) -> bool:
    """Whether the process noted is that server still, and not another that got its number."""
    try:
        command = Path(f"/proc/{server['pid']}/cmdline").read_bytes()
    except OSError:
        return False
    return server["folder"].encode() in command


if __name__ == "__main__":
    raise SystemExit(main())
