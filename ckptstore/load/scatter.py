"""Verified bytes into tensors: straight into the memory of a contiguous CPU tensor, else by way of one beside it."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from ckptstore.buffers import Bytes

__all__ = ["Destination", "destination"]


@dataclass(frozen=True, eq=False)
class Destination:
    """Where a tensor's stored bytes go, flat and row-major. `arrive` is to be called once all of them are there.

    `staged` bytes are held beside the tensor until then.
    """

    into: Bytes
    staged: int
    arrive: Callable[[], None]


def destination(tensor: torch.Tensor, stored: torch.dtype) -> Destination:
    """For a tensor of the stored dtype, or one that the values are to be cast to."""
    plain = tensor.detach()
    if not plain.numel():
        return Destination(np.empty(0, np.uint8), 0, _nothing)
    if _takes_bytes(plain, stored):
        return Destination(plain.view(-1).view(torch.uint8).numpy(), 0, _nothing)
    beside = torch.empty(plain.shape, dtype=stored, device="cpu")
    flat = beside.view(-1).view(torch.uint8).numpy()
    return Destination(flat, flat.size, lambda: _copy(beside, plain))


def _takes_bytes(tensor: torch.Tensor, stored: torch.dtype) -> bool:
    return (
        tensor.dtype == stored
        and tensor.device.type == "cpu"
        and tensor.is_contiguous()
        and not (tensor.is_conj() or tensor.is_neg())
    )


def _copy(beside: torch.Tensor, tensor: torch.Tensor) -> None:
    tensor.copy_(beside)


def _nothing() -> None:
    """The bytes are where they belong already."""
