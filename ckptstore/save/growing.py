"""A shard whose length nobody knows before its end: a file that is streamed in.

The header of a safetensors stream stands first and tells how long what follows is. So it has a stripe of its own, the
first, which is written last; the room it will take is known from the name alone.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np

from ckptstore.buffers import Bytes
from ckptstore.errors import AccessDenied, ConflictError, ToleranceError
from ckptstore.save.shard import OpenShard, SavedShard, ShardSaver, Take
from ckptstore.save.stream import Piece, lay_out
from manifests import Stripe

MOST = (1 << 53) - 1
"""Bytes: no length in a record may be larger."""

__all__ = ["GrowingShard", "piece_of"]


def piece_of(fqn: str, size: int) -> Piece:
    """A tensor of so many bytes: one dimension, whole."""
    return Piece(fqn, fqn, "uint8", (size,), size, global_shape=(size,), range=(0,))


class GrowingShard(OpenShard):
    """One tensor of bytes: `append` stripes, then `close` it or `abandon` it.

    Where one of these raises, what was put is removed as far as that goes.
    """

    def __init__(self, saver: ShardSaver, fqn: str, rank: int = 0) -> None:
        longest = lay_out([piece_of(fqn, MOST)])
        self._fqn = fqn
        self._room = len(longest.header)
        self.size = 0
        super().__init__(saver, replace(longest, length=self._room), rank)
        self.stripes = [Stripe(offset=0, length=self._room, stored_length=self._room, at=[], crc=b"")]

    def append(self, data: Bytes) -> None:
        """Write the next stripe, at most k fragments of bytes; they are copied by the time this returns.

        Raises as `ShardSaver.save`.
        """
        with self._all_or_nothing():
            self.stream = replace(self.stream, length=self.stream.length + data.size)
            self.write_stripe(len(self.stripes), self._room + self.size, data.size, _taking(data))
            self.size += data.size

    def close(self) -> SavedShard:
        """Write the header and the record. Raises as `ShardSaver.save`."""
        with self._all_or_nothing():
            self.stream = lay_out([piece_of(self._fqn, self.size)], alignment=self._room)
            self.write_stripe(0, 0, self._room, _taking(np.frombuffer(self.stream.header, np.uint8)))
            self.finish()
            return self.seal()

    def abandon(self) -> None:
        """Wait for the puts under way and remove what is there, from the targets in reach."""
        self.finish()
        self.discard()

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        try:
            yield
        except (ToleranceError, AccessDenied, ConflictError):
            self.abandon()
            raise


def _taking(data: Bytes) -> Take:
    """Gives `data` a fragment at a time, as `Filler.take` does."""
    done = 0

    def take(size: int, room: Bytes) -> Bytes:
        nonlocal done
        room[:size] = data[done : done + size]
        room[size:] = 0
        done += size
        return room

    return take
