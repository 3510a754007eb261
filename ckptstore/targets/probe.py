"""What a service really does, found out by doing it: for `init` and `doctor`.

The promises that commits rest on can't be read off a product's name: rclone's S3 server answers 200 to a
conditional put and overwrites (so do mocks, proxies and old versions of many others).
"""

import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass

from ckptstore.errors import ObjectNotFound, ShortObject, TargetError, TargetUnavailable, TargetUnusable
from ckptstore.targets.base import Target
from ckptstore.targets.retry import worth_another_try

PROBE = "probe/"
"""The folder of what a probe puts; it is empty again afterwards, unless the process was killed."""

__all__ = ["PROBE", "Capabilities", "probe_target"]

RACERS = 4  # SeaweedFS makes losers wait for up to a second each, so no more
TRIES = 4
PAUSE = 0.25  # seconds before the second try; doubled for each further one

Check = Callable[[Target, str], str | None]


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a target was seen to do. `problems` says in words what it does not, by capability."""

    target: str
    problems: dict[str, str]

    @property
    def can_hold_fragments(self) -> bool:
        """It keeps what is put, gives it back at once, in parts too, lists it, and deletes."""
        return not self.problems.keys() & {"read after write", "ranges", "listing", "delete"}

    @property
    def can_commit(self) -> bool:
        """It can hold manifests too: a put-if-absent has one winner."""
        return not self.problems


def probe_target(target: Target) -> Capabilities:
    """Try what a target must do, in a folder of its own that is empty again afterwards.

    Raises `TargetError` where the target can't be asked: out of reach, access denied, full. About 30 small
    requests.
    """
    folder = f"{PROBE}{os.urandom(8).hex()}/"
    problems: dict[str, str] = {}
    try:
        for capability, check in CHECKS.items():
            problem = check(target, folder)
            if problem is not None:
                problems[capability] = problem
    finally:
        with suppress(TargetError):
            target.delete([entry.path for entry in target.list(folder)])
    return Capabilities(target.name, problems)


def _read_after_write(target: Target, folder: str) -> str | None:
    path, data = f"{folder}object", os.urandom(1000)
    for content in (os.urandom(500), data):
        target.put(path, content)
    try:
        if bytes(target.get(path)) != data or target.head(path).size != len(data):
            return "an object just put reads differently"
    except ObjectNotFound:
        return "an object just put is not found"
    return None


def _ranges(target: Target, folder: str) -> str | None:
    path, data = f"{folder}ranges", os.urandom(1000)
    target.put(path, data)
    with suppress(ObjectNotFound, ShortObject, TargetUnusable):
        if bytes(target.get(path, start=100, length=50)) == data[100:150]:
            return None
    return "a range of an object can't be read, or reads differently from the object"


def _listing(target: Target, folder: str) -> str | None:
    path = f"{folder}listed"
    target.put(path, b"listed")
    listed = any(entry.path == path and entry.size == len(b"listed") for entry in target.list(folder))
    return None if listed else "an object just put is not listed"


def _put_if_absent(target: Target, folder: str) -> str | None:
    """A put-if-absent that is throttled, or whose reply is lost, tells nothing: begin again under fresh names."""
    for i in range(TRIES - 1):
        try:
            return _exclusive(target, f"{folder}{i}-")
        except TargetUnavailable as error:
            if not worth_another_try(error):
                raise
        time.sleep(PAUSE * 2**i)
    return _exclusive(target, f"{folder}last-")


def _exclusive(target: Target, prefix: str) -> str | None:
    path = f"{prefix}once"
    try:
        if not target.put_if_absent(path, b"first"):
            return "put-if-absent refuses to create an object that is not there"
        if target.put_if_absent(path, b"second") or bytes(target.get(path)) != b"first":
            return "put-if-absent overwrites: a second writer was not refused"
        return _race(target, f"{prefix}race")
    except TargetUnavailable:
        raise
    except TargetError as error:
        return f"put-if-absent fails: {error.message}"


def _race(target: Target, path: str) -> str | None:
    """Racers that got no answer have neither won nor lost. Raises for one of them if nobody won."""
    start = threading.Barrier(RACERS)

    def put(racer: int) -> bool | TargetUnavailable:
        start.wait()
        try:
            return target.put_if_absent(path, b"racer %d" % racer)
        except TargetUnavailable as error:
            return error

    with ThreadPoolExecutor(RACERS) as pool:
        outcomes = [*pool.map(put, range(RACERS))]
    won = [racer for racer, outcome in enumerate(outcomes) if outcome is True]
    for outcome in outcomes:
        if not won and isinstance(outcome, TargetUnavailable):
            raise outcome
    if len(won) != 1:
        return f"put-if-absent let {len(won)} of {RACERS} racing writers win"
    if bytes(target.get(path)) != b"racer %d" % won[0]:
        return "put-if-absent kept another writer's bytes than the winner's"
    return None


def _delete(target: Target, folder: str) -> str | None:
    path = f"{folder}deleted"
    target.put(path, b"deleted")
    failed = target.delete([path, f"{folder}never-there"])
    if failed:
        error = next(iter(failed.values()))
        return f"delete fails: {error.message}" + (f" ({error.hint})" if error.hint else "")
    try:
        target.head(path)
    except ObjectNotFound:
        return None
    return "an object just deleted is still there"


CHECKS: dict[str, Check] = {
    "read after write": _read_after_write,
    "ranges": _ranges,
    "listing": _listing,
    "put-if-absent": _put_if_absent,
    "delete": _delete,
}
