"""A checkpoint restored from a store that fails, and compared with digests that the healthy store has of it.

The digests are those of its records: a CRC-32C for each block of data, taken from the tensors' bytes when they were
encoded: what a decoder gives is compared with what went into the encoder. A record is what its SHA-256 in the index
says, the index what the manifest says, and that is sealed. All of each shard is compared, its header too; stripe by
stripe, so that memory is bounded by the store's window.
"""

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import erasure
from ckptstore.arguments import is_number
from ckptstore.buffers import Bytes
from ckptstore.errors import CorruptError, UsageError
from ckptstore.load.fetch import Fetcher
from ckptstore.load.plan import Shard, Want, whole_stripe
from ckptstore.load.reader import verified
from ckptstore.source import Source

Stripes = Mapping[str, Sequence[int]]
"""Of each shard, by its id, the numbers of the stripes that are restored."""

__all__ = ["Stripes", "Tally", "bytes_of", "check_sample", "choose_stripes", "restore_stripes", "shards_of"]


@dataclass
class Tally:
    """What was restored and compared."""

    bytes: int = 0
    blocks: int = 0


def shards_of(source: Source) -> list[Shard]:
    """All shards of a checkpoint, their records fetched at once."""
    numbers = range(len(source.references))
    source.fetch_records(numbers)
    return [source.shard(number) for number in numbers]


def check_sample(sample: float, scratch: Path | None) -> float:
    """`sample` if it is a part of the data, else `UsageError`: of none of it nothing could be said."""
    if not (is_number(sample) and 0 < sample <= 1):
        message = f"sample = {sample!r}: a number above 0 and at most 1, which is all bytes, is wanted"
        raise UsageError(message, hint="sample=0.1 restores a tenth", key="sample")
    if scratch is not None and sample < 1:
        message = "a sample restores no whole files, so it can't go into a scratch folder"
        raise UsageError(message, hint="leave out the sample or the scratch folder", key="sample")
    return float(sample)


def choose_stripes(shards: Sequence[Shard], fraction: float, seed: str) -> Stripes:
    """All stripes, or about a `fraction` of them, drawn by `seed`; of what has any, one at least."""
    drawn = {
        (shard.record.shard_id, number): _draw(seed, shard.record.shard_id, number)
        for shard in shards
        for number in range(len(shard.record.stripes))
    }
    least = min(drawn.values(), default=0.0)
    return {
        shard.record.shard_id: [
            number
            for number in range(len(shard.record.stripes))
            if drawn[shard.record.shard_id, number] < fraction or drawn[shard.record.shard_id, number] == least
        ]
        for shard in shards
    }


def bytes_of(shards: Sequence[Shard], stripes: Stripes) -> int:
    """How many bytes of the shards these stripes hold."""
    return sum(shard.record.stripes[number].length for shard in shards for number in stripes[shard.record.shard_id])


def restore_stripes(
    source: Source,
    shards: Sequence[Shard],
    expected: Sequence[Shard],
    stripes: Stripes,
    folder: Path | None = None,
    tell: Callable[[int], None] = lambda _: None,
) -> Tally:
    """Restore `stripes` of `shards`, to memory or into `folder`; compare each block with its digest in `expected`.

    `shards` and `expected` are the same shards, by way of the failing and of the healthy store. `tell` hears how many
    bytes more are through. Raises `DataLost`, `OutOfReach`, `CorruptError`, also where a digest differs.
    """
    opened = source.opened
    by_id = {shard.record.shard_id: shard for shard in expected}
    tally = Tally()
    for stripe in verified(list(_wants(shards, stripes)), source.fetcher, opened.buffers):
        want = stripe.want
        truth = whole_stripe(by_id[want.shard.record.shard_id], want.number)
        data = stripe.data if folder is None else _through_file(folder, want, stripe.data)
        tally.blocks += _compare(truth, data)
        tally.bytes += want.shape.length
        tell(want.shape.length)
    for path in sorted(folder.iterdir()) if folder else ():
        _sync(path)
    return tally


def _wants(shards: Sequence[Shard], stripes: Stripes) -> Iterator[Want]:
    for shard in shards:
        for number in stripes[shard.record.shard_id]:
            yield whole_stripe(shard, number)


def _compare(want: Want, data: Bytes) -> int:
    """How many blocks were compared. Raises `CorruptError` for one that isn't what was saved."""
    shape = want.shape
    for fragment, row in sorted(want.blocks):
        start, stop = (fragment * shape.span + edge for edge in shape.block_range(fragment, row))
        if erasure.crc32c(data[start:stop]) != Fetcher.expected(want, fragment, row):
            where = f"shard {want.shard.record.shard_id}, stripe {want.number}, bytes {start} to {stop}"
            message = f"{where}: what was restored differs from the digest recorded when it was saved"
            raise CorruptError(message, hint="run: ckpt verify --read-data")
    return len(want.blocks)


def _through_file(folder: Path, want: Want, data: Bytes) -> Bytes:
    """Write a stripe at its place in its shard's file, and read it back."""
    path = folder / f"{want.shard.record.shard_id}.safetensors"
    with path.open("r+b" if path.exists() else "x+b") as file:
        file.seek(want.stripe.offset)
        file.write(data.data)
        file.seek(want.stripe.offset)
        return np.frombuffer(file.read(data.size), np.uint8)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _draw(seed: str, shard_id: str, stripe: int) -> float:
    """A number from 0 to 1 that is the same for the same seed."""
    digest = hashlib.sha256(f"drill/{seed}/{shard_id}/{stripe}".encode()).digest()
    return int.from_bytes(digest[:8], "big") / 2**64
