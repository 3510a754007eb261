"""`ckpt bench`: how fast this store saves, loads and repairs, on its own targets, by one process on this machine.

It saves random bytes into runs of its own and takes away all that it put. Other runs are neither read nor changed.
"""

import re
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import median
from typing import TypeVar

import numpy as np

from ckptstore.buffers import Bytes
from ckptstore.commit import About, Commit, shard_saver
from ckptstore.config import Config
from ckptstore.errors import TargetError, UsageError
from ckptstore.events import Observer, Progress, ignore
from ckptstore.load.plan import whole_shard
from ckptstore.load.reader import verified
from ckptstore.opened import Opened
from ckptstore.operations.drill.faults import Faults, open_with
from ckptstore.operations.drill.restoring import shards_of
from ckptstore.operations.repair import repair
from ckptstore.operations.runs import list_runs
from ckptstore.save.stream import Piece, lay_out
from ckptstore.source import Source
from ckptstore.targets import Target
from manifests import Manifest, TableBuilder, paths

PIECE = 64 << 20
"""Bytes of each tensor that is saved: all of them are copied from one buffer, so no more memory is taken."""

_NAME = re.compile(r"ckpt-bench-[0-9a-f]{12}")
_LARGEST = 1 << 44

T = TypeVar("T")

__all__ = ["BenchReport", "Timed", "bench", "clean", "leftovers", "others"]


@dataclass
class Timed:
    """One kind of work: `bytes` of state in each of `seconds`."""

    what: str
    bytes: int
    seconds: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        """Seconds."""
        return median(self.seconds)

    @property
    def rate(self) -> float:
        """Bytes of state a second, by the median."""
        return self.bytes / max(self.median, 1e-9)


@dataclass
class BenchReport:
    """What was measured; `left_out`: what wasn't, and why; `failed`: what couldn't be taken away again, and why."""

    size: int
    rounds: int
    timed: list[Timed] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)

    def timing(self, what: str) -> Timed:
        """The times of one kind of work; none yet where it is new."""
        for each in self.timed:
            if each.what == what:
                return each
        self.timed.append(Timed(what, self.size))
        return self.timed[-1]


def bench(config: Config, *, size: int = 256 << 20, rounds: int = 3, observer: Observer = ignore) -> BenchReport:
    """Save `size` bytes, load them, load them with m targets lost, repair one target's share; `rounds` times.

    Raises `UsageError` for sizes and rounds that can't be, and what a save or a load raises. Whatever happens, what was
    put is taken away, unless the process is killed: then `leftovers` tells of it.
    """
    if not 1 <= size <= _LARGEST or rounds < 1:
        raise UsageError(f"{size} bytes in {rounds} rounds: 1 byte to 16 TiB and 1 round or more are wanted")
    report = BenchReport(size, rounds)
    for _ in range(rounds):
        with _own_run(config, report) as (opened, run):
            _measure(opened, run, report)
        observer(Progress("bench", 1, rounds))
    return report


def others(opened: Opened) -> list[str]:
    """Runs of benchmarks that go on, or were killed, for one request a target: what is killed leaves votes."""
    return [run for run in list_runs(opened) if _NAME.fullmatch(run)]


def leftovers(opened: Opened) -> list[str]:
    """The same, and those of which only data is left: every folder of data is looked at, 256 of a store in use."""
    found = opened.on_targets(lambda target: [run for part in _parts(target) for run in target.list_folders(part)])
    data = {run for runs in found.values() if not isinstance(runs, TargetError) for run in runs}
    return sorted({*others(opened), *(run for run in data if _NAME.fullmatch(run))})


def clean(opened: Opened) -> dict[str, str]:
    """Remove the leftovers of benchmarks that were killed; returns what couldn't be removed, and why."""
    failed: dict[str, str] = {}
    for run in leftovers(opened):
        failed |= _remove(opened, run)
    return failed


@contextmanager
def _own_run(config: Config, report: BenchReport) -> Iterator[tuple[Opened, str]]:
    """A run of one round, in an open store of its own: what is under way has ended before it is removed."""
    run = f"ckpt-bench-{secrets.token_hex(6)}"
    opened = Opened(config)
    try:
        yield opened, run
    finally:
        opened.close()
        after = Opened(config)
        try:
            report.failed |= _remove(after, run)
        finally:
            after.close()


