"""fsspec's client for one target: which arguments it gets, and how long one request may take.

It sends nothing twice: tries are `retry`'s, so that there is one deadline, and a `put_if_absent` must be one request.
Three layers would otherwise: s3fs and gcsfs, botocore below s3fs, and aiohttp below that, which sends a PUT again where
the connection breaks. Why each is switched off as it is here: docs/decisions/0005-one-request.md.
"""

import asyncio
import inspect
import os
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import fsspec
from fsspec.asyn import AsyncFileSystem, sync

from ckptstore.errors import ConfigError
from ckptstore.redaction import redacted, tellable
from ckptstore.targets.options import LOOPBACK, Options

__all__ = ["BUCKETS", "EXCLUSIVE", "bounded", "make_filesystem"]

BUCKETS = {"s3", "s3a", "gs", "gcs", "az", "abfs", "abfss"}
"""Schemes whose roots begin with a bucket, which only its owner makes, and which have no real folders."""

EXCLUSIVE = {"s3", "s3a", "gs", "gcs"}
"""Schemes whose create was seen to have one winner. fsspec's own looks and then writes: two may win."""

S3 = {"s3", "s3a"}
"""Schemes that s3fs serves."""


def make_filesystem(scheme: str, options: Options) -> Any:
    """The filesystem for these options, which fsspec shares between targets of one process: s3fs takes 0.3 s to make.

    Raises `ConfigError` where its package is not installed.
    """
    arguments = _merged({"use_listings_cache": False}, ARGUMENTS.get(scheme, _none)(options))
    arguments = _merged(arguments, options.filesystem)
    try:
        if scheme in S3:
            arguments = _merged(arguments, {"config_kwargs": _one_request()})
        return _class(scheme)(**arguments)
    except (ImportError, ValueError) as error:
        hint = "pip install 'ckptstore[s3fs]' or 'ckptstore[gcsfs]', or the package that fsspec names"
        message = f"no fsspec filesystem for {scheme}://: {redacted(str(error))}"
        raise ConfigError(message, hint=hint) from tellable(error)


@cache
def _class(scheme: str) -> Any:
    """The class that fsspec has for `scheme`, made to try once: s3fs does so five times by itself, gcsfs six.

    s3fs reads `retries` of its class. gcsfs has that attribute too, but has bound the number to `_request` when the
    class was made: only what the decorator hides sends one request.
    """
    known = fsspec.get_filesystem_class(scheme)
    once = {"retries": 1} if hasattr(known, "retries") else {}
    if scheme in {"gs", "gcs"}:
        once["_request"] = inspect.unwrap(known._request)  # noqa: SLF001
    return type(known)(known.__name__, (known,), once) if once else known


@cache
def _one_request() -> dict[str, Any]:
    """Arguments of botocore's configuration so that it, and aiohttp below it, send a request once."""
    from aiobotocore.httpsession import AIOHTTPSession  # type: ignore[import-untyped]

    class OneRequestSession(AIOHTTPSession):  # type: ignore[misc]  # it is Any
        async def _get_session(self, proxy_url: str | None) -> Any:
            session = await super()._get_session(proxy_url)
            session._retry_connection = False  # noqa: SLF001 - as aiohttp's own test client does; it has no argument
            return session

    return {"retries": {"total_max_attempts": 1}, "http_session_cls": OneRequestSession}


def _merged(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """Both tables; where both have a key, the second's value, or both tables below it merged."""
    merged = dict(first)
    for key, value in second.items():
        both = isinstance(value, Mapping) and isinstance(merged.get(key), Mapping)
        merged[key] = _merged(merged[key], value) if both else value
    return merged


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
    config: dict[str, Any] = {"connect_timeout": options.connect_timeout, "read_timeout": options.read_timeout}
    config |= dict.fromkeys(_checksum_settings(), "when_required")
    place = {"region_name": options.region} if options.region else {}
    return {"endpoint_url": options.endpoint, "client_kwargs": place, "config_kwargs": config, **_keys(options)}


def _keys(options: Options) -> dict[str, str]:
    """What the environment holds, told as arguments: where it changes, fsspec gives another filesystem."""
    if options.filesystem.keys() & {"anon", "profile"}:
        return {}
    named = {"key": "AWS_ACCESS_KEY_ID", "secret": "AWS_SECRET_ACCESS_KEY", "token": "AWS_SESSION_TOKEN"}
    found = {name: os.environ.get(variable) for name, variable in named.items()}
    return {name: value for name, value in found.items() if value} if found["key"] and found["secret"] else {}


@cache
def _checksum_settings() -> tuple[str, ...]:
    """Settings of botocore for checksums of its own, since release 1.36; ours are checked on every read.

    Older services refuse such a checksum, or keep it as a part of the object.
    """
    from botocore.config import Config  # type: ignore[import-untyped]

    names = ("request_checksum_calculation", "response_checksum_validation")
    return tuple(name for name in names if name in Config.OPTION_DEFAULTS)


def _gcs(options: Options) -> dict[str, Any]:
    if options.endpoint is None:
        return {}
    emulator = {"token": "anon"} if options.endpoint.startswith(LOOPBACK) else {}
    return {"endpoint_url": options.endpoint.rstrip("/"), **emulator}


ARGUMENTS: dict[str, Callable[[Options], dict[str, Any]]] = {"s3": _s3, "s3a": _s3, "gs": _gcs, "gcs": _gcs}
