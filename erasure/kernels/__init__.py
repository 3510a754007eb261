"""The arithmetic: matrix x fragments over GF(2^8), by Intel ISA-L or by numpy tables, and CRC32C.

A kernel must answer known vectors rightly before it is used; one that doesn't is left aside with a warning.
"""

from erasure.kernels.interface import Apply, Array, Checksum, Kernel, Product, Update
from erasure.kernels.loading import active_checksum, active_kernel

__all__ = ["Apply", "Array", "Checksum", "Kernel", "Product", "Update", "active_checksum", "active_kernel"]
