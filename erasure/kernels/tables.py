"""The kernels of last resort: numpy look-up tables, and the crc32c package.

About a fortieth of ISA-L's speed on one core, and right on every machine.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from erasure.kernels.interface import Apply, Array, Update
from erasure.matrix import MULTIPLY

__all__ = ["PackageChecksum", "TableKernel"]

# Source, indices (8 bytes for each byte) and one row of each output stay in cache.
_STEP = 16 << 10


class TableKernel:
    """Multiplies by looking every byte up in one row of the multiplication table."""

    name = "numpy"

    def product(self, coefficients: Array) -> "TableProduct":
        """Nothing to prepare."""
        return TableProduct(coefficients)


class TableProduct:
    """One coefficient matrix."""

    def __init__(self, coefficients: Array) -> None:
        self._coefficients = coefficients

    def bind(self, sources: Sequence[Array], outputs: Sequence[Array]) -> Apply:
        """Allocate scratch space for one thread."""
        indices, products = np.empty(_STEP, np.intp), np.empty(_STEP, np.uint8)

        def apply(start: int, stop: int) -> None:
            for at in range(start, stop, _STEP):
                end = min(at + _STEP, stop)
                targets = [output[at:end] for output in outputs]
                for target in targets:
                    target[:] = 0
                for source, column in zip(sources, self._coefficients.T, strict=True):
                    _accumulate(source[at:end], column, targets, indices[: end - at], products[: end - at])

        return apply


def _accumulate(
    source: Array, column: Array, targets: list[Array], indices: npt.NDArray[np.intp], products: Array
) -> None:
    """Add source x column[r] to target r. Indices are converted once for all rows."""
    indices[:] = source
    for target, coefficient in zip(targets, column, strict=True):
        # Bytes are always within the 256 entries; any mode but "raise" spares numpy a buffered copy.
        MULTIPLY[coefficient].take(indices, out=products, mode="clip")
        np.bitwise_xor(target, products, out=target)


class PackageChecksum:
    """The crc32c package, which uses the processor's instruction where there is one."""

    name = "crc32c"

    def __init__(self) -> None:
        # Its import takes a quarter of that of all of erasure, and ISA-L nearly always serves.
        import crc32c

        self._crc = crc32c.crc32c

    def bind(self, buffer: Array) -> Update:
        """Keep a view, sliced by each call without a copy."""
        view, crc = buffer.data, self._crc

        def update(start: int, stop: int, value: int) -> int:
            return int(crc(view[start:stop], value, gil_release_mode=1))

        return update
