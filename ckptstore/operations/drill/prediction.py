"""How long a restore should take: from a short read of the same targets without faults, or from earlier drills."""

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median

from ckptstore.errors import CkptStoreError
from ckptstore.load.plan import Shard
from ckptstore.opened import Opened
from ckptstore.operations.drill.earlier import read_earlier
from ckptstore.operations.drill.report import Prediction
from ckptstore.operations.drill.restoring import bytes_of, choose_stripes, restore_stripes, shards_of
from ckptstore.source import Source
from manifests import Manifest

PROBE = 64 << 20
"""Bytes that are read to learn the pace: enough to fill the window's first stripes, little beside a checkpoint."""

REMEMBERED = 20
"""Earlier drills, the newest ones, whose pace is taken where nothing can be measured."""

__all__ = ["from_history", "measure"]


def measure(opened: Opened, manifest: Manifest, opening: float, seed: str) -> Prediction:
    """Read some of a checkpoint, of a store without faults that took `opening` seconds to open."""
    began = time.monotonic()
    try:
        source = Source.open(opened, manifest)
        shards = shards_of(source)
        documents = time.monotonic() - began
        stripes = choose_stripes(shards, _fraction(shards), f"probe/{seed}")
        began = time.monotonic()
        read = restore_stripes(source, shards, shards, stripes).bytes
    except CkptStoreError as error:
        return Prediction("none", why=error.message)
    seconds = max(time.monotonic() - began, 1e-9)
    if not read:
        return Prediction("none", why="the checkpoint holds no bytes")
    return Prediction("measured", opening, documents, read / seconds, read)


def from_history(folder: Path | None, store: str, run: str, why: str) -> Prediction:
    """The median pace of what earlier drills of this run restored, as their reports in `folder` say."""
    found = sorted(_paces(folder, store, run))[-REMEMBERED:]
    if not found:
        return Prediction("none", why=why)
    rate = median(rate for _, rate, _ in found)
    return Prediction("history", rate=rate, bytes=sum(nbytes for _, _, nbytes in found), why=why)


def _fraction(shards: Sequence[Shard]) -> float:
    total = bytes_of(shards, {shard.record.shard_id: range(len(shard.record.stripes)) for shard in shards})
    return min(PROBE / total, 1.0) if total else 1.0


def _paces(folder: Path | None, store: str, run: str) -> Iterator[tuple[str, float, int]]:
    """(when, bytes a second, bytes) of each earlier drill that restored anything."""
    for _, earlier in read_earlier(folder) if folder else ():
        if isinstance(earlier, str) or (earlier.store, earlier.run) != (store, run):
            continue
        results = [result for result in earlier.results if result.state == "restored"]
        nbytes, seconds = sum(result.bytes for result in results), sum(result.seconds for result in results)
        if nbytes and seconds:
            yield earlier.began, nbytes / seconds, nbytes
