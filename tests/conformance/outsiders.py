"""Clients of their own for looking around a target: each shares no code with the target it vouches for."""

import json
import urllib.error
import urllib.request
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote
from xml.etree import ElementTree as ET

import botocore.config
import botocore.exceptions
import botocore.session
import obstore
from obstore.store import S3Store

from ckptstore.targets.testing import Outside
from localstack.azurite import AzuriteServer, signed_headers
from localstack.process import HOST


class FolderOutside(Outside):
    """pathlib."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def read(self, path: str) -> bytes:
        return (self.root / path).read_bytes()

    def write(self, path: str, data: bytes) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)

    def paths(self) -> set[str]:
        found = {path.relative_to(self.root) for path in self.root.rglob("*") if path.is_file()}
        return {str(path) for path in found if path.parts[0] != ".ckptstore-tmp"}


class BotocoreOutside(Outside):
    """botocore, synchronous: what boto3 and the AWS command line are made of."""

    def __init__(self, endpoint: str, bucket: str, prefix: str) -> None:
        self.client = _botocore_client(endpoint)
        self.bucket, self.prefix = bucket, f"{prefix}/"

    def read(self, path: str) -> bytes:
        return self.client.get_object(Bucket=self.bucket, Key=self.prefix + path)["Body"].read()

    def write(self, path: str, data: bytes) -> None:
        self.client.put_object(Bucket=self.bucket, Key=self.prefix + path, Body=data)

    def paths(self) -> set[str]:
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=self.prefix)
        return {item["Key"].removeprefix(self.prefix) for page in pages for item in page.get("Contents", [])}


@cache
def _botocore_client(endpoint: str) -> Any:
    """Made once for each server: it takes 0.3 s."""
    config = botocore.config.Config(s3={"addressing_style": "path"}, retries={"max_attempts": 0})
    session = botocore.session.get_session()
    return session.create_client("s3", endpoint_url=endpoint, region_name="us-east-1", config=config)


class ObstoreOutside(Outside):
    """obstore, for what goes by botocore's asynchronous twin."""

    def __init__(self, endpoint: str, bucket: str, prefix: str) -> None:
        self.store = S3Store(bucket, endpoint=endpoint, client_options={"allow_http": True})
        self.prefix = f"{prefix}/"

    def read(self, path: str) -> bytes:
        return bytes(obstore.get(self.store, self.prefix + path).bytes())

    def write(self, path: str, data: bytes) -> None:
        obstore.put(self.store, self.prefix + path, data)

    def paths(self) -> set[str]:
        found = obstore.list(self.store, self.prefix).collect()
        return {meta["path"].removeprefix(self.prefix) for meta in found}


class GcsOutside(Outside):
    """The JSON interface of Google Cloud Storage, by the standard library."""

    def __init__(self, endpoint: str, bucket: str, prefix: str) -> None:
        self.endpoint, self.bucket, self.prefix = endpoint, bucket, f"{prefix}/"

    def read(self, path: str) -> bytes:
        return self._call("GET", f"/storage/v1/b/{self.bucket}/o/{quote(self.prefix + path, safe='')}?alt=media")

    def write(self, path: str, data: bytes) -> None:
        name = quote(self.prefix + path, safe="")
        self._call("POST", f"/upload/storage/v1/b/{self.bucket}/o?uploadType=media&name={name}", data)

    def paths(self) -> set[str]:
        url = f"/storage/v1/b/{self.bucket}/o?maxResults=5000&prefix={quote(self.prefix, safe='')}"
        page = json.loads(self._call("GET", url))
        assert "nextPageToken" not in page
        return {item["name"].removeprefix(self.prefix) for item in page.get("items", [])}

    def _call(self, method: str, url: str, data: bytes | None = None) -> bytes:
        request = urllib.request.Request(self.endpoint + url, data, method=method)
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.read()


class AzureOutside(Outside):
    """The REST interface of Azure's Blob Storage, by the standard library."""

    def __init__(self, server: AzuriteServer, container: str, prefix: str) -> None:
        self.server, self.container, self.prefix = server, container, f"{prefix}/"

    def read(self, path: str) -> bytes:
        return self._call("GET", f"/{quote(self.prefix + path)}")

    def write(self, path: str, data: bytes) -> None:
        self._call("PUT", f"/{quote(self.prefix + path)}", data, {"x-ms-blob-type": "BlockBlob"})

    def paths(self) -> set[str]:
        query = f"?comp=list&maxresults=5000&prefix={quote(self.prefix, safe='')}&restype=container"
        page = ET.fromstring(self._call("GET", query))
        assert not page.findtext("NextMarker")
        return {name.text.removeprefix(self.prefix) for name in page.iter("Name") if name.text}

    def _call(self, method: str, rest: str, data: bytes = b"", extra: dict[str, str] | None = None) -> bytes:
        account, key = self.server.account, self.server.key
        target = f"/{account}/{self.container}{rest}"
        headers = signed_headers(account, key, method, target, len(data), extra)
        url = f"http://{HOST}:{self.server.port}{target}"
        request = urllib.request.Request(url, data if method == "PUT" else None, headers, method=method)
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.read()
