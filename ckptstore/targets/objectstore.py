"""A target in an object store, by obstore: S3 and what speaks its protocol, Google Cloud Storage, Azure.

obstore makes no retries here: that is `retry`'s, so there is one policy and one deadline. A key is the
prefix, `/` and the path, exactly: obstore's own prefix parameter would percent-encode some characters, so it
is not used.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError

from ckptstore.errors import ObjectNotFound, ShortObject, TargetError, TargetUnavailable, TargetUnusable
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
from ckptstore.targets.objectclient import Client
from ckptstore.targets.objecterrors import error_for, is_panic
from ckptstore.targets.options import Options

if TYPE_CHECKING:
    from obstore import GetOptions, ObjectMeta

__all__ = ["ObjectStoreTarget"]

PAGE = 1000  # the most keys that S3 lists, and deletes, in one request
LARGE = 1 << 20  # bytes of a body that is given the whole of `timeout` to go out
NO_BULK = (
    'where the service refuses bulk deletes or their checksums, set options.client = "fsspec": it deletes one by one'
)
CHUNK = 4 << 20  # bytes of a body between the socket and the caller's memory: 10 MiB of it in all, measured


class ObjectStoreTarget(Target):
    """Objects under `prefix` of `bucket`. The client is made by the first request, so after a fork.

    Credentials come from the environment or the machine's role, as obstore finds them; never from `options`.
    """

    def __init__(self, name: str, scheme: str, bucket: str, prefix: str = "", *, options: Options) -> None:
        super().__init__(name)
        self._prefix = f"{prefix}/" if prefix else ""
        self._url = f"{scheme}://{bucket}/{prefix}".rstrip("/")
        self._client = Client(name, scheme, bucket, options)

    @property
    def url(self) -> str:
        """Scheme, bucket and prefix, literally."""
        return self._url

    def get(self, path: str, *, start: int = 0, length: int | None = None) -> Buffer:
        """See `Target.get`. The buffer is obstore's own memory, read-only."""
        if length == 0:  # HTTP has no empty range
            check_range(self, path, self.head(path).size, start, length)
            return b""
        try:
            data = self._read(path, start, length)
        except ShortObject as error:
            self._explain(path, start, length, error)
            return b""  # from the very end to the end
        if length is not None and len(data) < length:
            raise self.short(path, start=start, wanted=length, size=start + len(data))
        return data

    def get_into(self, path: str, into: memoryview, *, start: int = 0) -> None:
        """See `Target.get_into`: a few MiB at a time pass through memory that is not the caller's."""
        if not into:
            self.get(path, start=start, length=0)
            return
        options: GetOptions = {"range": (start, start + len(into))}
        try:
            done = self._read_into(path, into, options)
        except ShortObject as error:
            self._explain(path, start, len(into), error)
            raise
        if done < len(into):
            raise self.short(path, start=start, wanted=len(into), size=start + done)

    def put(self, path: str, data: Buffer | Sequence[Buffer]) -> None:
        """See `Target.put`: one request, whatever the size, with no copy of `data`."""
        pieces = [*as_buffers(data)]
        large = sum(map(len, pieces)) > LARGE
        with self._errors(path):
            store = self._client.patient() if large else self._client.brisk()
            obstore.put(store, self._key(path), pieces or b"", use_multipart=False)

    def put_if_absent(self, path: str, data: Buffer) -> bool:
        """See `Target.put_if_absent`.

        A conflict is believed only where an object is found: S3 answers 409 also where two conditional writes
        meet, of which none may have written anything yet.
        """
        with self._errors(path):
            try:
                obstore.put(self._client.brisk(), self._key(path), data, mode="create", use_multipart=False)
            except AlreadyExistsError as error:
                return self._settle_conflict(path, error)
        return True

    def head(self, path: str) -> Entry:
        """See `Target.head`."""
        try:
            with self._errors(path):
                return self._entry(obstore.head(self._client.brisk(), self._key(path)))
        except ObjectNotFound:
            self._read(path, 0, 1)  # the answer to a HEAD has no body to tell a missing object from a missing bucket
            raise

    def list_folders(self, prefix: str) -> Sequence[str]:
        """See `Target.list_folders`."""
        below = self._prefix + check_prefix(prefix)
        with self._errors(prefix):
            found = obstore.list_with_delimiter(self._client.brisk(), below or None)["common_prefixes"]
        return sorted(folder[len(below) :] for folder in found)

    def delete(self, paths: Sequence[str]) -> Mapping[str, TargetError]:
        """See `Target.delete`: as many in one request as the service takes; one by one where that fails for some."""
        failed: dict[str, TargetError] = {}
        for first in range(0, len(paths), PAGE):
            some = check_paths(paths[first : first + PAGE])
            try:
                self._delete_all(some)
            except TargetUnavailable as error:
                failed |= dict.fromkeys(some, error)
            except TargetError:
                failed |= self._delete_each(some)
        return failed

    def close(self) -> None:
        """Drop the client: its sockets close when the last request has ended."""
        self._client.close()

    def list(self, prefix: str) -> Iterator[Entry]:
        """See `Target.list`."""
        below = self._prefix + check_prefix(prefix)
        with self._errors(prefix):
            for page in obstore.list(self._client.brisk(), below or None, chunk_size=PAGE):
                yield from map(self._entry, page)

    def _key(self, path: str) -> str:
        return self._prefix + check_path(path)

    def _entry(self, meta: "ObjectMeta") -> Entry:
        return Entry(meta["path"][len(self._prefix) :], meta["size"], meta["last_modified"])

    @contextmanager
    def _errors(self, path: str) -> Iterator[None]:
        try:
            yield
        except BaseException as error:
            if not isinstance(error, (BaseError, FileNotFoundError)) and not is_panic(error):
                raise
            raise error_for(error, self.name, path) from tellable(error)

    def _read(self, path: str, start: int, length: int | None) -> memoryview:
        key = self._key(path)
        with self._errors(path):
            store = self._client.brisk()
            if length is not None:
                return memoryview(obstore.get_range(store, key, start=start, length=length))
            options: GetOptions = {"range": {"offset": start}} if start else {}
            return memoryview(obstore.get(store, key, options=options).bytes())

    def _read_into(self, path: str, into: memoryview, options: "GetOptions") -> int:
        done = 0
        with self._errors(path):
            body = obstore.get(self._client.brisk(), self._key(path), options=options)
            for chunk in body.stream(min_chunk_size=CHUNK):
                into[done : done + len(chunk)] = chunk
                done += len(chunk)
        return done

    def _explain(self, path: str, start: int, length: int | None, error: ShortObject) -> None:
        """Raise what a refused range means, with the object's size; return if nothing was asked for at its end."""
        if check_range(self, path, self.head(path).size, start, length):
            raise self.no_ranges(path) from error

    def _settle_conflict(self, path: str, conflict: Exception) -> bool:
        """False: an object is there. Raises a transient error where there is none."""
        try:
            self.head(path)
        except ObjectNotFound:
            message = f"{self.name}: {path}: the service told of a conflict, but nothing is there"
            raise TargetUnavailable(message, target=self.name, path=path, reason=Reason.BUSY) from tellable(conflict)
        return False

    def _delete_all(self, paths: Sequence[str]) -> None:
        with self._errors(paths[0]):
            obstore.delete(self._client.brisk(), [self._key(path) for path in paths])

    def _delete_each(self, paths: Sequence[str]) -> dict[str, TargetError]:
        failed: dict[str, TargetError] = {}
        for path in paths:
            try:
                self._delete_all([path])
            except ObjectNotFound:  # Google's and Azure's answer where S3 says 204
                continue
            except TargetError as error:
                if isinstance(error, TargetUnusable):
                    error.hint = error.hint or NO_BULK
                failed[path] = error
        return failed
