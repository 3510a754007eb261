"""What an exception of an fsspec filesystem means.

Each client has its own exceptions; they are told apart by class names, so that no client has to be imported.
"""

import errno
import re

from ckptstore.errors import AccessDenied, NoSpace, TargetError, TargetUnavailable, TargetUnusable
from ckptstore.redaction import redacted
from ckptstore.targets.base import Reason
from ckptstore.targets.objecterrors import CODES, CREDENTIALS, STATUSES, Meaning, by_status

__all__ = ["error_for", "is_conflict"]

TIMEOUT: Meaning = (TargetUnavailable, Reason.TIMEOUT, "check the network, or raise options.timeout")
UNREACHABLE: Meaning = (TargetUnavailable, Reason.UNREACHABLE, "check the endpoint and the network")
BROKEN: Meaning = (TargetUnavailable, Reason.BROKEN, "")

CLASSES: dict[str, Meaning] = {
    "TimeoutError": TIMEOUT,  # also asyncio's and fsspec's
    "ConnectTimeoutError": UNREACHABLE,  # botocore
    "ReadTimeoutError": TIMEOUT,  # botocore
    "EndpointConnectionError": UNREACHABLE,  # botocore
    "ClientConnectorError": UNREACHABLE,  # aiohttp
    "ConnectionRefusedError": UNREACHABLE,
    "HTTPClientError": BROKEN,  # botocore
    "ClientError": BROKEN,  # aiohttp; botocore's of that name carries a response, which is asked first
    "IncompleteReadError": BROKEN,  # botocore
    "ConnectionError": BROKEN,
    "HttpProcessingError": BROKEN,  # aiohttp: the answer itself broke the rules, or broke off
    "PermissionError": CREDENTIALS,
    "NoCredentialsError": CREDENTIALS,  # botocore
    "PartialCredentialsError": CREDENTIALS,
    "DefaultCredentialsError": CREDENTIALS,  # google.auth
    "RefreshError": CREDENTIALS,
}
"""By the name of the class, or of the nearest base class that stands here."""

ERRNOS: dict[int, Meaning] = {
    errno.ENOSPC: (NoSpace, None, "free some space or add a target"),
    errno.EDQUOT: (NoSpace, None, "the quota is used up"),
    errno.EROFS: (AccessDenied, None, "the file system is mounted read-only"),
    errno.EIO: BROKEN,
    errno.EBUSY: (TargetUnavailable, Reason.BUSY, ""),  # s3fs's word for SlowDown and others
}

FORBIDDEN = re.compile(r"\bForbidden\b")  # gcsfs: an OSError without a number
CONFLICT = re.compile(r"PreconditionFailed|pre-?condition|ConditionalRequestConflict", re.IGNORECASE)
SECONDS = re.compile(r"\d+(\.\d+)?")
OUTER = 3  # clients wrap what they met at most this often


def is_conflict(error: Exception) -> bool:
    """Whether a create met something: clients say so with FileExistsError, or EINVAL and the service's words."""
    words = " ".join(f"{cause} {_code(cause)}" for cause in _chain(error))
    return isinstance(error, FileExistsError) or bool(CONFLICT.search(words))


def error_for(error: BaseException, target: str, path: str) -> TargetError:
    """The typed error for an exception met in a request for `path`."""
    kind, reason, hint = _meaning(error)
    message = f"{target}: {path or 'the root'}: {type(error).__name__}: {_first_line(error)}{_refusal(error)}"
    fields: dict[str, object] = {"reason": reason} if reason else {}
    if reason and (wait := _retry_after(error)):
        fields["retry_after"] = wait
    return kind(message, target=target, path=path, hint=hint or None, **fields)


def _meaning(error: BaseException) -> Meaning:
    for cause in _chain(error):
        status, code = _status(cause), _code(cause)
        if code in CODES:
            return CODES[code]
        if status:
            return STATUSES.get(status) or by_status(status)
    for cause in _chain(error):
        for base in type(cause).__mro__:
            if base.__name__ in CLASSES:
                return CLASSES[base.__name__]
        if isinstance(cause, OSError) and cause.errno in ERRNOS:
            return ERRNOS[cause.errno]
    return CREDENTIALS if FORBIDDEN.search(str(error)) else (TargetUnusable, None, "")


def _refusal(error: BaseException) -> str:
    """The service's own word, which the client's exception may leave out: PermissionError says Forbidden for all."""
    codes = [code for cause in _chain(error) if (code := _code(cause)) and code not in str(error)]
    return f" ({codes[0]})" if codes else ""


def _retry_after(error: BaseException) -> float:
    """Seconds that the service asked to wait (RFC 9110, 10.2.3); its other form, a date, is passed over. 0: none."""
    headers = (_response(cause).get("ResponseMetadata", {}).get("HTTPHeaders") for cause in _chain(error))
    told = next((found["retry-after"] for found in headers if isinstance(found, dict) and "retry-after" in found), "")
    return float(told) if SECONDS.fullmatch(str(told)) else 0.0


def _chain(error: BaseException) -> list[BaseException]:
    chain = [error]
    while len(chain) < OUTER and (inner := chain[-1].__cause__) is not None:
        chain.append(inner)
    return chain


def _response(error: BaseException) -> dict[str, dict[str, object]]:
    """botocore's: {"Error": {"Code": …}, "ResponseMetadata": {"HTTPStatusCode": …}}."""
    response = getattr(error, "response", None)
    return response if isinstance(response, dict) else {}


def _status(error: BaseException) -> int:
    if any(base.__name__ == "HttpProcessingError" for base in type(error).__mro__):
        return 0  # its `code` is what a server would answer to a request as bad as this answer
    status = _response(error).get("ResponseMetadata", {}).get("HTTPStatusCode")
    if status is None:
        status = getattr(error, "status", None) or getattr(error, "code", None)  # aiohttp, gcsfs
    return int(status) if isinstance(status, int | str) and str(status).isdigit() else 0


def _code(error: BaseException) -> str:
    return str(_response(error).get("Error", {}).get("Code", ""))


def _first_line(error: BaseException) -> str:
    return redacted(str(error)).partition("\n")[0][:200]
