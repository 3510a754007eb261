"""CRC32C of whole buffers and of their blocks, and of buffers joined, from the CRCs of their parts."""

from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from erasure.errors import BufferFormatError, RangeError
from erasure.kernels import Array, active_checksum

__all__ = ["BLOCK", "block_crcs", "crc32c", "crc32c_joined"]

BLOCK = 1 << 20
"""Bytes of a fragment under one CRC, and the unit of ranged reads."""

POLYNOMIAL = 0x82F63B78
"""Castagnoli's, bits reversed: in 32 bits the highest one stands for x^0."""
ONE = 1 << 31


def crc32c(buffer: Any, value: int = 0) -> int:
    """CRC32C of a contiguous buffer (bytes, memoryview, array), continuing from the CRC of what precedes it.

    Raises BufferFormatError, and RangeError for a value beyond 32 bits.
    """
    if not 0 <= value < 1 << 32:
        raise RangeError("CRC32C value", value, value + 1, 1 << 32)
    view = _as_bytes(buffer)
    return active_checksum().bind(view)(0, view.size, value)


def block_crcs(buffer: Any, block: int = BLOCK) -> npt.NDArray[np.uint32]:
    """Compute the CRC32C of each `block` bytes of a contiguous buffer; the last block may be short.

    Shape (ceil(size / block),) uint32. Raises BufferFormatError, and RangeError for a block below 1.
    """
    if block < 1:
        raise RangeError("block size", block, block + 1, 1 << 63)
    view = _as_bytes(buffer)
    update = active_checksum().bind(view)
    starts = range(0, view.size, block)
    return np.array([update(at, min(at + block, view.size), 0) for at in starts], np.uint32)


def crc32c_joined(first: int, second: int, length: int) -> int:
    """CRC32C of two buffers, one after the other, from that of each and the `length` in bytes of the second.

    With a CRC as the remainder of a polynomial, what comes before is multiplied by x^(8 * length).
    Raises RangeError for a negative length.
    """
    if length < 0:
        raise RangeError("buffer length", length, length + 1, 1 << 63)
    return _product(_power(8 * length), first) ^ second


@lru_cache(maxsize=1024)  # blocks have few different lengths
def _power(exponent: int) -> int:
    """x^exponent modulo the polynomial."""
    result, square = ONE, ONE >> 1
    while exponent:
        if exponent & 1:
            result = _product(result, square)
        square = _product(square, square)
        exponent >>= 1
    return result


def _product(a: int, b: int) -> int:
    """The product modulo the polynomial: for each power of x in `a`, from x^0 on, that multiple of `b`."""
    result = 0
    while a:
        if a & ONE:
            result ^= b
        a = (a << 1) & 0xFFFFFFFF
        b = b >> 1 ^ POLYNOMIAL if b & 1 else b >> 1
    return result


def _as_bytes(buffer: Any) -> Array:
    try:
        view = memoryview(buffer)
    except TypeError as error:
        raise BufferFormatError("checksum", 0, f"a {type(buffer).__name__}") from error
    if not view.c_contiguous:
        raise BufferFormatError("checksum", 0, f"a strided buffer of shape {view.shape}")
    return np.frombuffer(view, np.uint8) if view.nbytes else np.empty(0, np.uint8)
