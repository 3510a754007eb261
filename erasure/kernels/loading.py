"""Choosing the kernels: the first that is there and proves itself."""

import functools
import warnings
from collections.abc import Callable, Iterable
from typing import TypeVar

from erasure.errors import KernelError, KernelWarning
from erasure.kernels.interface import Checksum, Kernel
from erasure.kernels.isal import IsalChecksum, IsalKernel, library_paths
from erasure.kernels.proof import prove_checksum, prove_kernel
from erasure.kernels.tables import PackageChecksum, TableKernel

__all__ = ["active_checksum", "active_kernel", "choose"]

T = TypeVar("T")


@functools.cache
def active_kernel() -> Kernel:
    """Give the kernel of this process: ISA-L, else numpy tables with a KernelWarning.

    Two threads that come first together may both load and prove it; either result is right.
    """
    fast: Callable[[str], Kernel] = IsalKernel
    return choose(fast, library_paths(), TableKernel, prove_kernel)


@functools.cache
def active_checksum() -> Checksum:
    """Give the CRC32C of this process: ISA-L's, else the crc32c package's with a KernelWarning."""
    fast: Callable[[str], Checksum] = IsalChecksum
    return choose(fast, library_paths(), PackageChecksum, prove_checksum)


def choose(make: Callable[[str], T], paths: Iterable[str], fallback: Callable[[], T], prove: Callable[[T], None]) -> T:
    """Make the kernel from each library in turn; the first that proves itself, else the fallback.

    A KernelWarning names what can't be used and why. Raises KernelError if the fallback is wrong too.
    """
    reasons: list[str] = []
    for path in paths:
        try:
            candidate = make(path)
            prove(candidate)
        except (OSError, AttributeError, KernelError) as error:
            reasons.append(f"{path}: {error}")
        else:
            _warn(reasons, "another copy of ISA-L")
            return candidate
    last = fallback()
    prove(last)
    _warn(reasons, f"{type(last).__name__}, which is slower")
    return last


def _warn(reasons: list[str], instead: str) -> None:
    if reasons:
        message = f"ISA-L can't be used ({'; '.join(reasons)}); using {instead}. Reinstall pyeclib or libisal."
        warnings.warn(message, KernelWarning, stacklevel=4)
