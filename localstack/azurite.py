"""Azurite, the emulator of Azure's Blob Storage, run by node from its npm package: see `setup_azurite.py`."""

import base64
import hashlib
import hmac
import http
import os
import secrets
from collections.abc import Mapping, Sequence
from email.utils import formatdate
from pathlib import Path
from urllib.parse import parse_qsl

from localstack.process import HOST, Server, ServerError, find_program

VERSION = "2021-08-06"  # of the service's interface
KIND = "application/octet-stream"
MAIN = Path(__file__).parent.parent / ".azurite/node_modules/azurite/dist/src/blob/main.js"

__all__ = ["AzuriteServer", "signed_headers"]


class AzuriteServer(Server):
    """Azurite's Blob service. Enforces credentials, keeps its data, one winner of put-if-absent."""

    ready_seconds = 120.0  # 6 s on an idle machine

    def __init__(self, folder: str | os.PathLike[str] | None = None, *, buckets: Sequence[str] = ("bucket",)) -> None:
        super().__init__(folder, buckets=buckets)
        self.account = f"account{secrets.token_hex(4)}"
        self.key = base64.b64encode(secrets.token_bytes(32)).decode()

    @property
    def endpoint(self) -> str:
        """The account is the first part of every path: an address has no room for it in the host's name."""
        return f"http://{HOST}:{self.port}/{self.account}"

    @property
    def environment(self) -> dict[str, str]:
        """Account and key as obstore and Azure's own tools read them."""
        return {"AZURE_STORAGE_ACCOUNT_NAME": self.account, "AZURE_STORAGE_ACCOUNT_KEY": self.key}

    def command(self) -> Sequence[str]:
        """The Blob service alone. Clients may be newer than it: their version is not looked at."""
        if not MAIN.exists():
            raise ServerError(f"no Azurite at {MAIN}: run make test-azurite")
        place = ["--location", f"{self.folder}/data", "--blobHost", HOST, "--blobPort", str(self.port)]
        return [find_program("node"), str(MAIN), *place, "--silent", "--disableTelemetry", "--skipApiVersionCheck"]

    def server_environment(self) -> Mapping[str, str]:
        """The one account."""
        return {"AZURITE_ACCOUNTS": f"{self.account}:{self.key}"}

    def ready(self) -> bool:
        """It answers, whatever: without credentials it can only refuse."""
        return self.request("GET", "/") > 0

    def make_buckets(self) -> None:
        """Make one container each. Raises `ServerError` where one is refused."""
        for bucket in self.buckets:
            path = f"/{self.account}/{bucket}?restype=container"
            status = self.request("PUT", path, b"", signed_headers(self.account, self.key, "PUT", path))
            if status not in {http.HTTPStatus.CREATED, http.HTTPStatus.CONFLICT}:  # it keeps its data
                raise ServerError(f"Azurite answered {status} to the making of container {bucket}")


def signed_headers(
    account: str, key: str, method: str, target: str, length: int = 0, extra: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Headers of a request with a body of `length` bytes, signed by Shared Key as Azure's documentation describes it.

    `target`: path, account first, and query. `extra`: further `x-ms-` headers.
    """
    headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": VERSION, **(extra or {})}
    path, _, query = target.partition("?")
    signed = [f"{name}:{value}" for name, value in sorted(headers.items())]
    resource = [f"/{account}{path}", *(f"{name}:{value}" for name, value in sorted(parse_qsl(query)))]
    body = str(length) if length else ""
    text = "\n".join([method, "", "", body, "", KIND, *[""] * 6, *signed, *resource])
    signature = base64.b64encode(hmac.new(base64.b64decode(key), text.encode(), hashlib.sha256).digest()).decode()
    return {**headers, "Content-Type": KIND, "Authorization": f"SharedKey {account}:{signature}"}
