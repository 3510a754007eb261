"""Intel ISA-L through ctypes, which releases the GIL for the time of every call.

Functions: `ec_init_tables`, `ec_encode_data` (erasure_code.h) and `crc32_iscsi` (crc.h).
"""

import ctypes
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from erasure.kernels.interface import Apply, Array, Update
from erasure.kernels.memory import address

__all__ = ["IsalChecksum", "IsalKernel", "library_paths"]

# Lengths are C ints in ISA-L.
_MAX_CALL = 1 << 30
_SYSTEM_NAMES = ("libisal.so.2", "libisal.so", "libisal.2.dylib")
# ec_init_tables writes 32 bytes for each coefficient.
_TABLE_BYTES = 32
_ALL_ONES = 0xFFFFFFFF


def library_paths() -> Iterator[str]:
    """Where ISA-L may be: inside the pyeclib wheel, then under the system's names for it."""
    # A tenth of the command line's budget of CPU, so only paid where something is encoded.
    from importlib import metadata

    try:
        files = metadata.files("pyeclib") or []
    except metadata.PackageNotFoundError:
        files = []
    for file in files:
        if file.name.startswith("libisal"):
            yield str(Path(str(file.locate())).resolve())
    yield from _SYSTEM_NAMES


class IsalKernel:
    """Multiplies by `ec_encode_data`. Raises OSError or AttributeError if the library can't serve."""

    name = "isal"

    def __init__(self, path: str) -> None:
        library = ctypes.CDLL(path)
        self._init = library.ec_init_tables
        self._init.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
        self._init.restype = None
        self.encode = library.ec_encode_data
        self.encode.argtypes = [ctypes.c_int] * 3 + [ctypes.c_void_p] * 3
        self.encode.restype = None

    def product(self, coefficients: Array) -> "IsalProduct":
        """Expand the coefficients into ISA-L's tables."""
        rows, columns = coefficients.shape
        matrix = np.ascontiguousarray(coefficients)
        tables = np.zeros(_TABLE_BYTES * rows * columns, np.uint8)
        self._init(columns, rows, address(matrix), address(tables))
        return IsalProduct(self, tables, rows, columns)


class IsalProduct:
    """ISA-L's tables of one coefficient matrix."""

    def __init__(self, kernel: IsalKernel, tables: Array, rows: int, columns: int) -> None:
        self.encode, self.tables, self.rows, self.columns = kernel.encode, tables, rows, columns

    def bind(self, sources: Sequence[Array], outputs: Sequence[Array]) -> Apply:
        """Resolve the addresses once."""
        return _IsalApply(self, sources, outputs)


class _IsalApply:
    """Adds `start` to all addresses in one operation and passes them as ISA-L's two pointer arrays."""

    __slots__ = ("_base", "_columns", "_encode", "_held", "_pointers", "_rows", "_where")

    def __init__(self, product: "IsalProduct", sources: Sequence[Array], outputs: Sequence[Array]) -> None:
        self._encode, self._rows, self._columns = product.encode, product.rows, product.columns
        self._base = np.array([address(b) for b in (*sources, *outputs)], np.uintp)
        self._pointers = self._base.copy()
        first = address(self._pointers)
        self._where = (address(product.tables), first, first + product.columns * self._pointers.itemsize)
        # ISA-L sees addresses only: what they point at must live as long as this does.
        self._held = (product.tables, *sources, *outputs)

    def __call__(self, start: int, stop: int) -> None:
        for at in range(start, stop, _MAX_CALL):
            np.add(self._base, at, out=self._pointers)
            self._encode(min(_MAX_CALL, stop - at), self._columns, self._rows, *self._where)


class IsalChecksum:
    """`crc32_iscsi`: it takes and returns the register itself, so both inversions of CRC32C are made here."""

    name = "isal"

    def __init__(self, path: str) -> None:
        self.crc = ctypes.CDLL(path).crc32_iscsi
        self.crc.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_uint]
        self.crc.restype = ctypes.c_uint

    def bind(self, buffer: Array) -> Update:
        """Resolve the address once."""
        return _IsalUpdate(self, buffer)


class _IsalUpdate:
    __slots__ = ("_address", "_crc", "_held")

    def __init__(self, checksum: IsalChecksum, buffer: Array) -> None:
        self._crc, self._address, self._held = checksum.crc, address(buffer), buffer

    def __call__(self, start: int, stop: int, value: int) -> int:
        register = value ^ _ALL_ONES
        for at in range(start, stop, _MAX_CALL):
            register = self._crc(self._address + at, min(_MAX_CALL, stop - at), register)
        return register ^ _ALL_ONES
