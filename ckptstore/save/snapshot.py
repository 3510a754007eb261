"""Tensors as bytes: the logical bits of any dense tensor, flat and row-major, copied only where it lies otherwise."""

import numpy as np
import torch

from ckptstore.buffers import Bytes

_SAME_SIZE = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
"""Dtypes that every kernel handles: sub-byte and bits dtypes can be reinterpreted, but not copied with strides."""

__all__ = ["lies_flat", "object_bytes", "reinterpreted", "tensor_bytes"]


def lies_flat(tensor: torch.Tensor) -> bool:
    """Whether `tensor_bytes` is a view of the tensor's own memory."""
    return tensor.device.type == "cpu" and tensor.is_contiguous() and not (tensor.is_conj() or tensor.is_neg())


def tensor_bytes(tensor: torch.Tensor) -> Bytes:
    """The bits of a dense tensor. A view of its memory for a contiguous CPU tensor, else a copy of it.

    Conjugate and negative views are resolved: what is stored is what the tensor's elements are, not their storage.
    """
    flat = reinterpreted(tensor.detach()).to("cpu").contiguous().reshape(-1)
    return flat.view(torch.uint8).numpy() if flat.numel() else np.empty(0, np.uint8)


def object_bytes(data: bytes | bytearray | memoryview) -> Bytes:
    """Bytes as the pipeline wants them."""
    return np.frombuffer(data, np.uint8)


def reinterpreted(tensor: torch.Tensor) -> torch.Tensor:
    """The same bits as integers of the same size."""
    resolved = tensor.resolve_conj().resolve_neg()
    if resolved.dtype.itemsize in _SAME_SIZE:
        return resolved.view(_SAME_SIZE[resolved.dtype.itemsize])
    return torch.view_as_real(resolved).view(torch.int64)  # complex128: two float64 an element
