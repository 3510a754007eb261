"""Verified bytes into tensors: straight into the memory of a contiguous CPU tensor, else by way of one beside it."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from ckptstore.buffers import Bytes

__all__ = ["Destination", "destination", "staged_bytes"]


@dataclass(frozen=True, eq=False)
class Destination:
    """Where a tensor's stored bytes go, flat and row-major. `arrive` is to be called once all of them are there."""

    into: Bytes
    arrive: Callable[[], None]


def destination(tensor: torch.Tensor, stored: torch.dtype) -> Destination:
    """For a tensor of the stored dtype, or one that the values are to be cast to."""
    plain = tensor.detach()
    if not plain.numel():
        return Destination(np.empty(0, np.uint8), _nothing)
    if _takes_bytes(plain, stored):
        return Destination(plain.view(-1).view(torch.uint8).numpy(), _nothing)
    beside = torch.empty(plain.shape, dtype=stored, device="cpu")
    return Destination(beside.view(-1).view(torch.uint8).numpy(), lambda: _copy(beside, plain))


def staged_bytes(tensor: torch.Tensor, stored: torch.dtype) -> int:
    """What `destination` holds beside the tensor until `arrive` has been called and it is let go."""
    return 0 if _takes_bytes(tensor.detach(), stored) else tensor.numel() * stored.itemsize


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
