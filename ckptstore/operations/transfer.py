"""One checkpoint read, coded anew and committed elsewhere: right, or not there.

    verified stripe → a stripe's buffer of the other store → encode + CRC → puts → record → compared → index → manifest

Shards stay the shards they are: the same stream of bytes, cut and coded as the other store is set up. Each is compared
with what was recorded when the original was saved before anything is committed. Memory: the windows of both stores.
"""

from contextlib import closing
from dataclasses import dataclass
from functools import cached_property

from ckptstore.buffers import BufferPool, Bytes
from ckptstore.commit import About, Commit, check_about, shard_saver
from ckptstore.errors import UsageError
from ckptstore.events import Event, Observer, Progress
from ckptstore.opened import Opened
from ckptstore.operations.origin import Origin
from ckptstore.operations.written import check_written
from ckptstore.save.shard import SavedShard, ShardSaver
from ckptstore.save.stream import Piece, Stream
from ckptstore.selection import key_of
from ckptstore.source import Source
from manifests import FORMAT, Document, Manifest, ShardRecord, paths

__all__ = ["Transfer"]


@dataclass
class Transfer:
    """Copies into `run` of the store `to`, reading through `window` bytes; progress is told of `total` bytes."""

    to: Opened
    run: str
    window: int
    read_back: bool
    observer: Observer
    total: int = 0

    @cached_property
    def pool(self) -> BufferPool:
        """Buffers to read into, apart from those that are written from: either would wait for the other for ever."""
        return BufferPool(self.window)

    def copy(self, source: Source, origin: Origin) -> Manifest:
        """Copy one checkpoint and commit it. Raises as reads and saves do, and as `check_written`."""
        manifest, index = source.manifest, source.index
        check_about(self.run, _about(manifest, origin, key_of(manifest)))
        records = [source.shard(number).record for number in range(len(index.shards))]
        _refuse_newer(manifest, index, *records)
        places = self.to.ready_to_save()
        save = Commit(self.to, self.run, places)
        save.begin()
        saver = shard_saver(self.to, self.run, places, self._tell)
        saved = [self._shard(saver, source, number) for number in range(len(records))]
        about = _about(manifest, origin, paths.save_name(save.session, save.ordinal))
        return save.finish(saved, index.tensors, about, structure=index.structure, planner_data=index.planner_data)

    def _shard(self, saver: ShardSaver, source: Source, number: int) -> SavedShard:
        record = source.shard(number).record
        stripes = source.stripes(number, self.pool)

        def following(_: Piece) -> Bytes:
            return next(stripes)

        with closing(stripes):
            written = saver.save(_stream_of(record), following, record.rank)
        return check_written(self.to, self.run, record, written, read_back=self.read_back)

    def _tell(self, event: Event) -> None:
        """What a save tells of its shards, as of all that is copied."""
        self.observer(Progress("copy", event.done, self.total) if isinstance(event, Progress) else event)


def _about(manifest: Manifest, origin: Origin, copy: str) -> About:
    name = manifest.name or key_of(manifest)
    return About(name, manifest.checkpoint_id or name, manifest.step, manifest.world, origin.noted(manifest.user, copy))


def _stream_of(record: ShardRecord) -> Stream:
    """The stream of a shard as it is, header and all, in pieces that are the stripes it was cut into."""
    pieces = [Piece(None, "", "uint8", [stripe.length], stripe.length) for stripe in record.stripes]
    return Stream(b"", pieces, record.tensors, record.length)


def _refuse_newer(*documents: Document) -> None:
    """A copy's documents are of this release's format: what a newer one added to them has no place there."""
    if any(document.format > FORMAT for document in documents):
        message = "a newer release of ckptstore wrote this checkpoint: a copy would lack what that added"
        raise UsageError(message, hint="upgrade ckptstore, then copy it")
