"""Tensors as bytes: the logical bits of any dense tensor, flat and row-major, copied only where it lies otherwise."""

import numpy as np
import torch

from ckptstore.buffers import Bytes

__all__ = ["object_bytes", "tensor_bytes"]


def tensor_bytes(tensor: torch.Tensor) -> Bytes:
    """The bits of a dense tensor. A view of its memory for a contiguous CPU tensor, else a copy of it.

    Conjugate and negative views are resolved: what is stored is what the tensor's elements are, not their storage.
    """
    plain = tensor.detach().resolve_conj().resolve_neg()
    flat = plain.to("cpu").contiguous().reshape(-1)
    if not flat.numel():
        return np.empty(0, np.uint8)
    return flat.view(torch.uint8).numpy()


def object_bytes(data: bytes | bytearray | memoryview) -> Bytes:
    """Bytes as the pipeline wants them."""
    return np.frombuffer(data, np.uint8)
