"""A checkpoint open for reading: its index, and its shard records as they are needed."""

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar

import numpy as np

from ckptstore.buffers import BufferPool, Bytes
from ckptstore.dtypes import OBJECT
from ckptstore.errors import CkptStoreError, CorruptError, DataLost, NotFoundError
from ckptstore.events import Observer, ignore
from ckptstore.load.documents import fetch_document, fetch_record
from ckptstore.load.fetch import Fetcher
from ckptstore.load.plan import Request, Shard, box_runs, whole_shard
from ckptstore.load.reader import read, verified
from ckptstore.opened import Opened
from ckptstore.protocolerrors import protocol_errors
from manifests import Chunk, Index, Manifest, ShardRecord, ShardReference, TensorEntry, paths

Address = tuple[str, tuple[int, ...]]
"""A chunk of a tensor (its key and offsets) or a byte object (its key and no offsets)."""

T = TypeVar("T")

__all__ = ["Address", "Source", "batches"]


@dataclass(eq=False)
class Source:
    """Reads from one checkpoint; a target found out of reach is asked no more while it is open.

    `references`: by position, those to the shards that are read from; the index's, unless it came without them.
    """

    opened: Opened
    manifest: Manifest
    index: Index
    observer: Observer = ignore
    references: Mapping[int, ShardReference] | Sequence[ShardReference] = ()
    _shards: dict[int, Shard] = field(default_factory=dict)
    _entries: dict[int, dict[Address, TensorEntry]] = field(default_factory=dict)

    @classmethod
    def open(cls, opened: Opened, manifest: Manifest, observer: Observer = ignore) -> "Source":
        """Fetch the index. Raises `CorruptError`, `OutOfReach`; like all reads `NotFoundError` if pruned meanwhile."""
        with _unless_pruned(opened, manifest):
            index = fetch_document(Index, manifest.copies[0].index, opened.targets, observer)
        return cls(opened, manifest, index, observer, index.shards)

    @cached_property
    def fetcher(self) -> Fetcher:
        """What reads fragments."""
        return Fetcher(self.opened.targets, self.opened.executor, self.observer, self.opened.patience)

    @cached_property
    def aliases(self) -> dict[str, str]:
        """Keys of tied tensors, each with the key that its tensor is stored under."""
        aliases: dict[str, str] = (self.index.structure or {}).get("aliases", {})
        return aliases

    def shard(self, number: int) -> Shard:
        """The shard at a position in the index, its record fetched once."""
        if number not in self._shards:
            self.fetch_records([number])
        return self._shards[number]

    def fetch_records(self, numbers: Sequence[int]) -> None:
        """Fetch the records of several shards at once."""
        wanted = sorted(set(numbers) - set(self._shards))
        with _unless_pruned(self.opened, self.manifest):
            records = [*self.opened.executor.map(self._record, wanted)]
        for number, record in zip(wanted, records, strict=True):
            self._shards[number] = Shard(self.manifest.run, record)
            self._entries[number] = {(entry.fqn, tuple(entry.range or ())): entry for entry in record.tensors}

    def locate(self, addresses: Sequence[Address]) -> list[tuple[Shard, TensorEntry]]:
        """The shard and the tensor entry of each chunk or object."""
        chunks = self.chunks(addresses)
        self.fetch_records([chunk.shard for chunk in chunks])
        found = zip(addresses, chunks, strict=True)
        return [(self._shards[chunk.shard], self._entry(fqn, chunk)) for (fqn, _), chunk in found]

    def chunks(self, addresses: Sequence[Address]) -> list[Chunk]:
        """Where the index says that each chunk or object is; asks no target."""
        wanted: dict[str, set[tuple[int, ...]]] = {}
        for fqn, offsets in addresses:
            wanted.setdefault(fqn, set()).add(offsets)
        found = {fqn: self.index.tensors.find(fqn, offsets) for fqn, offsets in wanted.items()}
        return [found[fqn][offsets] for fqn, offsets in addresses]

    def read(self, requests: Sequence[Request]) -> None:
        """See `load.reader.read`."""
        with _unless_pruned(self.opened, self.manifest):
            read(requests, self.fetcher, self.opened.buffers, self.observer)

    def stripes(self, number: int, buffers: BufferPool) -> Generator[Bytes, None, None]:
        """All of a shard's stream, verified, a stripe at a time: each is there until the next one is asked for.

        `buffers`: none that whoever takes the stripes waits for as well. Raises as `read`.
        """
        with _unless_pruned(self.opened, self.manifest):
            for stripe in verified(whole_shard(self.shard(number)), self.fetcher, buffers):
                yield stripe.data

    def read_object(self, fqn: str, limit: int | None = None) -> bytes:
        """The bytes of a byte object. Raises `CorruptError` where a tensor is stored, or more than `limit` bytes."""
        if (dtype := self._dtype(fqn)) != OBJECT:
            message = f"{fqn!r:.100} is stored as a tensor of {dtype}, not as an object"
            raise CorruptError(message, hint="run: ckpt verify", key=fqn)
        ((shard, entry),) = self.locate([(fqn, ())])
        if limit is not None and entry.nbytes > limit:
            message = f"object {fqn!r:.100} is recorded as {entry.nbytes} bytes; at most {limit} are read"
            raise CorruptError(message, hint="run: ckpt verify", key=fqn)
        into = np.empty(entry.nbytes, np.uint8)
        self.read([Request(shard, entry.offset, box_runs([entry.nbytes], 1, [0], [entry.nbytes]), into)])
        return into.tobytes()

    def _dtype(self, fqn: str) -> str:
        return self.index.tensors.dtype[self.index.tensors.position(fqn)]

    def _record(self, number: int) -> ShardRecord:
        return fetch_record(self.references[number], self.opened.targets, self.observer)

    def _entry(self, fqn: str, chunk: Chunk) -> TensorEntry:
        """What the record says of a chunk: destinations were sized by the index, so both must say the same."""
        dtype = self._dtype(fqn)
        entry = self._entries[chunk.shard].get((self.aliases.get(fqn, fqn), chunk.offsets))
        if entry is None or entry.dtype != dtype or (dtype != OBJECT and tuple(entry.shape) != chunk.sizes):
            shard_id = self.references[chunk.shard].shard_id
            message = f"shard {shard_id} doesn't hold {fqn!r} at {list(chunk.offsets)} as the index says it does"
            raise CorruptError(message, hint="run: ckpt verify", key=fqn)
        return entry


