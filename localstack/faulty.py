"""An S3 server in this process that fails as told: over real HTTP, objects in memory, started in a millisecond.

    with FaultyServer(buckets=["a"]) as server:
        server.inject(refuses(503, "SlowDown", retry_after=1), "PutObject", "data/*", share=0.3)   # 30 % of the puts
        server.inject(stalls(10), "GetObject", skip=4, times=1)       # the fifth get: headers, 10 bytes, then silence
        server.heal()
        server.log                                                    # every request, for counting

What can be told is in `faults`. A fault strikes by operation, key and the number of the request.
"""

import random
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Self

from localstack.process import HOST
from localstack.s3http import Exchange, Listener
from localstack.s3memory import Memory, Request, Stored

__all__ = ["Fault", "FaultyServer", "Rule"]

Fault = Callable[[Exchange], None]
"""Answers one exchange, or doesn't."""


@dataclass
class Rule:
    """One fault injected; the fields are `FaultyServer.inject`'s. `hits` counts how often it struck."""

    fault: Fault
    operation: str
    key: str
    skip: int
    times: int | None
    share: float
    hits: int = 0


class FaultyServer:
    """A server of the S3 protocol on 127.0.0.1. A context manager; `stop` and `start` again keeps objects and port.

    Requests must be signed with `credentials` (a session token and the region included) where there are any.
    """

    def __init__(self, *, buckets: Sequence[str] = ("bucket",), credentials: Mapping[str, str] | None = None) -> None:
        self.buckets = tuple(buckets)
        self.credentials = credentials
        self.memory = Memory(buckets)
        self.log: list[Request] = []
        self.port = 0
        self.stopped = threading.Event()
        self._lock = threading.Lock()
        self._rules: list[Rule] = []
        self._random = random.Random(1)  # noqa: S311 - the same faults in every run
        self._listener: Listener | None = None

    @property
    def endpoint(self) -> str:
        """Where clients connect."""
        return f"http://{HOST}:{self.port}"

    @property
    def environment(self) -> dict[str, str]:
        """What clients need in their environment."""
        return dict(self.credentials or {})

    def start(self) -> Self:
        """Listen, on the port it had before if there was one."""
        self.stopped = threading.Event()
        self._listener = Listener(self, self.port)
        self.port = self._listener.server_port
        return self

    def stop(self) -> None:
        """Refuse connections, and cut those there are. What is held stays."""
        listener, self._listener = self._listener, None
        self.stopped.set()
        if listener is not None:
            listener.end()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def inject(
        self,
        fault: Fault,
        operation: str = "*",
        key: str = "*",
        *,
        skip: int = 0,
        times: int | None = None,
        share: float = 1.0,
    ) -> Rule:
        """Let requests for `operation` on keys that match `key` (shell patterns) fail, from now on.

        The first `skip` that match are spared, then a random `share` of them is struck, `times` at most. Of several
        faults the oldest that is due strikes. A listing's key is its prefix, a bulk delete's is empty.
        """
        rule = Rule(fault, operation, key, skip, times, share)
        with self._lock:
            self._rules.append(rule)
        return rule

    def heal(self) -> None:
        """End all faults, and let go what they hold up."""
        with self._lock:
            self._rules.clear()
        self.stopped.set()
        self.stopped = threading.Event()

    def count(self, operation: str = "*", key: str = "*") -> int:
        """How many requests there were, by patterns as in `inject`."""
        return sum(fnmatchcase(r.operation, operation) and fnmatchcase(r.key, key) for r in self.log)

    @property
    def objects(self) -> dict[str, bytes]:
        """What is held, by key, where there is one bucket."""
        (bucket,) = self.buckets
        with self.memory.lock:
            return {key: stored.data for (place, key), stored in self.memory.objects.items() if place == bucket}

    def hold(self, key: str, data: bytes) -> None:
        """Let an object be there, in the first bucket."""
        self.memory.objects[self.buckets[0], key] = Stored(data, self.memory.now())

    def due(self, request: Request) -> Fault:
        """What becomes of a request; notes it in the log."""
        with self._lock:
            self.log.append(request)
            return next((rule.fault for rule in self._rules if self._strikes(rule, request)), Exchange.go_on)

    def _strikes(self, rule: Rule, request: Request) -> bool:
        if not (fnmatchcase(request.operation, rule.operation) and fnmatchcase(request.key, rule.key)):
            return False
        if rule.skip > 0:
            rule.skip -= 1
            return False
        if (rule.times is not None and rule.hits >= rule.times) or self._random.random() >= rule.share:
            return False
        rule.hits += 1
        return True
