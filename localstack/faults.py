"""What an S3 service, or what is between it and a client, may do wrong: faults for `FaultyServer.inject`.

Each was seen at a real service, proxy or network.
"""

import re
import time
from collections.abc import Collection

from localstack.faulty import Fault
from localstack.s3http import Exchange
from localstack.s3memory import RANGE, refusal

__all__ = [
    "appends",
    "cuts",
    "drops_conditions",
    "ends_early",
    "full",
    "hangs",
    "ignores_ranges",
    "lags",
    "leaves",
    "limits_mutations",
    "loses_replies",
    "performs_but_refuses",
    "refuses",
    "rejects_checksums",
    "shifts_ranges",
    "slow",
    "stalls",
]

FOR_EVER = 3600.0
CHECKSUM = re.compile(r"x-amz-(checksum-|sdk-checksum|trailer)")


def refuses(status: int, code: str, *, retry_after: float | None = None) -> Fault:
    """An error answer, with Retry-After in seconds where told. Nothing is done."""
    headers = {} if retry_after is None else {"Retry_After": str(retry_after)}
    return lambda exchange: exchange.send(refusal(status, code, **headers))


def full() -> Fault:
    """No room: what a put is answered by."""
    return refuses(507, "InsufficientStorage")


def cuts(exchange: Exchange) -> None:
    """The connection is reset instead of an answer. Nothing is done."""
    exchange.cut()


def hangs(exchange: Exchange) -> None:
    """No answer, ever."""
    exchange.wait(FOR_EVER)
    exchange.cut()


def slow(seconds: float) -> Fault:
    """The answer comes `seconds` late."""

    def fault(exchange: Exchange) -> None:
        exchange.wait(seconds)
        exchange.go_on()

    return fault


def stalls(count: int) -> Fault:
    """Headers and `count` bytes of the body, then silence."""

    def fault(exchange: Exchange) -> None:
        exchange.send(exchange.perform(), count)
        exchange.wait(FOR_EVER)
        exchange.cut()

    return fault


def ends_early(count: int, *, honest: bool = True) -> Fault:
    """The body ends `count` bytes early: by a Content-Length of so much less; not `honest`: in the middle of it."""

    def fault(exchange: Exchange) -> None:
        answer = exchange.perform()
        left = max(len(answer.body) - count, 0)
        if honest:
            answer.body = answer.body[:left]
            exchange.send(answer)
        else:
            exchange.send(answer, left)
            exchange.end()

    return fault


def ignores_ranges(exchange: Exchange) -> None:
    """200 and the whole object, whatever was asked for."""
    exchange.request.headers.pop("range", None)
    exchange.go_on()


def shifts_ranges(by: int) -> Fault:
    """The bytes `by` further on, under the name of those that were asked for: 206 and a right Content-Range."""

    def fault(exchange: Exchange) -> None:
        right = exchange.perform()
        wanted = RANGE.fullmatch(exchange.request.headers.get("range", ""))
        if right.status == 206 and wanted and wanted[1]:  # noqa: PLR2004 - HTTP's Partial Content
            exchange.request.headers["range"] = f"bytes={int(wanted[1]) + by}-{int(wanted[2]) + by}"
            shifted = exchange.perform().body
            right.body = bytes(shifted) + bytes(len(right.body) - len(shifted))
        exchange.send(right)

    return fault


def loses_replies(exchange: Exchange) -> None:
    """What is asked is done, and the connection breaks before the answer."""
    exchange.perform()
    exchange.cut()


def performs_but_refuses(status: int, code: str) -> Fault:
    """What is asked is done, and the answer is an error."""

    def fault(exchange: Exchange) -> None:
        exchange.perform()
        exchange.send(refusal(status, code))

    return fault


def leaves(keys: Collection[str]) -> Fault:
    """A bulk delete answers 200, and in its body AccessDenied for `keys`."""
    return lambda exchange: exchange.send(exchange.perform(locked=keys))


def drops_conditions(exchange: Exchange) -> None:
    """If-None-Match is passed over, as by many proxies and old services."""
    exchange.request.headers.pop("if-none-match", None)
    exchange.go_on()


def appends(text: bytes) -> Fault:
    """A checksum trailer of the body is taken for a part of the object."""

    def fault(exchange: Exchange) -> None:
        exchange.request.body += text
        exchange.go_on()

    return fault


def rejects_checksums(exchange: Exchange) -> None:
    """400 to headers that an older service doesn't know."""
    if any(CHECKSUM.match(name) for name in exchange.request.headers):
        exchange.send(refusal(400, "InvalidRequest"))
    else:
        exchange.go_on()


def lags(seconds: float) -> Fault:
    """A listing shows what was put more than `seconds` ago."""
    return lambda exchange: exchange.send(exchange.perform(lag=seconds))


def limits_mutations(seconds: float) -> Fault:
    """429 to a put or delete of one key less than `seconds` after the last one that was done."""
    last: dict[str, float] = {}

    def fault(exchange: Exchange) -> None:
        key, now = exchange.request.key, time.monotonic()
        if exchange.request.method in {"PUT", "DELETE"} and now - last.get(key, -seconds) < seconds:
            exchange.send(refusal(429, "SlowDown"))
            return
        last[key] = now
        exchange.go_on()

    return fault
