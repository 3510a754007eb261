"""Stored bytes as numbers that numpy can reckon with, and what is to be said of many of them.

numpy has no bfloat16 and no 8-bit floats: those are widened here, exactly.
"""

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from ckptstore.buffers import Bytes
from ckptstore.errors import UsageError

__all__ = ["Stats", "has_numbers", "numbers_of"]

NATIVE = frozenset(
    [
        *("float64", "float32", "float16", "complex128", "complex64", "bool"),
        *("int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8"),
    ]
)
"""Dtypes that numpy has under the same name."""

SMALL_FLOATS = {
    "float8_e4m3fn": (4, 3, 7),
    "float8_e4m3fnuz": (4, 3, 8),
    "float8_e5m2": (5, 2, 15),
    "float8_e5m2fnuz": (5, 2, 16),
}
"""Bits of exponent and of mantissa, and the exponent's bias: OCP's 8-bit floating point specification; fnuz, ONNX's."""
SIGN = 0x80


def has_numbers(dtype: str) -> bool:
    """Whether `numbers_of` knows the dtype."""
    return dtype in NATIVE or dtype in SMALL_FLOATS or dtype == "bfloat16"


def numbers_of(data: Bytes, dtype: str) -> NDArray[np.generic]:
    """Little-endian bytes as numbers, 1-D; small floats as float32. Raises `UsageError` for what numpy can't hold."""
    if dtype in NATIVE:
        return data.view(np.dtype(dtype).newbyteorder("<"))
    if dtype == "bfloat16":
        return (data.view("<u2").astype(np.uint32) << 16).view(np.float32)
    if dtype in SMALL_FLOATS:
        return _small_floats(dtype)[data]
    message = f"a tensor of {dtype} has no numbers that could be shown"
    raise UsageError(message, hint="its bytes are written by: ckpt cat CHECKPOINT NAME --raw > FILE", dtype=dtype)


@cache
def _small_floats(dtype: str) -> NDArray[np.float32]:
    """The value of each of the 256 codes."""
    return np.array([_small_float(code, dtype) for code in range(256)], np.float32)


def _small_float(code: int, dtype: str) -> float:
    exponent_bits, mantissa_bits, bias = SMALL_FLOATS[dtype]
    magnitude = code & ~SIGN
    exponent, mantissa = divmod(magnitude, 1 << mantissa_bits)
    if dtype.endswith("fnuz"):
        special = math.nan if code == SIGN else None
    elif dtype.endswith("fn"):
        special = math.nan if magnitude == SIGN - 1 else None
    else:
        special = (math.nan if mantissa else math.inf) if exponent == (1 << exponent_bits) - 1 else None
    fraction = mantissa / (1 << mantissa_bits)
    size = math.ldexp(fraction + 1, exponent - bias) if exponent else math.ldexp(fraction, 1 - bias)
    return math.copysign(size if special is None else special, -1.0 if code & SIGN else 1.0)


@dataclass
class Stats:
    """Of all numbers added so far. `min`, `max`, `mean`: of the finite ones; None where none is, and of complex ones.

    The mean is reckoned in float64, and None where its sum is beyond that.
    """

    count: int = 0
    nan: int = 0
    inf: int = 0
    min: float | int | None = None
    max: float | int | None = None
    _sum: float = 0.0

    def add(self, numbers: NDArray[np.generic]) -> None:
        """Add some. Shape (n,), any dtype that `numbers_of` gives."""
        self.count += numbers.size
        if numbers.dtype.kind in "fc":
            finite = np.isfinite(numbers)
            nan = int(np.isnan(numbers).sum())
            self.nan += nan
            self.inf += numbers.size - int(finite.sum()) - nan
            numbers = numbers if finite.all() else numbers[finite]
        if not numbers.size or numbers.dtype.kind == "c":
            return
        low, high = numbers.min().item(), numbers.max().item()
        self.min = low if self.min is None else min(self.min, low)
        self.max = high if self.max is None else max(self.max, high)
        with np.errstate(over="ignore"):
            self._sum += float(numbers.sum(dtype=np.float64))

    @property
    def mean(self) -> float | None:
        """Of the finite ones."""
        finite = self.count - self.nan - self.inf
        return self._sum / finite if finite and self.min is not None and math.isfinite(self._sum) else None
