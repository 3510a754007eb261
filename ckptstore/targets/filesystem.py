"""A target on any fsspec filesystem: s3fs and gcsfs where a user needs their options, and what only fsspec reaches.

Only those of fsspec's methods are called that take a path literally; `rm`, `cat`, `glob` and `expand_path`
read `[`, `?` and `*` as patterns. Listings are never cached.
"""

import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from ckptstore.errors import ForkedClient, ObjectNotFound, TargetError, TargetUnavailable, TargetUnusable
from ckptstore.redaction import tellable
from ckptstore.targets.base import (
    Buffer,
    Entry,
    Reason,
    Target,
    as_buffers,
    check_path,
    check_paths,
    check_prefix,
    check_range,
)
from ckptstore.targets.filesystemclient import BUCKETS, EXCLUSIVE, bounded, make_filesystem
from ckptstore.targets.filesystemerrors import error_for, is_conflict
from ckptstore.targets.options import Options, check_environment, credentials_now

__all__ = ["FilesystemTarget"]

DELETES_AT_ONCE = 16
ONE_REQUEST = 5 << 30  # bytes of a body up to which s3fs and gcsfs begin no upload of parts, which a crash would leave
MODIFIED = ("LastModified", "mtime", "updated", "last_modified", "modified", "created")


class FilesystemTarget(Target):
    """Objects below `root` of the fsspec filesystem for `scheme`. The filesystem is made by the first request.

    Where the filesystem has real folders, a put is as atomic as it makes it: such a target holds no
    manifests, and what it tears is found by its digests. `root` must exist, a bucket for the bucket stores.
    """

    def __init__(self, name: str, scheme: str, root: str, *, options: Options) -> None:
        super().__init__(name, can_put_if_absent=scheme in EXCLUSIVE)
        self._scheme = scheme
        self._root = root.rstrip("/")
        self._options = options
        self._lock = threading.Lock()
        self._made: tuple[Any, int] | None = None
        self._made_with: tuple[str | None, ...] = ()
        self._whole = {"chunksize": ONE_REQUEST} if scheme in EXCLUSIVE else {}

    @property
    def url(self) -> str:
        """`fsspec+`, the scheme, and the root literally."""
        return f"fsspec+{self._scheme}://{self._root}"

    def create_root(self) -> None:
        """Make the root folder; a bucket must be there already."""
        if self._scheme not in BUCKETS:
            with self._errors(""):
                self._do("makedirs", self._root, exist_ok=True)

    def get(self, path: str, *, start: int = 0, length: int | None = None) -> Buffer:
        """See `Target.get`."""
        if length == 0 or start:  # how these clients answer a range at or past the end differs, so ask first
            count = check_range(self, path, self.head(path).size, start, length)
            if count == 0:
                return b""
            length = count
        with self._errors(path):
            where = {} if length is None else {"start": start, "end": start + length}
            data: bytes = self._do("cat_file", self._full(path), **where)
        if length is not None and len(data) > length:
            raise self.no_ranges(path)
        if length is not None and len(data) < length:
            raise self.short(path, start=start, wanted=length, size=start + len(data))
        return data

    def put(self, path: str, data: Buffer | Sequence[Buffer]) -> None:
        """See `Target.put`. The pieces are joined: these clients take bytes."""
        pieces = as_buffers(data)
        whole = data if isinstance(data, bytes) else b"".join(pieces)
        with self._errors(path):
            try:
                self._do("pipe_file", self._full(path), whole, **self._whole)
            except FileNotFoundError:
                if self._scheme in BUCKETS:
                    raise
                self._check_root(path)
                self._do("makedirs", self._full(path).rpartition("/")[0], exist_ok=True)
                self._do("pipe_file", self._full(path), whole)

    def put_if_absent(self, path: str, data: Buffer) -> bool:
        """See `Target.put_if_absent`: the client is made so that it sends nothing twice (`filesystemclient`)."""
        if not self.can_put_if_absent:
            message = f"{self.name}: {self._scheme} has no atomic create: it can hold fragments, but no manifests"
            raise TargetUnusable(message, target=self.name, path=path, hint="set commit = false for this target")
        try:
            self._do("pipe_file", self._full(path), bytes(data), mode="create")
        except (TargetError, ForkedClient):
            raise
        except Exception as error:  # noqa: BLE001 - each client has its own
            if not is_conflict(error):
                raise error_for(error, self.name, path) from tellable(error)
            return self._settle_conflict(path, error)
        return True

    def head(self, path: str) -> Entry:
        """See `Target.head`."""
        with self._errors(path):
            info = self._do("info", self._full(path))
        if info["type"] != "file":
            raise ObjectNotFound(f"{self.name}: {path} is a folder", target=self.name, path=path)
        return Entry(path, info["size"], _modified(info))

    def list_folders(self, prefix: str) -> Sequence[str]:
        """See `Target.list_folders`."""
        below = self._below(prefix)
        with self._errors(prefix):
            try:
                found = self._do("ls", below.rstrip("/"), detail=True)
            except FileNotFoundError:
                self._check_root(prefix)
                return []
        names = [self._inside(info["name"]).rstrip("/") for info in found if info["type"] == "directory"]
        return sorted(name.rpartition("/")[2] for name in names if name.startswith(prefix))

    def delete(self, paths: Sequence[str]) -> Mapping[str, TargetError]:
        """See `Target.delete`: one request for each, sixteen at once."""
        with ThreadPoolExecutor(DELETES_AT_ONCE) as pool:
            results = zip(paths, pool.map(self._delete_one, check_paths(paths)), strict=True)
            return {path: error for path, error in results if error is not None}

    def close(self) -> None:
        """Drop the filesystem."""
        self._made = None

    def list(self, prefix: str) -> Iterator[Entry]:
        """See `Target.list`."""
        below = self._below(prefix)
        with self._errors(prefix):
            found = self._do("find", below.rstrip("/"), detail=True)
            if not found:
                self._check_root(prefix)
        for name, info in found.items():
            path = self._inside(name)
            if info["type"] == "file" and path.startswith(prefix) and not path.endswith("/"):
                yield Entry(path, info["size"], _modified(info))

    def _filesystem(self) -> Any:
        made = self._made
        if made is not None and made[1] != os.getpid():
            message = f"{self.name}: its client was made in process {made[1]} and can't be used after a fork"
            hint = "open the store in the child, or start workers by spawn or forkserver"
            raise ForkedClient(message, hint=hint, target=self.name)
        check_environment(self.name, self._scheme)
        with self._lock:
            credentials = credentials_now()
            if self._made is None or self._made_with != credentials:
                self._made_with = credentials
                self._made = make_filesystem(self._scheme, self._options), os.getpid()
            return self._made[0]

    def _do(self, method: str, *args: Any, **kwargs: Any) -> Any:
        return bounded(self._filesystem(), method, self._options.timeout, *args, **kwargs)

    def _below(self, prefix: str) -> str:
        return f"{self._root}/{check_prefix(prefix)}"

    def _full(self, path: str) -> str:
        return f"{self._root}/{check_path(path)}"

    def _inside(self, name: str) -> str:
        """A path in the target from a name that the filesystem tells, with or without a slash in front."""
        return name.lstrip("/").removeprefix(self._root.lstrip("/")).lstrip("/")

    @contextmanager
    def _errors(self, path: str) -> Iterator[None]:
        try:
            yield
        except (TargetError, ForkedClient):
            raise
        except FileNotFoundError as error:
            self._check_root(path)
            raise ObjectNotFound(f"{self.name}: no object {path}", target=self.name, path=path) from tellable(error)
        except Exception as error:  # noqa: BLE001 - each client has its own
            raise error_for(error, self.name, path) from tellable(error)

    def _check_root(self, path: str) -> None:
        """Raise if the root is gone: then a missing object proves nothing."""
        root = self._root.partition("/")[0] if self._scheme in BUCKETS else self._root
        try:
            self._do("info", root)
        except FileNotFoundError as error:
            fields = {"reason": Reason.GONE, "hint": "make or restore it, or mend the target's url"}
            message = f"{self.name}: {self._scheme}://{root} is not there"
            raise TargetUnavailable(message, target=self.name, path=path, **fields) from tellable(error)
        except Exception as error:  # noqa: BLE001 - each client has its own
            raise error_for(error, self.name, path) from tellable(error)

    def _settle_conflict(self, path: str, conflict: Exception) -> bool:
        """False: an object is there. Raises a transient error where there is none."""
        try:
            self.head(path)
        except ObjectNotFound:
            message = f"{self.name}: {path}: the service told of a conflict, but nothing is there"
            raise TargetUnavailable(message, target=self.name, path=path, reason=Reason.BUSY) from tellable(conflict)
        return False

    def _delete_one(self, path: str) -> TargetError | None:
        try:
            with self._errors(path):
                self._do("rm_file", self._full(path))
        except ObjectNotFound:
            return None
        except TargetError as error:
            return error
        return None


def _modified(info: Mapping[str, Any]) -> datetime:
    value: object = next(info[key] for key in MODIFIED if info.get(key))
    if isinstance(value, int | float):
        return datetime.fromtimestamp(value, UTC)
    time = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
    return time if time.tzinfo else time.replace(tzinfo=UTC)
