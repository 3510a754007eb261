"""Verified bytes into tensors: straight into the memory of a contiguous CPU tensor, else by way of one of its size."""

from collections.abc import Callable

import numpy as np
import torch

from ckptstore.buffers import Bytes

__all__ = ["destination"]


def destination(tensor: torch.Tensor) -> tuple[Bytes, Callable[[], None]]:
    """Where a tensor's bytes go, flat and row-major, and what to call once all of them are there."""
    plain = tensor.detach()
    if not plain.numel():
        return np.empty(0, np.uint8), _nothing
    if plain.device.type == "cpu" and plain.is_contiguous() and not plain.is_conj() and not plain.is_neg():
        return plain.reshape(-1).view(torch.uint8).numpy(), _nothing
    staged = torch.empty(plain.shape, dtype=plain.dtype, device="cpu")

    def arrive() -> None:
        plain.copy_(staged)

    return staged.reshape(-1).view(torch.uint8).numpy(), arrive


def _nothing() -> None:
    """Nothing is left to do."""
