"""Whether an S3 request is signed as it must be: AWS Signature Version 4, and what a service says where it is not.

"Authenticating Requests (AWS Signature Version 4)", Amazon S3 API Reference.
"""

import hashlib
import hmac
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from urllib.parse import parse_qsl, quote

from localstack.s3memory import Answer, Request, refusal

__all__ = ["check_signature"]

AUTHORIZATION = re.compile(
    r"AWS4-HMAC-SHA256 Credential=(?P<id>[^/]+)/(?P<day>\d+)/(?P<region>[^/]+)/s3/aws4_request, ?"
    r"SignedHeaders=(?P<headers>[^,]+), ?Signature=(?P<signature>\w+)"
)
MAX_SKEW = 900.0  # seconds that S3 lets a client's clock differ


def check_signature(request: Request, credentials: Mapping[str, str], now: float) -> Answer | None:
    """None where the request is signed with `credentials` (by environment names); else the service's refusal.

    `now`: the service's clock, seconds since 1970.
    """
    signed = AUTHORIZATION.fullmatch(request.headers.get("authorization", ""))
    if signed is None:
        return refusal(403, "AccessDenied")
    when = datetime.strptime(request.headers["x-amz-date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    if abs(when.timestamp() - now) > MAX_SKEW:
        return refusal(403, "RequestTimeTooSkewed")
    if signed["id"] != credentials["AWS_ACCESS_KEY_ID"]:
        return refusal(403, "InvalidAccessKeyId")
    if signed["region"] != credentials["AWS_REGION"]:
        return refusal(400, "AuthorizationHeaderMalformed")
    if request.headers.get("x-amz-security-token") != credentials.get("AWS_SESSION_TOKEN"):
        return refusal(400, "ExpiredToken")
    expected = _signature(request, signed, credentials["AWS_SECRET_ACCESS_KEY"])
    return None if hmac.compare_digest(expected, signed["signature"]) else refusal(403, "SignatureDoesNotMatch")


def _signature(request: Request, signed: re.Match[str], secret: str) -> str:
    path, _, query = request.target.partition("?")
    names = signed["headers"].split(";")
    headers = [f"{name}:{' '.join(request.headers[name].split())}\n" for name in names]
    pairs = parse_qsl(query, keep_blank_values=True)  # clients write a space as they like; it is signed as %20
    parameters = sorted(f"{quote(name, safe='-_.~')}={quote(value, safe='-_.~')}" for name, value in pairs)
    digest = request.headers["x-amz-content-sha256"]
    canonical = "\n".join([request.method, path, "&".join(parameters), "".join(headers), ";".join(names), digest])
    scope = f"{signed['day']}/{signed['region']}/s3/aws4_request"
    hashed = hashlib.sha256(canonical.encode()).hexdigest()
    key = f"AWS4{secret}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    text = f"AWS4-HMAC-SHA256\n{request.headers['x-amz-date']}\n{scope}\n{hashed}"
    return hmac.digest(key, text.encode(), "sha256").hex()
