"""The S3 protocol over objects in memory: as much of it as obstore, s3fs and ckptstore ask for.

Amazon S3 API Reference, 2006-03-01: GetObject, HeadObject, PutObject, DeleteObject, DeleteObjects, ListObjectsV2 and
multipart uploads. Requests and answers are plain values; `faulty` carries them over HTTP.
"""

import hashlib
import itertools
import re
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import formatdate
from urllib.parse import quote
from xml.sax.saxutils import escape, unescape

__all__ = ["Answer", "Memory", "Request", "Stored", "refusal"]

MAX_KEYS = 1000
RANGE = re.compile(r"bytes=(\d*)-(\d*)")
KEYS = re.compile(r"<Key>(.*?)</Key>", re.DOTALL)
ENTITIES = {"&quot;": '"', "&apos;": "'"}


@dataclass
class Request:
    """One request: `operation` by S3's own name, `key` (for a listing its prefix), header names in lower case."""

    number: int
    method: str
    target: str
    operation: str
    bucket: str
    key: str
    query: Mapping[str, str]
    headers: dict[str, str]
    body: bytes = b""


@dataclass
class Answer:
    """A status, headers and a body."""

    status: int
    body: bytes | memoryview = b""
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Stored:
    """One object: its bytes, and the time of its put in seconds since 1970."""

    data: bytes
    modified: float

    @property
    def headers(self) -> dict[str, str]:
        """What every answer about it says."""
        tag = hashlib.md5(self.data, usedforsecurity=False).hexdigest()
        return {"ETag": f'"{tag}"', "Last-Modified": formatdate(self.modified, usegmt=True), "Accept-Ranges": "bytes"}


def refusal(status: int, code: str, **headers: str) -> Answer:
    """An error in S3's words; header names with `_` for `-`."""
    body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>as told</Message></Error>".encode()
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer(status, body, {"Content-Type": "application/xml", **named})


