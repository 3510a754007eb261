"""One stripe being read: its wanted blocks, fetched and checked at the door, and rebuilt where they don't come.

A block is *good* once its CRC32C has matched; absent, late, short and corrupt are all just erasures, found before
decoding, since a decoder never detects damage. A row is the blocks of one number over all fragments: any k good
blocks of a row give every other. Blocks past a short fragment's end are zeros by definition, and good.
"""

import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import wait
from itertools import groupby

import numpy as np

import erasure
from ckptstore.buffers import Bytes
from ckptstore.errors import CorruptError, DataLost, OutOfReach
from ckptstore.load.fetch import Fetcher, Fragment, Reading
from ckptstore.load.plan import Want

Block = tuple[int, int]

__all__ = ["StripeRead"]


class StripeRead:
    """Reads one stripe into `buffer` (n spans, data fragments first). Start, then finish; then `data` is verified."""

    def __init__(self, want: Want, buffer: Bytes, fetcher: Fetcher) -> None:
        self.want = want
        self.buffer = buffer
        self._fetcher = fetcher
        self._shape = want.shape
        self._good: set[Block] = set()
        self._erased: set[Block] = set()
        self._running: list[Reading] = []
        self._rows = {block: self._wanted_in(block) for block in sorted({block for _, block in want.blocks})}
        for fragment in range(self._shape.n):
            self._prepare(fragment)

    @property
    def data(self) -> Bytes:
        """The stripe's bytes; only the blocks wanted hold anything."""
        return self.buffer[: self._shape.length]

    def stored(self, fragment: int) -> Bytes:
        """A wanted fragment's bytes as they are stored."""
        return self._span(fragment)[: self._shape.stored(fragment)]

    def start(self) -> None:
        """Ask for the blocks that should do: the wanted ones, or k of a row where one is known not to come."""
        runs = defaultdict(set)
        for row in self._rows:
            for fragment in self._choose(row):
                runs[fragment].add(row)
        for fragment, rows in runs.items():
            for run in _consecutive(sorted(rows)):
                self._submit(fragment, run)

    def finish(self, *, hurried: bool = False) -> bool:
        """Wait, ask for others while blocks fail, rebuild. Raises `DataLost`, `OutOfReach`.

        False where it is `hurried` and a read takes much longer than reads do: `hedge` then, or finish without hurry.
        """
        while self._running:
            if hurried and self._meets_late():
                return False
            wait([reading.future for reading in self._running])
            self._collect()
            self.start()
        self._rebuild()
        return True

    def hedge(self, buffer: Bytes) -> "StripeRead":
        """The same read into another buffer, to be started: the good blocks copied, those under way left out.

        Another buffer, since a late read may write into this one at any time.
        """
        self._collect()
        other = StripeRead(self.want, buffer, self._fetcher)
        for fragment, row in self._good:
            if row >= self._shape.blocks(fragment):
                continue  # zeros, there as well
            start, stop = self._shape.block_range(fragment, row)
            other._span(fragment)[start:stop] = self._span(fragment)[start:stop]
        other._good |= self._good
        other._erased |= self._erased
        for reading in self._running:
            other._erased |= {(reading.source.number, row) for row in reading.rows}
        return other

    def abandon(self) -> None:
        """Wait for what is under way, so that the buffer can be used again."""
        wait([reading.future for reading in self._running])

    def let_go(self, give: Callable[[Bytes], None]) -> None:
        """Give the buffer away when what is under way has ended, whenever that is."""
        lock, left = threading.Lock(), len(self._running)
        if not left:
            give(self.buffer)

        def ended(_: object) -> None:
            nonlocal left
            with lock:
                left -= 1
                last = left == 0
            if last:
                give(self.buffer)

        for reading in self._running:
            reading.future.add_done_callback(ended)

    def _meets_late(self) -> bool:
        """Wait until all reads have ended, or one is late and may be hedged."""
        while True:
            limits = [(reading, self._fetcher.patience.seconds(reading.nbytes)) for reading in self._running]
            known = [(reading, limit) for reading, limit in limits if limit is not None and not reading.future.done()]
            soonest = min((reading.left(limit) for reading, limit in known), default=None)
            wait([reading.future for reading in self._running], soonest if soonest is None else max(soonest, 0.0))
            if all(reading.future.done() for reading in self._running):
                return False
            late = sum(reading.is_late(limit) for reading, limit in known)
            if late:
                return self._fetcher.patience.may_hedge(late)

    def _prepare(self, fragment: int) -> None:
        shape = self._shape
        stored = shape.stored(fragment)
        self._span(fragment)[stored:] = 0
        at = self.want.stripe.at[fragment]
        for row in self._rows:
            if row >= shape.blocks(fragment) and stored < shape.span:
                self._good.add((fragment, row))
            elif at is None or not self._fetcher.answers(self._name(at)):
                self._erased.add((fragment, row))

    def _wanted_in(self, row: int) -> set[int]:
        return {fragment for fragment, block in self.want.blocks if block == row}

    def _choose(self, row: int) -> list[int]:
        """Fragments to ask for in this row; none when it is settled."""
        wanted = self._rows[row]
        if all((fragment, row) not in self._erased for fragment in wanted):
            return [fragment for fragment in wanted if (fragment, row) not in self._good]
        good = [fragment for fragment in range(self._shape.n) if (fragment, row) in self._good]
        usable = [f for f in range(self._shape.n) if (f, row) not in self._erased and (f, row) not in self._good]
        usable.sort(key=lambda fragment: (fragment not in wanted, fragment))
        short = self._shape.k - len(good)
        if short > len(usable):
            self._give_up(row, len(good) + len(usable))
        return usable[: max(short, 0)]

    def _submit(self, fragment: int, rows: range) -> None:
        at = self.want.stripe.at[fragment]
        assert at is not None, "an absent fragment is erased from the start"
        source = Fragment(self.want, fragment, self._name(at))
        start, stop = self._bounds(fragment, rows)
        into = self._span(fragment)[start:stop]
        self._running.append(self._fetcher.submit(source, rows, start, into))

    def _collect(self) -> None:
        """Take in the reads that have ended."""
        ended = [reading for reading in self._running if reading.future.done()]
        self._running = [reading for reading in self._running if reading not in ended]
        for reading in ended:
            for row, is_good in zip(reading.rows, reading.future.result(), strict=True):
                (self._good if is_good else self._erased).add((reading.source.number, row))

    def _rebuild(self) -> None:
        """Decode rows that lack wanted blocks, neighbouring rows with one loss pattern in one call."""
        for (present, lost), rows in groupby(self._rows, self._pattern):
            if lost:
                for run in _consecutive(list(rows)):
                    self._decode(present, lost, run)

    def _pattern(self, row: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        lost = tuple(sorted(f for f in self._rows[row] if (f, row) not in self._good))
        present = tuple(f for f in range(self._shape.n) if (f, row) in self._good)[: self._shape.k]
        return present, lost

    def _decode(self, present: tuple[int, ...], lost: tuple[int, ...], rows: range) -> None:
        start, stop = rows.start * self._shape.block, min(rows.stop * self._shape.block, self._shape.span)
        code = self._fetcher.code(self.want.shard.record.codes[self.want.stripe.code])
        code.reconstruct(
            {fragment: self._span(fragment)[start:stop] for fragment in present},
            {fragment: self._span(fragment)[start:stop] for fragment in lost},
        )
        for fragment in lost:
            for row in rows:
                self._check_rebuilt(fragment, row)

    def _check_rebuilt(self, fragment: int, row: int) -> None:
        start, stop = self._shape.block_range(fragment, row)
        if erasure.crc32c(self._span(fragment)[start:stop]) != self._fetcher.expected(self.want, fragment, row):
            message = f"{self._where(row)}: fragment {fragment}, rebuilt from good blocks, fails its digest"
            raise CorruptError(message, hint="the record's code or digests are wrong; run: ckpt verify --read-data")
        self._good.add((fragment, row))

    def _give_up(self, row: int, left: int) -> None:
        unreachable = sum(
            at is not None and (fragment, row) in self._erased and not self._fetcher.answers(self._name(at))
            for fragment, at in enumerate(self.want.stripe.at)
        )
        message = f"{self._where(row)}: {left} of {self._shape.n} fragments are good, {self._shape.k} are needed"
        if left + unreachable >= self._shape.k:
            raise OutOfReach(f"{message}; {unreachable} are on targets out of reach", hint="run: ckpt doctor")
        raise DataLost(message, hint="run: ckpt verify --read-data")

    def _span(self, fragment: int) -> Bytes:
        return self.buffer[fragment * self._shape.span : (fragment + 1) * self._shape.span]

    def _bounds(self, fragment: int, rows: range) -> tuple[int, int]:
        return self._shape.block_range(fragment, rows[0])[0], self._shape.block_range(fragment, rows[-1])[1]

    def _name(self, at: int) -> str:
        return self.want.shard.record.targets[at]

    def _where(self, row: int) -> str:
        return f"shard {self.want.shard.record.shard_id}, stripe {self.want.number}, block {row}"


def _consecutive(rows: list[int]) -> Iterator[range]:
    edges = np.flatnonzero(np.diff(rows) != 1) + 1
    for group in np.split(np.array(rows), edges):
        yield range(int(group[0]), int(group[-1]) + 1)
