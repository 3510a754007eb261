"""The erasure code of ckptstore: Reed-Solomon as reedsolo has it, at the speed of Intel ISA-L, with CRC32C.

`Code` encodes and reconstructs fragments, `encode_stripe` encodes and checksums in one pass, `StripeShape`
and `cut` say which bytes are where. Buffers are the caller's: 1-D C-contiguous uint8 numpy arrays. Decoding
never detects damage: check the CRC of every block before it is used.
"""

from erasure.checksum import block_crcs, crc32c, crc32c_joined
from erasure.code import Code
from erasure.errors import ErasureError, KernelWarning
from erasure.fused import encode_stripe
from erasure.kernels import active_kernel
from erasure.stripes import Piece, StripeShape, cut

__all__ = [
    "Code",
    "ErasureError",
    "KernelWarning",
    "Piece",
    "StripeShape",
    "block_crcs",
    "crc32c",
    "crc32c_joined",
    "cut",
    "encode_stripe",
    "kernel_name",
]


def kernel_name() -> str:
    """Name the arithmetic of this process: "isal" or "numpy"."""
    return active_kernel().name
