"""Where an array's bytes are."""

import ctypes
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["address"]


def address(array: npt.NDArray[np.generic]) -> int:
    """Address of the first byte, valid as long as the array lives.

    numpy's own ways take 4 us, a third of encoding 64 KiB; this one takes 1 us but only writable memory.
    """
    if array.flags.writeable and array.size:
        return ctypes.addressof(ctypes.c_char.from_buffer(array.data))
    interface: dict[str, Any] = array.__array_interface__
    return int(interface["data"][0])