def _remove(opened: Opened, run: str) -> dict[str, str]:
    """Every object of a run: nobody else knows of it. Its votes go last, so that `leftovers` finds what stays."""
    replies = opened.on_targets(lambda target: _remove_from(target, run))
    failed: dict[str, str] = {}
    for name, reply in replies.items():
        found = {"": reply} if isinstance(reply, TargetError) else reply
        failed |= {f"{name}: {path}".removesuffix(": "): error.message for path, error in found.items()}
    return failed


def _remove_from(target: Target, run: str) -> Mapping[str, TargetError]:
    prefixes = [*(f"{part}{run}/" for part in _parts(target)), f"{paths.RUNS}{run}/"]
    for prefix in prefixes:
        failed = target.delete([entry.path for entry in target.list(prefix)])
        if failed:
            return failed
    return {}


def _parts(target: Target) -> list[str]:
    """The folders that data of all runs is in."""
    return [f"data/{part}/" for part in target.list_folders("data/")]


def _measure(opened: Opened, run: str, report: BenchReport) -> None:
    manifest = _timed(report, "save", lambda: _save(opened, run, report.size))
    lost = tuple(place.target for place in opened.config.places)[: _survives(manifest)]
    _load(report, opened.config, manifest, "load", Faults())
    if lost:
        _load(report, opened.config, manifest, f"load, {len(lost)} targets lost", Faults(lost=lost))
    else:
        report.left_out["load, targets lost"] = "what was saved survives no loss"
    _repair(opened, run, manifest, report)


def _survives(manifest: Manifest) -> int:
    return max(manifest.tolerance.targets, 0) if manifest.tolerance else 0


def _timed(report: BenchReport, what: str, work: Callable[[], T]) -> T:
    began = time.monotonic()
    result = work()
    report.timing(what).seconds.append(time.monotonic() - began)
    return result


def _save(opened: Opened, run: str, size: int) -> Manifest:
    places = opened.ready_to_save()
    data = np.random.default_rng(0).integers(0, 256, min(size, PIECE), np.uint8)
    lengths = [min(PIECE, size - at) for at in range(0, size, PIECE)]
    pieces = [Piece(None, f"bench.{i:06d}", "uint8", [length], length) for i, length in enumerate(lengths)]
    save = Commit(opened, run, places)
    save.begin()

    def bytes_of(piece: Piece) -> Bytes:
        return data[: piece.nbytes]

    saved = shard_saver(opened, run, places).save(lay_out(pieces), bytes_of, rank=0)
    table = TableBuilder()
    for piece in pieces:
        table.add(piece.fqn, piece.dtype, piece.shape, [((0,), piece.shape, 0)])
    return save.finish([saved], table.build(), About(f"bench-{save.ordinal}", f"bench-{save.ordinal}", None))


def _load(report: BenchReport, config: Config, manifest: Manifest, what: str, faults: Faults) -> None:
    """Read and verify all of it, in clients of its own: connections are made anew, as a restarted job does."""
    with open_with(config, faults) as reading:

        def read() -> None:
            source = Source.open(reading.opened, manifest)
            wants = [want for shard in shards_of(source) for want in whole_shard(shard)]
            for _ in verified(wants, source.fetcher, reading.opened.buffers):
                pass

        _timed(report, what, read)


def _repair(opened: Opened, run: str, manifest: Manifest, report: BenchReport) -> None:
    """Lose what one target has of it, and repair: on a store that is well, where a repair concerns this run alone."""
    unwell = [name for name, standing in opened.group.standings.items() if standing.state != "valid"]
    if unwell or not _survives(manifest):
        report.left_out["repair"] = f"{', '.join(unwell) or 'the store'} is not well: see ckpt doctor"
        return
    target = opened.targets[opened.config.places[0].target]
    target.delete(_fragments_on(opened, run, manifest, target.name))
    _timed(report, "repair of one target", lambda: repair(opened, run))


def _fragments_on(opened: Opened, run: str, manifest: Manifest, name: str) -> Sequence[str]:
    shards = shards_of(Source.open(opened, manifest))
    prefixes = [paths.shard_data_prefix(run, shard.record.shard_id) for shard in shards]
    return [entry.path for prefix in prefixes for entry in opened.targets[name].list(prefix)]
