"""One shard on its way out: stripes are filled, encoded and digested while hot, and their fragments uploaded.

    fill (copy of the state) → encode + CRC → n puts      each stripe has a buffer of its own; the window bounds them

The save goes on while what is stored survives as many losses as it must.
"""

import secrets
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field

import erasure
from ckptstore.buffers import BufferPool, Bytes
from ckptstore.deadline import Deadline
from ckptstore.errors import AccessDenied, ConflictError, SaveStalled, ToleranceError
from ckptstore.events import Observer, Progress, ignore
from ckptstore.placement import Place, Survives, place_stripe, survives
from ckptstore.save.copies import copies_wanted, put_copies, too_few_took
from ckptstore.save.fill import Filler, Sources
from ckptstore.save.stream import Stream
from ckptstore.save.upload import Uploader
from ckptstore.targets.base import Target
from ckptstore.tolerance import record_survives, weakest
from manifests import CodeSpec, Reference, ShardRecord, ShardReference, Stripe, pack, paths

__all__ = ["OpenShard", "SavedShard", "ShardSaver"]


Take = Callable[[int, Bytes], Bytes]
"""As `Filler.take`: the next so many bytes with zeros after them, as long as the room given."""


@dataclass(frozen=True)
class SavedShard:
    """A shard that is durable: what the index needs of it. `missing`: fragments that each target failed to take."""

    reference: ShardReference
    survives: Survives
    missing: dict[str, int]


@dataclass
class ShardSaver:
    """Writes shards of one run. `places` are the targets found writable; a record lists them in this order."""

    run: str
    code: erasure.Code
    fragment_bytes: int
    targets: Mapping[str, Target]
    places: Sequence[Place]
    require_tolerance: int
    buffers: BufferPool
    executor: Executor
    observer: Observer = field(default=ignore)
    deadline: Deadline = field(default_factory=Deadline)

    def save(self, stream: Stream, sources: Sources, rank: int) -> SavedShard:
        """Write every stripe, then the record.

        Raises `ToleranceError` when too little of it could be stored, `TargetsFull` or `AccessDenied` where that is
        the reason, `ConflictError` where what was put has been removed, and `SaveStalled` when the deadline is over.
        What was put is removed where too little could be, as far as that goes, so that it fills no target until
        somebody prunes.
        """
        shard = OpenShard(self, stream, rank)
        try:
            try:
                shard.write_stripes(Filler(stream, sources))
            finally:
                shard.finish()
            return shard.seal()
        except (ToleranceError, AccessDenied, ConflictError):
            shard.discard()
            raise