@contextmanager
def _unless_pruned(opened: Opened, manifest: Manifest) -> Iterator[None]:
    """Raise `NotFoundError` in the place of what a reader meets whose checkpoint was pruned while it read.

    A save is said to have ended before anything of it is removed, so whoever misses something of it finds that out.
    """
    try:
        yield
    except (CorruptError, DataLost) as error:
        if not _has_ended(opened, manifest):
            raise
        name = manifest.name or paths.save_name(manifest.session, manifest.ordinal)
        message = f"{name} of run {manifest.run} was deleted and pruned while it was read"
        hint = "load the latest; a longer grace period (ckpt prune --grace) lets slow readers finish"
        raise NotFoundError(message, hint=hint, run=manifest.run) from error


def _has_ended(opened: Opened, manifest: Manifest) -> bool:
    try:
        with protocol_errors():
            history = opened.group.history(manifest.run)
    except CkptStoreError:
        return False  # what was met is told, for no more is known
    return (manifest.session, manifest.ordinal) in history.collected


def batches(items: Iterable[T], weight: Callable[[T], int], limit: int) -> Iterator[list[T]]:
    """Groups of items, in order, that weigh at most `limit` together, or one item that alone weighs more."""
    batch: list[T] = []
    total = 0
    for item in items:
        if batch and total + weight(item) > limit:
            yield batch
            batch, total = [], 0
        batch.append(item)
        total += weight(item)
    if batch:
        yield batch
