"""What went wrong at an object store, as one of our errors.

By the service's error code, by HTTP status, or by how the connection failed: one table for every service.
Made for obstore, which tells most of this only in its text.
"""

import re

from ckptstore.errors import (
    AccessDenied,
    NoSpace,
    ObjectNotFound,
    ShortObject,
    TargetError,
    TargetUnavailable,
    TargetUnusable,
)
from ckptstore.redaction import redacted
from ckptstore.targets.base import Reason

__all__ = ["CODES", "CREDENTIALS", "STATUSES", "Meaning", "by_status", "error_for", "is_panic"]

Meaning = tuple[type[TargetError], Reason | None, str]
"""Our error, why a target was unavailable (else None), and what to do next."""

KEYS = "check the credentials in the environment and what they may do"
CLOCK = "set this machine's clock"
BARE = "check the credentials, their session token and options.region: most often it is one of these"
CREDENTIALS: Meaning = (AccessDenied, None, KEYS)
SPELT = "check the credentials, the region and the endpoint in the environment for characters that don't belong there"
ROOM = "free some space, raise the quota or add a target"
REGION = "set options.region and options.endpoint to the bucket's"

CODES: dict[str, Meaning] = {
    "NoSuchBucket": (TargetUnavailable, Reason.GONE, "make the bucket, or mend the target's url"),
    "ContainerNotFound": (TargetUnavailable, Reason.GONE, "make the container, or mend the target's url"),
    "AccessDenied": CREDENTIALS,
    "NoSuchKey": (ObjectNotFound, None, ""),
    "InternalError": (TargetUnavailable, Reason.BUSY, ""),
    "ServiceUnavailable": (TargetUnavailable, Reason.BUSY, ""),
    "SlowDown": (TargetUnavailable, Reason.BUSY, ""),
    "RequestTimeout": (TargetUnavailable, Reason.BROKEN, ""),  # S3 says 400 where a body came too slowly
    "RequestTimeTooSkewed": (AccessDenied, None, CLOCK),
    "ExpiredToken": CREDENTIALS,
    "InvalidToken": CREDENTIALS,
    "InvalidAccessKeyId": CREDENTIALS,
    "SignatureDoesNotMatch": CREDENTIALS,
    "400": (TargetUnusable, None, BARE),  # botocore's code for an answer to a HEAD, which tells no more
    "AuthorizationHeaderMalformed": (AccessDenied, None, REGION),
    "PermanentRedirect": (TargetUnusable, None, REGION),
    "IllegalLocationConstraintException": (TargetUnusable, None, REGION),
    "InsufficientStorage": (NoSpace, None, ROOM),
    "QuotaExceeded": (NoSpace, None, ROOM),
    "XMinioStorageFull": (NoSpace, None, ROOM),
}
"""By the service's own code, which says more than the status does, and stands alone in the answer to a bulk delete."""

STATUSES: dict[int, Meaning] = {
    401: CREDENTIALS,
    403: CREDENTIALS,
    404: (ObjectNotFound, None, ""),
    408: (TargetUnavailable, Reason.BROKEN, ""),
    409: (TargetUnavailable, Reason.BUSY, ""),  # S3: two conditional writes at once, neither may have won
    416: (ShortObject, None, ""),
    429: (TargetUnavailable, Reason.BUSY, ""),
    501: (TargetUnusable, None, "the service lacks an operation that a target needs"),
    507: (NoSpace, None, ROOM),
}
"""By HTTP status. Other 5xx are `TargetUnavailable` and busy; other 4xx `TargetUnusable`, for they would stay."""

CONNECTIONS: dict[str, Meaning] = {
    "Connect": (TargetUnavailable, Reason.UNREACHABLE, "check the endpoint and the network"),
    "Timeout": (
        TargetUnavailable,
        Reason.TIMEOUT,
        "check the network, or raise options.read_timeout and options.timeout",
    ),
    "Interrupted": (TargetUnavailable, Reason.BROKEN, ""),
    "Request": (TargetUnavailable, Reason.BROKEN, ""),
    "Decode": (TargetUnavailable, Reason.BROKEN, ""),
    "BareRedirect": (TargetUnusable, None, REGION),
    "NotPartial": (ShortObject, None, ""),  # rclone answers a range past the end with the whole object
    "Wanted range starting": (ShortObject, None, ""),  # obstore, where an answer tells that the object ends before
    "bytes 0--1/0": (ShortObject, None, ""),  # Azurite answers a range of an empty object with 0--1/0
}
"""By how the connection failed: the kinds of obstore's HttpError, and what stands in its text otherwise."""

CONNECTION_WORDS = {
    "Connect": "no connection",
    "Timeout": "no answer in time",
    "BareRedirect": "the bucket is elsewhere",
    "NotPartial": "fewer bytes than the range asked for",
    "Wanted range starting": "fewer bytes than the range asked for",
    "bytes 0--1/0": "fewer bytes than the range asked for",
}

STATUS = re.compile(r"status code: (\d{3})")
CODE = re.compile(r'<Code>(\w+)</Code>|"reason": ?"(\w+)"|\bcode: "(\w+)"')  # S3's and Azure's; Google's; obstore's
BULK_STATUS = re.compile(r'\bcode: "(\d{3})"')  # of one object, in Azure's answer to a bulk delete
KIND = re.compile(r"HttpError \{\s*kind: (\w+)|\b(BareRedirect|NotPartial|bytes 0--1/0|Wanted range starting)\b")
UNSENDABLE = re.compile(r"InvalidHeaderValue|InvalidUri|Invalid Access Key")
METADATA_SERVICE = re.compile(r"169\.254\.169\.254|/latest/api/token|metadata\.google|MissingCredentials")


def is_panic(error: BaseException) -> bool:
    """Whether the client's own code failed: an exception that is no `Exception`, of a class that can't be imported."""
    return type(error).__name__ == "PanicException"


def error_for(error: BaseException, target: str, path: str) -> TargetError:
    """The typed error for an exception of obstore. Its text is told only where nothing is known of it, and redacted."""
    text = str(error)
    what, (kind, reason, hint) = _meaning(text)
    message = f"{target}: {path or 'the root'}: {what}"
    fields = {"reason": reason} if reason else {}
    return kind(message, target=target, path=path, hint=hint or None, **fields)


def _meaning(text: str) -> tuple[str, Meaning]:
    if METADATA_SERVICE.search(text):  # asked only where the environment gives no credentials
        return "no credentials in the environment", CREDENTIALS
    if UNSENDABLE.search(text):
        return "no request can be made with what the environment holds", (AccessDenied, None, SPELT)
    status, code = _status(text), _code(text)
    if status or code:
        words = " ".join([*([f"HTTP {status}"] if status else []), code]).strip()
        return words, CODES.get(code) or STATUSES.get(status) or by_status(status)
    match = KIND.search(text)
    kind = (match[1] or match[2]) if match else ""
    if kind in CONNECTIONS:
        return CONNECTION_WORDS.get(kind, "the connection broke"), CONNECTIONS[kind]
    return redacted(text).partition("\n")[0][:200], (TargetUnusable, None, "")


def _status(text: str) -> int:
    match = STATUS.search(text) or BULK_STATUS.search(text)
    return int(match[1]) if match else 0


def _code(text: str) -> str:
    match = CODE.search(text)
    return match[match.lastindex or 0] if match else ""


def by_status(status: int) -> Meaning:
    """What a status means that has no entry of its own: 5xx may pass, other refusals stay."""
    if status >= 500:  # noqa: PLR2004 - a class of HTTP statuses
        return TargetUnavailable, Reason.BUSY, ""
    return TargetUnusable, None, ""
