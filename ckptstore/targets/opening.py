"""From a URL and options to a target: which client, and which wrappers around it.

A URL is taken literally: nothing in it is percent-decoded, `#`, `?` and `%` are ordinary characters of a
prefix. `s3://bucket/a`, `s3://bucket/a/` and `s3://bucket//a/` are one place. The clients are imported here
and only when a URL asks for them: `ckpt ls` of a local store has 0.4 s of CPU for everything.
"""

import os
import re
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from ckptstore.errors import ConfigError
from ckptstore.targets.base import Target
from ckptstore.targets.directory import DirectoryTarget
from ckptstore.targets.health import HealthTarget
from ckptstore.targets.memory import MemoryObjects, MemoryTarget
from ckptstore.targets.observed import ObservedTarget
from ckptstore.targets.options import Options, check_options, refuse_secrets
from ckptstore.targets.retry import RetryTarget

__all__ = ["Location", "locate", "open_target"]

URL = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9.-]*(?:\+[A-Za-z0-9.-]+)?)://(?P<rest>.*)", re.DOTALL)
OBJECT_STORES = ("s3", "gs", "az")
ALIASES = {"s3a": "s3", "gcs": "gs", "abfs": "az", "abfss": "az"}
"""What fsspec calls object stores beside their own schemes."""
_memory: dict[str, MemoryObjects] = {}


def open_target(
    name: str,
    url: str | os.PathLike[str],
    options: Mapping[str, Any] | None = None,
    *,
    folder: str | os.PathLike[str] = ".",
) -> Target:
    """The target at `url`, within what observes it, health and retries (outermost). Nothing is connected to yet.

    `file:///path`, `file://relative` or a plain path (relative ones start in `folder`); `s3://bucket/prefix`,
    `gs://…`, `az://container/…` by obstore; `memory://name`, shared in this process; `fsspec+<scheme>://…`,
    or any of the others with `client = "fsspec"`, by fsspec. Raises `ConfigError` naming the key and the
    allowed values.
    """
    scheme, rest, checked = _parse(name, os.fspath(url), options or {})
    target = _client(name, scheme, rest, checked, os.fspath(folder))
    observed = ObservedTarget(target)
    return RetryTarget(HealthTarget(observed, patience=checked.deadline), deadline=checked.deadline)


class Location(NamedTuple):
    """Where a target is: a service, and the way to a place in it."""

    service: tuple[str, ...]
    parts: tuple[str, ...]

    def __str__(self) -> str:
        scheme = self.service[0]
        return str(Path(*self.parts)) if scheme == "file" else f"{scheme}://{'/'.join(self.parts)}"


def locate(
    name: str, url: str, options: Mapping[str, Any] | None = None, *, folder: str | os.PathLike[str] = "."
) -> Location:
    """Where `open_target` would open a target, links resolved. Raises `ConfigError` as that does."""
    scheme, rest, checked = _parse(name, url, options or {})
    scheme = scheme.removeprefix("fsspec+")
    if scheme == "file":
        return Location((scheme,), _real(name, Path(folder) / rest))
    if checked.kind == "memory":
        return Location((scheme,), (_tidy(rest),))  # not a way: `memory://a/b` is nothing of `memory://a`
    import json

    endpoint = (checked.endpoint or "").rstrip("/").lower()
    arguments = json.dumps(checked.filesystem, sort_keys=True, default=str)  # TOML has dates, JSON has none
    service = (ALIASES.get(scheme, scheme), endpoint, arguments)
    return Location(service, tuple(part for part in rest.split("/") if part))


def _real(name: str, path: Path) -> tuple[str, ...]:
    try:
        return Path(os.path.realpath(path)).parts
    except ValueError as error:
        raise ConfigError(f"targets.{name}.url = {path.name!r}: {error}", key=f"targets.{name}.url") from error


def _parse(name: str, location: str, options: Mapping[str, Any]) -> tuple[str, str, Options]:
    """Scheme, what follows it, and the options checked."""
    refuse_secrets(name, location, options)
    scheme, rest = _split(name, location)
    return scheme, rest, check_options(name, _kind(scheme, options), options, scheme)


def _split(name: str, location: str) -> tuple[str, str]:
    match = URL.fullmatch(location)
    if not location or (match and not match["rest"] and match["scheme"] != "memory"):
        raise ConfigError(f"targets.{name}.url = {location!r}: nothing follows the scheme", key=f"targets.{name}.url")
    scheme, rest = (match["scheme"].lower(), match["rest"]) if match else ("file", location)
    return "fsspec+file" if scheme == "fsspec+local" else scheme, rest


def _kind(scheme: str, options: Mapping[str, Any]) -> str:
    if scheme.startswith("fsspec+") or options.get("client") == "fsspec":
        return "fsspec"
    return "obstore" if scheme in OBJECT_STORES else scheme


def _client(name: str, scheme: str, rest: str, options: Options, folder: str) -> Target:
    if options.kind == "fsspec":
        return _fsspec(name, scheme.removeprefix("fsspec+"), rest, options, folder)
    if options.kind == "obstore":
        bucket, prefix = _bucket(name, scheme, rest)
        create: Callable[..., Target] = import_module("ckptstore.targets.objectstore").ObjectStoreTarget
        return create(name, scheme, bucket, prefix, options=options)
    if scheme == "memory":
        root = _tidy(rest)
        return MemoryTarget(name, _memory.setdefault(root, MemoryObjects()), root=root)
    return DirectoryTarget(name, Path(folder) / rest, fsync=options.fsync)


def _fsspec(name: str, scheme: str, rest: str, options: Options, folder: str) -> Target:
    create: Callable[..., Target] = import_module("ckptstore.targets.filesystem").FilesystemTarget
    if scheme in OBJECT_STORES:
        _bucket(name, scheme, rest)
    root = str((Path(folder) / rest).absolute()) if scheme == "file" else _tidy(rest)
    return create(name, scheme, root, options=options)


def _bucket(name: str, scheme: str, rest: str) -> tuple[str, str]:
    bucket, _, prefix = rest.partition("/")
    if not bucket or ":" in bucket:
        message = f"targets.{name}.url = '{scheme}://{rest}': a bucket's name must follow {scheme}://"
        example = f'url = "{scheme}://bucket/prefix", options = {{ endpoint = "http://host:port" }}'
        hint = f"a host and port belong in the options: {example}"
        raise ConfigError(message, key=f"targets.{name}.url", hint=hint)
    return bucket, _tidy(prefix)


def _tidy(prefix: str) -> str:
    return "/".join(part for part in prefix.split("/") if part)
