"""Checks of the callers' buffers, made once for a call so that the arithmetic can work on bare addresses."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from erasure.errors import BufferFormatError, BufferLengthError, BufferOverlapError
from erasure.kernels import Array
from erasure.kernels.memory import address

__all__ = ["check_buffer", "check_equal_lengths", "check_overlap"]

# Comparing with the type np.uint8 takes four times as long.
_BYTE = np.dtype(np.uint8)


def check_buffer(role: str, index: int, buffer: Any, *, output: bool = False) -> None:
    """Raise BufferFormatError unless it is a 1-D C-contiguous uint8 array, writable if it is an output."""
    if not isinstance(buffer, np.ndarray):
        raise BufferFormatError(role, index, f"a {type(buffer).__name__}")
    if buffer.dtype != _BYTE or buffer.ndim != 1 or not buffer.flags.c_contiguous:
        layout = "contiguous" if buffer.flags.c_contiguous else "strided"
        raise BufferFormatError(role, index, f"a {layout} {buffer.dtype} array of shape {buffer.shape}")
    if output and not buffer.flags.writeable:
        raise BufferFormatError(role, index, "a read-only array")


def check_equal_lengths(role: str, indices: Sequence[int], buffers: Sequence[Array], length: int) -> None:
    """Raise BufferLengthError for the first buffer that isn't `length` bytes long."""
    for index, buffer in zip(indices, buffers, strict=True):
        if buffer.size != length:
            raise BufferLengthError(role, index, length, buffer.size)


def check_overlap(role: str, sources: Sequence[Array], outputs: Sequence[Array]) -> None:
    """Raise BufferOverlapError if an output shares bytes with any other buffer; sources may share theirs.

    A sweep over the address ranges in order: an output may not begin before everything earlier has ended, a
    source not before every earlier output has.
    """
    ranges = [(*_bounds(b), False) for b in sources] + [(*_bounds(b), True) for b in outputs]
    end_of_all = end_of_outputs = 0
    for start, stop, is_output in sorted(ranges):
        if stop > start and start < (end_of_all if is_output else end_of_outputs):
            raise BufferOverlapError(role)
        end_of_all = max(end_of_all, stop)
        if is_output:
            end_of_outputs = max(end_of_outputs, stop)


def _bounds(buffer: Array) -> tuple[int, int]:
    start = address(buffer)
    return start, start + buffer.size
