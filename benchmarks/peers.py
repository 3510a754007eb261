"""What users save with today, and the same bytes with nothing around them: each as one call that saves or loads."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import obstore
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from obstore.store import S3Store
from s3torchconnector import S3ClientConfig
from s3torchconnector.dcp import S3StorageReader, S3StorageWriter
from torch.distributed.checkpoint import FileSystemReader, FileSystemWriter
from torch.distributed.checkpoint._fsspec_filesystem import FsspecReader, FsspecWriter
from torchsnapshot import Snapshot, StateDict

from benchmarks.setting import MIB, NAMES, State
from localstack.servers import SeaweedServer

OBJECT = 16 * MIB
AT_ONCE = 16  # requests, as ckptstore's
REGION = "us-east-1"

Save = Callable[[], object]


def everywhere() -> bool:
    """Whether DCP has no process group to talk over."""
    return not dist.is_initialized()


def dcp_files(state: State, folder: Path, threads: int, *, fsync: bool, copies: int = 1) -> Save:
    """DCP's own writer, into `copies` folders one after the other."""

    def save() -> None:
        for copy in range(copies):
            writer = FileSystemWriter(folder / str(copy), thread_count=threads, sync_files=fsync, overwrite=True)
            dcp.save(state, storage_writer=writer, no_dist=everywhere())

    return save


def dcp_read_files(state: State, folder: Path) -> Save:
    """DCP's own reader."""
    return lambda: dcp.load(state, storage_reader=FileSystemReader(folder / "0"), no_dist=everywhere())


def torchsnapshot(state: State, folder: Path) -> tuple[Save, Save]:
    """torchsnapshot into a folder: save, load. It keeps each rank's state apart."""
    app = {"state": StateDict(**state)}
    return lambda: Snapshot.take(str(folder), app), lambda: Snapshot(str(folder)).restore(app)


def dcp_s3fs(state: State, server: SeaweedServer, url: str) -> tuple[Save, Save]:
    """DCP's fsspec classes over s3fs: save, load."""
    options: dict[str, Any] = {"client_kwargs": {"endpoint_url": server.endpoint}}

    def save() -> None:
        dcp.save(state, storage_writer=FsspecWriter(url, overwrite=True, **options), no_dist=everywhere())

    def load() -> None:
        fsspec.filesystem("s3", **options).invalidate_cache()
        dcp.load(state, storage_reader=FsspecReader(url, **options), no_dist=everywhere())

    return save, load


def s3torchconnector(state: State, server: SeaweedServer, url: str) -> tuple[Save, Save]:
    """Amazon's connector for DCP: save, load."""
    os.environ["AWS_ENDPOINT_URL"] = server.endpoint
    config = S3ClientConfig(force_path_style=True)

    def save() -> None:
        writer = S3StorageWriter(region=REGION, path=url, s3client_config=config, overwrite=True)
        dcp.save(state, storage_writer=writer, no_dist=everywhere())

    def load() -> None:
        reader = S3StorageReader(region=REGION, path=url, s3client_config=config)
        dcp.load(state, storage_reader=reader, no_dist=everywhere())

    return save, load


class Plain:
    """obstore and nothing else: objects of OBJECT bytes over all buckets, AT_ONCE at a time."""

    def __init__(self, server: SeaweedServer) -> None:
        credentials = {key.lower(): value for key, value in server.environment.items()}
        options: dict[str, Any] = {"endpoint": server.endpoint, "client_options": {"allow_http": True}}
        self.stores = [S3Store(f"ckpt-{name}", **options, **credentials) for name in NAMES]

    def put(self, state: State, extra: float = 1.0) -> Save:
        """Put `extra` times the state's bytes."""
        parts = _parts(state)
        chosen = [parts[i % len(parts)] for i in range(round(extra * len(parts)))]
        return lambda: self._all(self._put, chosen)

    def get(self, state: State) -> Save:
        """Get the state's bytes into memory of its own."""
        parts = _parts(state)
        return lambda: self._all(self._get, parts)

    def clean(self) -> None:
        """Remove what was put."""
        for store in self.stores:
            for page in store.list("plain/"):
                store.delete([entry["path"] for entry in page])

    def _all(self, work: Callable[[int, memoryview], None], parts: list[memoryview]) -> None:
        with ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(work, range(len(parts)), parts))

    def _put(self, number: int, part: memoryview) -> None:
        obstore.put(self.stores[number % len(self.stores)], f"plain/{number}", part, use_multipart=False)

    def _get(self, number: int, part: memoryview) -> None:
        got = obstore.get(self.stores[number % len(self.stores)], f"plain/{number}").bytes()
        np.copyto(np.frombuffer(part, np.uint8), np.frombuffer(got, np.uint8))


def _parts(state: State) -> list[memoryview]:
    whole = [tensor.view(-1).numpy().view(np.uint8).data for tensor in state.values()]
    return [each[at : at + OBJECT] for each in whole for at in range(0, len(each), OBJECT)]