class OpenShard:
    """A shard while it is written: stripes one by one, then its record."""

    def __init__(self, saver: ShardSaver, stream: Stream, rank: int) -> None:
        self.saver = saver
        self.stream = stream
        self.rank = rank
        self.shard_id = secrets.token_hex(16)
        self.uploads = Uploader(saver.targets, saver.places, saver.executor, saver.observer)
        self.stripes: list[Stripe] = []
        self._domains = {place.target: place.domain for place in saver.places}

    def write_stripes(self, filler: Filler) -> None:
        """Write all of the stream."""
        stripe_bytes = self.saver.code.k * self.saver.fragment_bytes
        for offset, length in erasure.cut(self.stream.length, stripe_bytes):
            self.write_stripe(len(self.stripes), offset, length, filler.take)

    def write_stripe(self, number: int, offset: int, length: int, take: Take) -> None:
        """Write one stripe, the next or one that has its place already; its puts go on in the background."""
        self._check_living(number)
        shape = self._shape(length)
        buffer = self._buffer(shape.n * shape.span)
        try:
            fragments, crc = self._encode(take, shape, buffer)
        except BaseException:
            self.saver.buffers.give(buffer)
            raise
        at: list[int | None] = [None] * shape.n
        stripe = Stripe(offset=offset, length=length, stored_length=length, at=at, crc=crc)
        self.stripes[number : number + 1] = [stripe]
        self._send(number, shape, fragments, at, buffer)

    def finish(self) -> None:
        """Wait for the puts, as long as the save may take. Raises `SaveStalled`."""
        late = self.uploads.finish(self.saver.deadline.left)
        if late:
            raise self._stalled(f"puts to {', '.join(sorted(late))} have not ended")

    def _buffer(self, size: int) -> Bytes:
        try:
            return self.saver.buffers.take(size, self.saver.deadline.left)
        except TimeoutError as error:
            raise self._stalled(str(error)) from None

    def _stalled(self, why: str) -> SaveStalled:
        message = f"rank {self.rank} gave up its part of the save after {self.saver.deadline.seconds:.0f} s: {why}"
        return SaveStalled(message, hint="run: ckpt doctor", rank=self.rank)

    def _encode(self, take: Take, shape: erasure.StripeShape, buffer: Bytes) -> tuple[list[Bytes], bytes]:
        """The stripe's fragments, in the buffer or where the state keeps them, and its CRC table."""
        rows = [buffer[i * shape.span : (i + 1) * shape.span] for i in range(shape.n)]
        data, parity = [take(shape.stored(i), rows[i]) for i in range(shape.k)], rows[shape.k :]
        return [*data, *parity], erasure.encode_stripe(self.saver.code, data, shape.length, parity)

    def _send(
        self, number: int, shape: erasure.StripeShape, fragments: Sequence[Bytes], at: list[int | None], buffer: Bytes
    ) -> None:
        parts = [
            (paths.fragment(self.saver.run, self.shard_id, number, i), fragment.data[: shape.stored(i)])
            for i, fragment in enumerate(fragments)
        ]

        def done() -> None:
            self.saver.buffers.give(buffer)
            self.saver.observer(Progress("save", shape.length, self.stream.length))

        self.uploads.send(parts, place_stripe(self.shard_id, number, shape.n, self.saver.places), at, done)

    def _check_living(self, number: int) -> None:
        """Stop at once when what failed puts the goal out of reach: the rest would be written for nothing."""
        if self.uploads.failed:
            living = {place.target for place in self.uploads.living}
            chosen = place_stripe(self.shard_id, number, self.saver.code.n, self.saver.places)
            names = [self.saver.places[home].target for home in chosen]
            homes = [name if name in living else None for name in names]
            self._require(survives(homes, self.saver.code.k, self._domains))

    def seal(self) -> SavedShard:
        """Write the shard record: from here on the shard can be found and rebuilt."""
        self.uploads.check_kept()
        record = self._record()
        reached = record_survives(record, self._domains)
        self._require(reached)
        data, measures = pack(record)
        path = paths.record(self.saver.run, self.shard_id)
        saver, living = self.saver, self.uploads.living
        count, least = copies_wanted(reached.targets, living), saver.require_tolerance + 1
        left = saver.deadline.left
        try:
            holding, _ = put_copies(path, data, count, living, saver.targets, saver.executor, least=least, timeout=left)
        except TimeoutError:
            raise self._stalled("puts of the shard record have not ended") from None
        copies = survives(holding, 1, self._domains)
        return SavedShard(
            reference=ShardReference(
                shard_id=self.shard_id,
                rank=self.rank,
                length=self.stream.length,
                record=Reference(path=path, targets=holding, **measures),
            ),
            survives=weakest([reached, copies]),
            missing=dict(self.uploads.missing),
        )

    def discard(self) -> None:
        """Remove what was put, from the targets in reach. Without a record of this shard its save can't commit."""
        objects: dict[str, list[str]] = {place.target: [] for place in self.saver.places}
        for number in range(len(self.stripes)):
            homes = place_stripe(self.shard_id, number, self.saver.code.n, self.saver.places)
            for i, home in enumerate(homes):  # also where the put failed: it may have been the reply that was lost
                fragment = paths.fragment(self.saver.run, self.shard_id, number, i)
                objects[self.saver.places[home].target].append(fragment)
        for name, fragments in objects.items():
            failed = self.uploads.failed.get(name)
            if failed is None or not failed.out_of_reach:
                self.saver.targets[name].delete([*fragments, paths.record(self.saver.run, self.shard_id)])

    def _require(self, reached: Survives) -> None:
        required = self.saver.require_tolerance
        if reached.targets < required:
            message = f"what was stored survives the loss of {reached.targets} targets, {required} required"
            raise too_few_took(message, self.uploads.failed, reached.targets, required)

    def _shape(self, length: int) -> erasure.StripeShape:
        return erasure.StripeShape(self.saver.code.k, self.saver.code.m, length)

    def _record(self) -> ShardRecord:
        code = self.saver.code
        return ShardRecord(
            shard_id=self.shard_id,
            rank=self.rank,
            length=self.stream.length,
            targets=[place.target for place in self.saver.places],
            codes=[CodeSpec(k=code.k, m=code.m, matrix=code.parity_matrix.tobytes())],
            stripes=self.stripes,
            tensors=self.stream.entries,
        )
