"""What a kernel is."""

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

__all__ = ["Apply", "Array", "Checksum", "Kernel", "Product", "Update"]

Array = npt.NDArray[np.uint8]

Apply = Callable[[int, int], None]
"""(start, stop): compute these bytes of every output from the same bytes of every source."""

Update = Callable[[int, int, int], int]
"""(start, stop, value): the CRC32C of these bytes of one buffer, continuing from value."""


class Product(Protocol):
    """One coefficient matrix, prepared; shared between threads."""

    def bind(self, sources: Sequence[Array], outputs: Sequence[Array]) -> Apply:
        """Resolve the buffers once (already checked by the caller). The result belongs to one thread."""


class Kernel(Protocol):
    """Multiplies matrices with fragments; its products release the GIL."""

    @property
    def name(self) -> str:
        """What `erasure.kernel_name()` says."""

    def product(self, coefficients: Array) -> Product:
        """Prepare (rows, columns) coefficients; output r will be the sum over c of c[r, c] x source c."""


class Checksum(Protocol):
    """Computes CRC32C (polynomial 0x1EDC6F41, reflected, as in iSCSI and ext4)."""

    @property
    def name(self) -> str:
        """Where the function comes from."""

    def bind(self, buffer: Array) -> Update:
        """Resolve a 1-D contiguous buffer once."""
