"""A stream's bytes in order, a data fragment at a time: copied from the state into a stripe's buffer, once.

What is digested must be what is put, whatever the trainer does to its tensors meanwhile. A state that is the save's
own, as a background save's is, needs no copy: it is encoded and put from where it is.
"""

from collections.abc import Callable, Iterator

import numpy as np

from ckptstore.buffers import Bytes
from ckptstore.save.stream import Piece, Stream

__all__ = ["Filler", "Sources"]

Sources = Callable[[Piece], Bytes]
"""The bytes of a piece, flat; asked for once, in stream order, just before they are needed."""


class Filler:
    """Reads a stream from its beginning: the header, then every piece."""

    def __init__(self, stream: Stream, sources: Sources) -> None:
        self._parts = _parts(stream, sources)
        self._part: Bytes = np.empty(0, np.uint8)
        self._stays = False

    def take(self, size: int, room: Bytes) -> Bytes:
        """The stream's next `size` bytes with zeros after them, as long as `room`: there, or where they stay."""
        if 0 < size == room.size and self._next().size >= size and self._stays:
            return self._cut(size)
        self.fill(room[:size])
        room[size:] = 0
        return room

    def fill(self, out: Bytes) -> None:
        """Copy the stream's next `out.size` bytes."""
        done = 0
        while done < out.size:
            part = self._cut(min(self._next().size, out.size - done))
            out[done : done + part.size] = part
            done += part.size

    def _next(self) -> Bytes:
        while not self._part.size:
            self._part, self._stays = next(self._parts)
        return self._part

    def _cut(self, size: int) -> Bytes:
        cut, self._part = self._part[:size], self._part[size:]
        return cut


def _parts(stream: Stream, sources: Sources) -> Iterator[tuple[Bytes, bool]]:
    """Each part and whether it stays where it is."""
    yield np.frombuffer(stream.header, np.uint8), False
    for piece in stream.pieces:
        part = sources(piece)
        assert part.size == piece.nbytes, f"{piece.fqn}: {part.size} bytes came, {piece.nbytes} were planned"
        yield part, piece.stays
