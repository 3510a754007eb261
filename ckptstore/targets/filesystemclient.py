"""fsspec's client for one target: which arguments it gets, and how long one request may take."""

import asyncio
from collections.abc import Callable
from typing import Any

import fsspec
from fsspec.asyn import AsyncFileSystem, sync

from ckptstore.errors import ConfigError
from ckptstore.targets.options import LOOPBACK, Options

__all__ = ["BUCKETS", "EXCLUSIVE", "bounded", "make_filesystem"]

BUCKETS = {"s3", "s3a", "gs", "gcs", "az", "abfs", "abfss"}
"""Schemes whose roots begin with a bucket, which only its owner makes, and which have no real folders."""

EXCLUSIVE = {"s3", "s3a", "gs", "gcs"}
"""Schemes whose create was seen to have one winner. fsspec's own looks and then writes: two may win."""

ONE_TRY = 1


def make_filesystem(scheme: str, options: Options) -> Any:
    """The filesystem for these options, which fsspec shares between targets of one process: s3fs takes 0.3 s to make.

    Raises `ConfigError` where its package is not installed.
    """
    arguments: dict[str, Any] = {"use_listings_cache": False}
    arguments |= ARGUMENTS.get(scheme, _none)(options) | dict(options.filesystem)
    try:
        filesystem = fsspec.filesystem(scheme, **arguments)
    except (ImportError, ValueError) as error:
        hint = "pip install 'ckptstore[s3fs]' or 'ckptstore[gcsfs]', or the package that fsspec names"
        raise ConfigError(f"no fsspec filesystem for {scheme}://: {error}", hint=hint) from error
    if hasattr(filesystem, "retries"):
        filesystem.retries = ONE_TRY  # s3fs: five by itself; tries are `retry`'s, so there is one deadline
    return filesystem


def bounded(filesystem: Any, method: str, seconds: float, *args: Any, **kwargs: Any) -> Any:
    """Call a method; where the filesystem is asynchronous, for at most `seconds`: then `TimeoutError`.

    s3fs has no bound of its own for a put to a server that hangs (over 300 s, measured).
    """
    if not isinstance(filesystem, AsyncFileSystem):
        return getattr(filesystem, method)(*args, **kwargs)

    async def call() -> Any:
        return await asyncio.wait_for(getattr(filesystem, f"_{method}")(*args, **kwargs), seconds)

    return sync(filesystem.loop, call)


def _none(_options: Options) -> dict[str, Any]:
    return {}


def _s3(options: Options) -> dict[str, Any]:
    config = {
        "connect_timeout": options.connect_timeout,
        "read_timeout": options.read_timeout,
        "retries": {"max_attempts": 0},
    }
    place = {"region_name": options.region} if options.region else {}
    return {"endpoint_url": options.endpoint, "client_kwargs": place, "config_kwargs": config}


def _gcs(options: Options) -> dict[str, Any]:
    if options.endpoint is None:
        return {}
    emulator = {"token": "anon"} if options.endpoint.startswith(LOOPBACK) else {}
    return {"endpoint_url": options.endpoint.rstrip("/"), **emulator}


ARGUMENTS: dict[str, Callable[[Options], dict[str, Any]]] = {"s3": _s3, "s3a": _s3, "gs": _gcs, "gcs": _gcs}