class Memory:
    """Buckets of objects. `objects` is by (bucket, key); `page_size` is the most that a page of a listing holds."""

    def __init__(self, buckets: Sequence[str]) -> None:
        self.buckets = set(buckets)
        self.objects: dict[tuple[str, str], Stored] = {}
        self.page_size = MAX_KEYS
        self.clock_offset = 0.0
        self.lock = threading.Lock()
        self._uploads: dict[str, tuple[str, str, dict[int, bytes]]] = {}
        self._numbers = itertools.count(1)

    def now(self) -> float:
        """The time by this service's clock, seconds since 1970."""
        return time.time() + self.clock_offset

    def answer(self, request: Request, *, locked: Collection[str] = (), lag: float = 0.0) -> Answer:
        """Do what is asked. `locked` keys are left by a bulk delete; a listing shows what is older than `lag` s."""
        ways: dict[str, Callable[[], Answer]] = {
            "HeadBucket": lambda: Answer(200),
            "ListObjectsV2": lambda: self._list(request, self.now() - lag),
            "DeleteObjects": lambda: self._delete_many(request, locked),
            "GetObject": lambda: self._get(request),
            "HeadObject": lambda: self._get(request),
            "PutObject": lambda: self._put(request, request.body),
            "DeleteObject": lambda: self._delete(request),
            "ListMultipartUploads": self._list_uploads,
            "CreateMultipartUpload": lambda: self._begin(request),
            "UploadPart": lambda: self._upload(request),
            "CompleteMultipartUpload": lambda: self._complete(request),
            "AbortMultipartUpload": lambda: self._abort(request),
        }
        with self.lock:
            if request.bucket not in self.buckets:
                return refusal(404, "NoSuchBucket")
            if request.query.get("uploadId", "none") not in {"none", *self._uploads}:
                return refusal(404, "NoSuchUpload")
            return ways.get(request.operation, lambda: refusal(501, "NotImplemented"))()

    def _get(self, request: Request) -> Answer:
        stored = self.objects.get((request.bucket, request.key))
        if stored is None:
            return refusal(404, "NoSuchKey")
        size, wanted = len(stored.data), RANGE.fullmatch(request.headers.get("range", ""))
        if wanted is None:
            return Answer(200, stored.data, stored.headers)
        first, last = _bounds(wanted, size)
        if first >= size:
            return refusal(416, "InvalidRange")
        told = {"Content-Range": f"bytes {first}-{last}/{size}"}
        return Answer(206, memoryview(stored.data)[first : last + 1], stored.headers | told)

    def _put(self, request: Request, data: bytes) -> Answer:
        place = request.bucket, request.key
        if request.headers.get("if-none-match") == "*" and place in self.objects:
            return refusal(412, "PreconditionFailed")
        self.objects[place] = stored = Stored(data, self.now())
        return Answer(200, headers={"ETag": stored.headers["ETag"]})

    def _delete_many(self, request: Request, locked: Collection[str]) -> Answer:
        parts = []
        for key in (unescape(found, ENTITIES) for found in KEYS.findall(request.body.decode())):
            named = f"<Key>{escape(key)}</Key>"
            if key in locked:
                parts.append(f"<Error>{named}<Code>AccessDenied</Code><Message>locked</Message></Error>")
            else:
                self.objects.pop((request.bucket, key), None)
                parts.append(f"<Deleted>{named}</Deleted>")
        return _xml("DeleteResult", "".join(parts))

    def _list(self, request: Request, before: float) -> Answer:
        query = request.query
        after = query.get("continuation-token") or query.get("start-after", "")
        room = min(int(query.get("max-keys", MAX_KEYS)), self.page_size)
        encode = quote if query.get("encoding-type") == "url" else escape
        page: list[str] = []
        last = ""
        for name, stored in self._entries(request.bucket, request.key, query.get("delimiter", ""), before):
            if name <= after:
                continue
            if len(page) == room:
                more = f"<IsTruncated>true</IsTruncated><NextContinuationToken>{escape(last)}</NextContinuationToken>"
                return _listing(request, page, more)
            page.append(_entry(encode(name), stored))
            last = name
        return _listing(request, page, "<IsTruncated>false</IsTruncated>")

    def _entries(self, bucket: str, prefix: str, delimiter: str, before: float) -> Iterator[tuple[str, Stored | None]]:
        """Keys, and with None the folders that stand for those below them, in the order of their names."""
        found: dict[str, Stored | None] = {}
        for (place, key), stored in self.objects.items():
            if place == bucket and key.startswith(prefix) and stored.modified <= before:
                head, cut, _ = key[len(prefix) :].partition(delimiter) if delimiter else ("", "", "")
                found[f"{prefix}{head}{cut}" if cut else key] = None if cut else stored
        return iter(sorted(found.items()))

    def _delete(self, request: Request) -> Answer:
        self.objects.pop((request.bucket, request.key), None)
        return Answer(204)

    def _list_uploads(self) -> Answer:
        each = (
            f"<Upload><Key>{escape(key)}</Key><UploadId>{upload}</UploadId></Upload>"
            for upload, (_, key, _) in self._uploads.items()
        )
        return _xml("ListMultipartUploadsResult", "".join(each))

    def _begin(self, request: Request) -> Answer:
        upload = str(next(self._numbers))
        self._uploads[upload] = request.bucket, request.key, {}
        return _xml("InitiateMultipartUploadResult", f"<UploadId>{upload}</UploadId>")

    def _upload(self, request: Request) -> Answer:
        number = int(request.query["partNumber"])
        self._uploads[request.query["uploadId"]][2][number] = request.body
        return Answer(200, headers={"ETag": f'"{number}"'})

    def _complete(self, request: Request) -> Answer:
        parts = self._uploads[request.query["uploadId"]][2]
        done = self._put(request, b"".join(data for _, data in sorted(parts.items())))
        if done.status != 200:  # noqa: PLR2004 - refused by its condition
            return done
        del self._uploads[request.query["uploadId"]]
        return _xml("CompleteMultipartUploadResult", f"<ETag>{escape(done.headers['ETag'])}</ETag>")

    def _abort(self, request: Request) -> Answer:
        del self._uploads[request.query["uploadId"]]
        return Answer(204)


def _bounds(wanted: re.Match[str], size: int) -> tuple[int, int]:
    """First and last byte of a range, both included (RFC 9110, 14.1.2)."""
    if not wanted[1]:
        return max(size - int(wanted[2]), 0), size - 1
    return int(wanted[1]), min(int(wanted[2]), size - 1) if wanted[2] else size - 1


def _entry(name: str, stored: Stored | None) -> str:
    if stored is None:
        return f"<CommonPrefixes><Prefix>{name}</Prefix></CommonPrefixes>"
    when = datetime.fromtimestamp(stored.modified, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3]
    return (
        f"<Contents><Key>{name}</Key><LastModified>{when}Z</LastModified>"
        f"<ETag>{escape(stored.headers['ETag'])}</ETag><Size>{len(stored.data)}</Size></Contents>"
    )


def _listing(request: Request, page: Sequence[str], more: str) -> Answer:
    about = f"<Name>{request.bucket}</Name><KeyCount>{len(page)}</KeyCount>{more}"
    if request.query.get("encoding-type") == "url":
        about += "<EncodingType>url</EncodingType>"
    return _xml("ListBucketResult", about + "".join(page))


def _xml(name: str, inside: str) -> Answer:
    space = "http://s3.amazonaws.com/doc/2006-03-01/"
    body = f'<?xml version="1.0" encoding="UTF-8"?><{name} xmlns="{space}">{inside}</{name}>'
    return Answer(200, body.encode(), {"Content-Type": "application/xml"})
