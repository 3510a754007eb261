"""A stream's bytes in order, copied from the tensors straight into stripe buffers: the one copy that a save makes."""

from collections.abc import Callable, Iterator

import numpy as np

from ckptstore.buffers import Bytes
from ckptstore.save.stream import Piece, Stream

__all__ = ["Filler", "Sources"]

Sources = Callable[[Piece], Bytes]
"""The bytes of a piece, flat; asked for once, in stream order, just before they are copied."""


class Filler:
    """Reads a stream from its beginning: the header, then every piece."""

    def __init__(self, stream: Stream, sources: Sources) -> None:
        self._parts = _parts(stream, sources)
        self._part: Bytes = np.empty(0, np.uint8)

    def fill(self, out: Bytes) -> None:
        """Copy the stream's next `out.size` bytes."""
        done = 0
        while done < out.size:
            while not self._part.size:
                self._part = next(self._parts)
            count = min(self._part.size, out.size - done)
            out[done : done + count] = self._part[:count]
            self._part = self._part[count:]
            done += count


def _parts(stream: Stream, sources: Sources) -> Iterator[Bytes]:
    yield np.frombuffer(stream.header, np.uint8)
    for piece in stream.pieces:
        part = sources(piece)
        assert part.size == piece.nbytes, f"{piece.fqn}: {part.size} bytes came, {piece.nbytes} were planned"
        yield part
