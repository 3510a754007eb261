"""Known vectors that a kernel must answer rightly before it is used."""

import numpy as np

from erasure.errors import KernelError
from erasure.kernels.interface import Array, Checksum, Kernel
from erasure.kernels.tables import TableKernel

__all__ = ["prove_checksum", "prove_kernel"]

# RSCodec(3, nsize=7).encode(bytes([1, 2, 4, 142]))[4:], with the matrix that makes it.
_MATRIX = bytes.fromhex("8e631b07b0ba220e3fd83808")
_DATA = bytes([1, 2, 4, 142])
_PARITY = bytes.fromhex("a95676")

# Around ISA-L's vector widths of 16, 32 and 64 bytes, and its unrolled loops beyond.
_LENGTHS = (1, 15, 17, 31, 33, 63, 65, 127, 129, 1000)
# ISA-L has code of its own for 1 to 6 rows; 7 takes two passes.
_MAX_ROWS = 7
_COLUMNS = 5
_GUARD = 0xA5

# CRC-32C of "123456789" is the check value of the catalogue of parametrised CRC algorithms (CRC-32/ISCSI);
# the next four are from RFC 3720, B.4, and the long one was computed bit by bit from the polynomial.
_CHECKSUMS = (
    (b"123456789", 0xE3069283),
    (bytes(32), 0x8A9136AA),
    (b"\xff" * 32, 0x62A8AB43),
    (bytes(range(32)), 0x46DD794E),
    (bytes(range(31, -1, -1)), 0x113FDB5C),
    (bytes(range(251)) * 40, 0xDE5A7C10),
)


def prove_kernel(kernel: Kernel) -> None:
    """Raise KernelError unless the kernel gives reedsolo's known bytes, and the tables' on long vectors."""
    matrix = np.frombuffer(_MATRIX, np.uint8).reshape(len(_PARITY), len(_DATA))
    data = np.frombuffer(_DATA, np.uint8)[:, None]
    if _run(kernel, matrix, data).tobytes() != _PARITY:
        raise KernelError(kernel.name, "4+3, one byte")
    reference = TableKernel()
    for rows in range(1, _MAX_ROWS + 1):
        coefficients = (np.arange(rows * _COLUMNS) * 37 + 1).astype(np.uint8).reshape(rows, _COLUMNS)
        for length in _LENGTHS:
            sources = (np.arange(_COLUMNS * length) * 151 % 257).astype(np.uint8).reshape(_COLUMNS, length)
            if not np.array_equal(_run(kernel, coefficients, sources), _run(reference, coefficients, sources)):
                raise KernelError(kernel.name, f"{_COLUMNS}+{rows}, {length} bytes")


def _run(kernel: Kernel, coefficients: Array, sources: Array) -> Array:
    """Multiply into rows that lie close together and end in a guard row, which must stay as it was."""
    rows, length = coefficients.shape[0], sources.shape[1]
    outputs = np.full((rows + 1, length), _GUARD, np.uint8)
    kernel.product(coefficients).bind(list(sources), list(outputs[:rows]))(0, length)
    if (outputs[rows] != _GUARD).any():
        raise KernelError(kernel.name, f"{rows} rows, {length} bytes: wrote past the end")
    return outputs[:rows]


def prove_checksum(checksum: Checksum) -> None:
    """Raise KernelError unless known CRCs come out, whole and in two parts, short and long."""
    for data, expected in _CHECKSUMS:
        update = checksum.bind(np.frombuffer(data, np.uint8))
        for cut in (0, 1, len(data) // 2):
            if update(cut, len(data), update(0, cut, 0)) != expected:
                raise KernelError(checksum.name, f"CRC32C of {len(data)} bytes cut at {cut}")
