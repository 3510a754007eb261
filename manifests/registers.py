"""Registers, and the driver that runs protocol steps against them.

A register is the small-object side of one commit target. The protocol is written without I/O: generators that
yield batches of requests and are sent the replies. One driver, here, performs the batches on threads; the
explorer in `tests/stateful` performs the requests of the very same generators one by one, under every
interleaving.
"""

import os
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeVar

from manifests.errors import Unavailable

ATTEMPTS = 8
"""How often an operation is begun when targets come, go or change under it, or throttle its votes."""

PAUSE = 0.05
"""Seconds before the second attempt; doubled for each further one: 6 s in all, in which a server can restart."""

_THREADS_PER_REGISTER = 8
_MAX_THREADS = 32


class Register(Protocol):
    """The small objects of one commit target. Blocking and thread-safe.

    What the service must guarantee: read after write; whole objects or nothing; one winner of
    `put_if_absent`. A call raises `Unavailable` where the target is out of reach or the reply was lost: the
    request may then have taken effect, or take effect at any later time. A call that returned leaves nothing
    behind: `put_if_absent` is not to be retried below this interface, or a first attempt could land long
    after the second was answered.
    """

    name: str

    def get(self, path: str) -> bytes | None:
        """Return the object's bytes; None where there is no such object."""

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Create the object; True if this call did, False if something is there already."""

    def put(self, path: str, data: bytes) -> None:
        """Make the object hold `data`, whatever was there."""

    def list(self, prefix: str) -> list[str]:
        """Return the paths of all objects that start with `prefix`, which ends in a slash."""

    def delete(self, path: str) -> None:
        """Remove the object; none there is well."""


@dataclass(frozen=True, slots=True)
class Request:
    """One call of a register's verb."""

    target: str
    verb: Literal["get", "put_if_absent", "put", "list", "delete"]
    path: str
    data: bytes = b""


Reply = bytes | bool | tuple[str, ...] | Unavailable | None
"""What the verb returned (a list as a sorted tuple), or the Unavailable that it raised."""

Lane = Sequence[Request]
"""Requests to one register that are made in order; after an Unavailable the rest is answered by it, unasked."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Lanes that are performed at the same time, after `pause` seconds."""

    lanes: Sequence[Lane]
    pause: float = 0.0


Replies = Sequence[Sequence[Reply]]
"""The replies to a batch, in the shape of its lanes."""

T = TypeVar("T")
Steps = Generator[Batch, Replies, T]
"""A part of the protocol: yields batches, is sent their replies, returns a T or raises."""


def together(parts: Sequence[Steps[T]]) -> Steps[list[T]]:
    """Run several parts at once: each batch holds the lanes of all that have not ended.

    The first error ends all.
    """
    results: dict[int, T] = {}
    replies: dict[int, Any] = dict.fromkeys(range(len(parts)))  # None starts a generator
    while replies:
        batches: dict[int, Batch] = {}
        for i, reply in replies.items():
            try:
                batches[i] = parts[i].send(reply)
            except StopIteration as stop:
                results[i] = stop.value
        if not batches:
            break
        lanes = [lane for batch in batches.values() for lane in batch.lanes]
        answers = iter((yield Batch(lanes, max(batch.pause for batch in batches.values()))))
        replies = {i: [next(answers) for _ in batch.lanes] for i, batch in batches.items()}
    return [results[i] for i in range(len(parts))]


def drive(steps: Steps[T], registers: Mapping[str, Register], sleep: Callable[[float], object] = time.sleep) -> T:
    """Run `steps` to their end.

    All lanes of a batch run at once, so a dead register costs one time-out a batch.
    """
    workers = min(_MAX_THREADS, max(1, _THREADS_PER_REGISTER * len(registers)))
    with ThreadPoolExecutor(workers, thread_name_prefix="ckpt-commit") as pool:
        try:
            batch = next(steps)
            while True:
                if batch.pause:
                    sleep(batch.pause * (0.5 + os.urandom(1)[0] / 512))  # so that savers don't come back together
                batch = steps.send(_perform(batch, registers, pool))
        except StopIteration as stop:
            result: T = stop.value
            return result


def _perform(batch: Batch, registers: Mapping[str, Register], pool: ThreadPoolExecutor) -> Replies:
    down: dict[str, Unavailable] = {}
    if len(batch.lanes) == 1:
        return [_perform_lane(batch.lanes[0], registers, down)]
    futures = [pool.submit(_perform_lane, lane, registers, down) for lane in batch.lanes]
    return [future.result() for future in futures]


def _perform_lane(lane: Lane, registers: Mapping[str, Register], down: dict[str, Unavailable]) -> list[Reply]:
    """Perform one lane.

    `down` is shared by the batch: a register that failed once is not asked again by it.
    """
    replies: list[Reply] = []
    for request in lane:
        if request.target not in down:
            try:
                replies.append(perform(request, registers))
                continue
            except Unavailable as error:
                down[request.target] = error
        replies.append(down[request.target])
    return replies


def perform(request: Request, registers: Mapping[str, Register]) -> Reply:
    """Perform one request. Raises Unavailable, also where no register of that name is configured."""
    register = registers.get(request.target)
    if register is None:
        message = f"{request.target}: not among the targets that were opened"
        raise Unavailable(message, register=request.target, path=request.path)
    match request.verb:
        case "get":
            return register.get(request.path)
        case "put_if_absent":
            return register.put_if_absent(request.path, request.data)
        case "put":
            register.put(request.path, request.data)
            return None
        case "list":
            return tuple(sorted(register.list(request.path)))
        case "delete":
            register.delete(request.path)
            return None
