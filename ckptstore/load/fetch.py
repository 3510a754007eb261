"""Blocks of fragments from their targets, each checked against its digest by the thread that read it."""

import threading
import time
from collections.abc import Mapping
from concurrent.futures import Executor, Future
from dataclasses import dataclass

import numpy as np

import erasure
from ckptstore.buffers import Bytes
from ckptstore.errors import TargetError
from ckptstore.events import FragmentDamaged, Observer, TargetFailed, ignore
from ckptstore.load.patience import Patience
from ckptstore.load.plan import Want
from ckptstore.targets.base import Target
from manifests import CodeSpec, paths

__all__ = ["Fetcher", "Fragment", "Reading"]


@dataclass(frozen=True, slots=True)
class Fragment:
    """One fragment of a stripe and the target that holds it."""

    want: Want
    number: int
    target: str

    @property
    def path(self) -> str:
        """Its object name; that of the older stripe, where the record says that this one uses it again."""
        shard, source = self.want.shard, self.want.stripe.source
        if source is not None:
            return paths.fragment(shard.run, source.shard_id, source.stripe, self.number)
        return paths.fragment(shard.run, shard.record.shard_id, self.want.number, self.number)


class Reading:
    """Blocks of a fragment on their way. `future` gives for each of `rows` whether it is good."""

    def __init__(self, source: Fragment, rows: range, nbytes: int) -> None:
        self.source = source
        self.rows = rows
        self.nbytes = nbytes
        self.future: Future[list[bool]]
        self._began: float | None = None

    def begin(self) -> float:
        """The time, from now on the one when a thread took it up: waiting for a thread makes nothing late."""
        self._began = time.monotonic()
        return self._began

    def left(self, patience: float) -> float:
        """Seconds until it is under way for longer than that; none are left where it is late."""
        return patience if self._began is None else patience - (time.monotonic() - self._began)

    def is_late(self, patience: float) -> bool:
        """Whether it is under way for longer than that."""
        return not self.future.done() and self.left(patience) <= 0


class Fetcher:
    """Reads for one load. A target that is out of reach once is asked no more while the load lasts."""

    def __init__(
        self,
        targets: Mapping[str, Target],
        executor: Executor,
        observer: Observer = ignore,
        patience: Patience | None = None,
    ) -> None:
        self._targets = targets
        self._executor = executor
        self._observer = observer
        self._silent: dict[str, TargetError] = {}
        self._codes: dict[tuple[int, int, bytes], erasure.Code] = {}
        self._lock = threading.Lock()
        self.patience = patience or Patience()

    def submit(self, source: Fragment, rows: range, start: int, into: Bytes) -> Reading:
        """Read the fragment's blocks `rows`, from `start` in it, into `into`."""
        reading = Reading(source, rows, into.size)
        reading.future = self._executor.submit(self._read, reading, start, into)
        return reading

    def answers(self, target: str) -> bool:
        """Whether a target is known to the store and has not been found out of reach."""
        return target in self._targets and target not in self._silent

    def code(self, spec: CodeSpec) -> erasure.Code:
        """The code that a record describes."""
        key = spec.k, spec.m, spec.matrix
        with self._lock:
            if key not in self._codes:
                matrix = np.frombuffer(spec.matrix, np.uint8).reshape(spec.m, spec.k)
                self._codes[key] = erasure.Code.from_matrix(matrix, spec.k, spec.m)
            return self._codes[key]

    @staticmethod
    def expected(want: Want, fragment: int, row: int) -> int:
        """The CRC32C that the record holds for a block."""
        index = want.shape.crc_index(fragment, row)
        return int.from_bytes(want.stripe.crc[4 * index : 4 * index + 4], "little")

    def _read(self, reading: Reading, start: int, into: Bytes) -> list[bool]:
        source, rows = reading.source, reading.rows
        if not self.answers(source.target):
            return [False] * len(rows)
        began = reading.begin()
        try:
            self._targets[source.target].get_into(source.path, into.data, start=start)
        except TargetError as error:
            self._note(source, error)
            return [False] * len(rows)
        self.patience.learn(into.size, time.monotonic() - began)
        good = [self._is_good(source, row, start, into) for row in rows]
        if not all(good):
            self._observer(FragmentDamaged(source.target, source.path, f"{good.count(False)} blocks fail their digest"))
        return good

    def _is_good(self, source: Fragment, row: int, start: int, into: Bytes) -> bool:
        low, high = source.want.shape.block_range(source.number, row)
        return erasure.crc32c(into[low - start : high - start]) == self.expected(source.want, source.number, row)

    def _note(self, source: Fragment, error: TargetError) -> None:
        if not error.out_of_reach:
            self._observer(FragmentDamaged(source.target, source.path, error.message))
            return
        with self._lock:
            first = source.target not in self._silent
            self._silent.setdefault(source.target, error)
        if first:
            self._observer(TargetFailed("load", source.target, error.message))
