"""The erasure code itself: k data fragments, m parity fragments, any k of the n = k + m give all."""

import functools
from collections.abc import Mapping, Sequence
from typing import Self

import numpy as np
import numpy.typing as npt

from erasure.buffers import check_buffer, check_equal_lengths, check_overlap
from erasure.errors import BufferCountError, FragmentIndexError, MatrixError
from erasure.kernels import Apply, Array, Kernel, Product, active_kernel
from erasure.matrix import Recovery, check_shape, parity_matrix, recovery

__all__ = ["Code"]

# Prepared recoveries kept by a code: 32 * k * wanted bytes each, so 1 KiB at 8+4 and 350 KiB at 200+55.
_RECOVERIES = 128


class Code:
    """Systematic Reed-Solomon over GF(2^8), exactly `reedsolo.RSCodec(m, nsize=k + m)`.

    Fragments 0 to k - 1 are the data, k to n - 1 the parity. Buffers are 1-D C-contiguous uint8 arrays of the
    caller; nothing is copied, and the GIL is released. One object may be used by many threads.
    """

    def __init__(self, k: int, m: int, *, kernel: Kernel | None = None) -> None:
        """Raise CodeShapeError unless k >= 1, m >= 0 and k + m <= 255. `kernel`: the process's by default."""
        self._set_up(parity_matrix(k, m), kernel)

    @classmethod
    def from_matrix(cls, matrix: npt.ArrayLike, k: int, m: int, *, kernel: Kernel | None = None) -> Self:
        """Make the code of a recorded (m, k) uint8 matrix: any systematic linear code over the same field.

        Raises CodeShapeError and MatrixError.
        """
        check_shape(k, m)
        recorded = np.array(matrix)
        if recorded.dtype != np.uint8 or recorded.shape != (m, k):
            raise MatrixError(k, m, f"found {recorded.dtype} of shape {recorded.shape}")
        recorded.flags.writeable = False
        code = cls.__new__(cls)
        code._set_up(recorded, kernel)  # noqa: SLF001  our own class
        return code

    def _set_up(self, matrix: Array, kernel: Kernel | None) -> None:
        self.m, self.k = matrix.shape
        self.n = self.k + self.m
        self.parity_matrix = matrix
        self._kernel = kernel or active_kernel()
        self._parity = self._kernel.product(matrix)
        # On the instance, so that its recoveries go when it goes. lru_cache is safe between threads.
        self._recovery = functools.lru_cache(_RECOVERIES)(self._prepare_recovery)

    def __repr__(self) -> str:
        return f"Code(k={self.k}, m={self.m})"

    def encode(self, data: Sequence[Array], parity: Sequence[Array]) -> None:
        """Fill the m parity buffers from the k data buffers, all of one length (0 is allowed).

        Raises BufferCountError, BufferFormatError, BufferLengthError, BufferOverlapError.
        """
        apply = self.encoder(data, parity)
        apply(0, data[0].size)

    def encoder(self, data: Sequence[Array], parity: Sequence[Array]) -> Apply:
        """Check the buffers as `encode` does and return `apply(start, stop)`, which encodes that byte range.

        For callers that do more with a range while it is in cache; the result is for one thread.
        """
        for role, expected, buffers in (("data", self.k, data), ("parity", self.m, parity)):
            if len(buffers) != expected:
                raise BufferCountError(role, expected, len(buffers))
        return _bound(self._parity, "parity", dict(enumerate(data)), dict(enumerate(parity, self.k)))

    def reconstruct(self, present: Mapping[int, Array], wanted: Mapping[int, Array]) -> None:
        """Fill the wanted fragments, data or parity, from any k or more present ones, all of one length.

        The keys are fragment numbers. Present fragments must be *verified*: damage isn't detected here. A
        data fragment that is stored short is passed zero-extended. Raises TooFewFragmentsError,
        FragmentIndexError, BufferFormatError, BufferLengthError, BufferOverlapError, and UndecodableError
        where a recorded code that isn't MDS has no solution.
        """
        self._check_indices(present, wanted)
        found, product = self._recovery(tuple(sorted(present)), tuple(sorted(wanted)))
        sources = {i: present[i] for i in found.sources}
        unused = {i: buffer for i, buffer in present.items() if i not in sources}
        outputs = {i: wanted[i] for i in found.wanted}
        apply = _bound(product, "wanted", sources, outputs, unused)
        apply(0, present[found.sources[0]].size)

    def _check_indices(self, present: Mapping[int, Array], wanted: Mapping[int, Array]) -> None:
        for role, indices in (("present", present), ("wanted", wanted)):
            for index in indices:
                if not 0 <= index < self.n:
                    raise FragmentIndexError(index, self.n, role)
        for index in wanted:
            if index in present:
                raise FragmentIndexError(index, self.n, "both present and wanted")

    def _prepare_recovery(self, present: tuple[int, ...], wanted: tuple[int, ...]) -> tuple[Recovery, Product]:
        found = recovery(self.parity_matrix, present, wanted)
        return found, self._kernel.product(found.coefficients)


def _bound(
    product: Product,
    role: str,
    sources: Mapping[int, Array],
    outputs: Mapping[int, Array],
    unused: Mapping[int, Array] | None = None,
) -> Apply:
    """Check all buffers, then bind the product to sources and outputs; without outputs there is no work."""
    inputs = {**sources, **(unused or {})}
    for index, buffer in inputs.items():
        check_buffer("present" if role == "wanted" else "data", index, buffer)
    for index, buffer in outputs.items():
        check_buffer(role, index, buffer, output=True)
    length = next(iter(sources.values())).size
    check_equal_lengths("fragment", [*inputs, *outputs], [*inputs.values(), *outputs.values()], length)
    check_overlap(role, list(inputs.values()), list(outputs.values()))
    if not outputs:
        return lambda _start, _stop: None
    return product.bind(list(sources.values()), list(outputs.values()))
