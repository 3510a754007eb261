"""The kernels under test."""

import pytest

from erasure.kernels import Kernel
from erasure.kernels.isal import IsalKernel, library_paths
from erasure.kernels.tables import TableKernel


@pytest.fixture(params=["isal", "numpy"])
def kernel(request) -> Kernel:
    """Each arithmetic kernel; ISA-L must be there, since the dependencies bring it."""
    return IsalKernel(next(library_paths())) if request.param == "isal" else TableKernel()
