"""Where bytes are: shard to stripes, stripe to fragments, fragment to blocks. Pure integer arithmetic."""

from dataclasses import dataclass
from typing import NamedTuple

from erasure.checksum import BLOCK
from erasure.errors import FragmentIndexError, RangeError
from erasure.matrix import check_shape

__all__ = ["Piece", "StripeShape", "cut"]


class Piece(NamedTuple):
    """Bytes [start, stop) of one data fragment; `offset` is where they go in the range that was asked for."""

    fragment: int
    start: int
    stop: int
    offset: int


@dataclass(frozen=True, slots=True)
class StripeShape:
    """A stripe of `length` bytes under a k+m code, with one CRC for every `block` bytes of each fragment.

    Data fragment i holds stripe bytes [i * span, (i + 1) * span), cut at the length; parity fragments are
    span bytes long. Raises CodeShapeError, and RangeError for a negative length or a block below 1.
    """

    k: int
    m: int
    length: int
    block: int = BLOCK

    def __post_init__(self) -> None:
        check_shape(self.k, self.m)
        if self.length < 0:
            raise RangeError("stripe length", self.length, self.length + 1, 1 << 63)
        if self.block < 1:
            raise RangeError("block size", self.block, self.block + 1, 1 << 63)

    @property
    def n(self) -> int:
        """All fragments, data and parity."""
        return self.k + self.m

    @property
    def span(self) -> int:
        """Bytes of a fragment in the arithmetic: ceil(length / k)."""
        return -(-self.length // self.k)

    def stored(self, fragment: int) -> int:
        """Bytes that are stored of the fragment; 0 means that it isn't stored. Raises FragmentIndexError."""
        if not 0 <= fragment < self.k + self.m:
            raise FragmentIndexError(fragment, self.k + self.m, "asked-for")
        if fragment >= self.k:
            return self.span
        return max(0, min(self.span, self.length - fragment * self.span))

    def blocks(self, fragment: int) -> int:
        """How many blocks are stored of the fragment. Raises FragmentIndexError."""
        return -(-self.stored(fragment) // self.block)

    @property
    def crc_count(self) -> int:
        """Entries of the CRC table: the blocks of all fragments."""
        return self._blocks_before(self.k + self.m)

    def crc_index(self, fragment: int, block: int) -> int:
        """Where the CRC of a block stands in the table, which is ordered by fragment, then block.

        Raises FragmentIndexError and RangeError.
        """
        self._check_block(fragment, block)
        return self._blocks_before(fragment) + block

    def block_range(self, fragment: int, block: int) -> tuple[int, int]:
        """(start, stop) of a block within its stored fragment. Raises FragmentIndexError and RangeError."""
        self._check_block(fragment, block)
        start = block * self.block
        return start, min(start + self.block, self.stored(fragment))

    def blocks_covering(self, start: int, stop: int) -> range:
        """List the blocks that hold bytes [start, stop) of a fragment. Raises RangeError."""
        self._check_range("fragment bytes", start, stop, self.span)
        if start == stop:
            return range(0)
        return range(start // self.block, -(-stop // self.block))

    def pieces(self, start: int, stop: int) -> list[Piece]:
        """List the data fragments' byte ranges that hold stripe bytes [start, stop). Raises RangeError."""
        self._check_range("stripe bytes", start, stop, self.length)
        if start == stop:
            return []
        span = self.span
        result = []
        for fragment in range(start // span, -(-stop // span)):
            first = fragment * span
            low, high = max(start, first), min(stop, first + span)
            result.append(Piece(fragment, low - first, high - first, low - start))
        return result

    def _blocks_before(self, fragment: int) -> int:
        """Blocks of all fragments before this one: full ones, at most one short, empty ones, parity."""
        per_span = -(-self.span // self.block)
        full = self.length // self.span if self.span else 0
        total = min(fragment, full) * per_span
        if full < min(fragment, self.k):
            total += self.blocks(full)
        return total + max(0, fragment - self.k) * per_span

    def _check_block(self, fragment: int, block: int) -> None:
        if not 0 <= block < self.blocks(fragment):
            raise RangeError(f"block of fragment {fragment}", block, block + 1, self.blocks(fragment))

    @staticmethod
    def _check_range(what: str, start: int, stop: int, limit: int) -> None:
        if not 0 <= start <= stop <= limit:
            raise RangeError(what, start, stop, limit)


def cut(length: int, stripe_bytes: int) -> list[tuple[int, int]]:
    """Cut a shard into stripes: (offset, length) each, `stripe_bytes` but for the last; none if it is empty.

    Raises RangeError for a negative length or stripes below 1 byte.
    """
    if length < 0:
        raise RangeError("shard length", length, length + 1, 1 << 63)
    if stripe_bytes < 1:
        raise RangeError("stripe size", stripe_bytes, stripe_bytes + 1, 1 << 63)
    return [(at, min(stripe_bytes, length - at)) for at in range(0, length, stripe_bytes)]
