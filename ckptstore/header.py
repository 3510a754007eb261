"""The header of a safetensors file, as a shard and a restored file both begin with one.

The format: header length as little-endian u64, a JSON object {name: {dtype, shape, data_offsets}}, then the tensors
without holes (`safetensors/README.md`, "Format"). A dtype that it lacks is written as U8 with a trailing dimension of
its item size.
"""

import json
import struct
from collections.abc import Mapping, Sequence
from typing import Any

from ckptstore.dtypes import OBJECT, dtype_named, nbytes_of

METADATA = "__metadata__"
"""The header's own entry: no tensor can have this name."""

HEADER_LIMIT = 100_000_000
"""Bytes; safetensors' own readers refuse more."""

__all__ = ["HEADER_LIMIT", "METADATA", "header_bytes", "header_entry"]


def header_entry(dtype: str, shape: Sequence[int], start: int) -> dict[str, Any]:
    """What a header says of a tensor (or the bytes of an object) that begins `start` bytes after the header."""
    known = dtype_named(dtype)
    stored = list(shape) if known.stream or dtype == OBJECT else [*shape, known.itemsize]
    return {
        "dtype": known.stream or "U8",
        "shape": stored,
        "data_offsets": [start, start + nbytes_of(dtype, shape)],
    }


def header_bytes(head: Mapping[str, Any], alignment: int) -> bytes:
    """The length, and `head` padded with spaces so that what follows starts at a multiple of `alignment` bytes."""
    text = json.dumps(head, separators=(",", ":"), ensure_ascii=True).encode()
    padded = -(-(8 + len(text)) // alignment) * alignment - 8
    return struct.pack("<Q", padded) + text.ljust(padded)
