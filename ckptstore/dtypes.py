"""Tensor dtypes by name: their size, and what the safetensors format calls them.

A dtype that the format lacks travels as U8 with a trailing dimension of its item size; a record keeps the true name.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

__all__ = ["DTYPES", "OBJECT", "Dtype", "dtype_named", "nbytes_of"]

OBJECT = "object"
"""The dtype of a byte object: typed JSON, not a tensor."""


class Dtype(NamedTuple):
    """`name` as torch spells it, bytes per item, and the safetensors name (None: the format lacks it)."""

    name: str
    itemsize: int
    stream: str | None


_IN_FORMAT = {
    "float64": (8, "F64"),
    "float32": (4, "F32"),
    "float16": (2, "F16"),
    "bfloat16": (2, "BF16"),
    "float8_e4m3fn": (1, "F8_E4M3"),
    "float8_e4m3fnuz": (1, "F8_E4M3FNUZ"),
    "float8_e5m2": (1, "F8_E5M2"),
    "float8_e5m2fnuz": (1, "F8_E5M2FNUZ"),
    "complex64": (8, "C64"),
    "int64": (8, "I64"),
    "int32": (4, "I32"),
    "int16": (2, "I16"),
    "int8": (1, "I8"),
    "uint64": (8, "U64"),
    "uint32": (4, "U32"),
    "uint16": (2, "U16"),
    "uint8": (1, "U8"),
    "bool": (1, "BOOL"),
}
_NOT_IN_FORMAT = {
    "complex128": 16,
    "complex32": 4,
    "float8_e8m0fnu": 1,
    "float4_e2m1fn_x2": 1,
    "bits16": 2,
    **dict.fromkeys(("bits8", "bits4x2", "bits2x4", "bits1x8"), 1),
    **dict.fromkeys((f"{sign}int{bits}" for sign in ("", "u") for bits in range(1, 8)), 1),
}

DTYPES = {
    **{name: Dtype(name, size, stream) for name, (size, stream) in _IN_FORMAT.items()},
    **{name: Dtype(name, size, None) for name, size in _NOT_IN_FORMAT.items()},
    OBJECT: Dtype(OBJECT, 1, None),
}


def dtype_named(name: str) -> Dtype:
    """The dtype of that name (`torch.` in front or not); `KeyError` where nothing is known of it."""
    return DTYPES[name.removeprefix("torch.")]


def nbytes_of(dtype: str, shape: Sequence[int]) -> int:
    """Bytes of a tensor of that dtype and shape."""
    return math.prod(shape) * dtype_named(dtype).itemsize
