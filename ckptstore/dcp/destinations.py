"""The tensors that a load reads into, for templates that can't be written directly.

Most tensors of a template are read into as they are. Others need one beside them, whose values are moved and
checked once all of it has been read: expanded tensors, and keys that share memory here but were stored apart.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch.distributed.tensor import DTensor

from ckptstore.dcp.tensors import local_part, same_bits
from ckptstore.errors import ReplicaMismatch

__all__ = ["Destination", "beside", "in_array", "in_tensor", "new_like"]


class Destination:
    """`tensor` is read into; `finish` then gives the value that goes into the state."""

    def __init__(self, tensor: torch.Tensor, finish: Callable[[], Any] | None = None) -> None:
        self.tensor = tensor
        self.finish = finish or (lambda: tensor)


def new_like(tensor: torch.Tensor) -> torch.Tensor:
    """An uninitialised tensor of the same shape, dtype and sharding; on a real device in place of meta."""
    local = local_part(tensor)
    device = local.device
    if local.is_meta:
        device = torch.device(tensor.device_mesh.device_type if isinstance(tensor, DTensor) else "cpu")
    fresh = torch.empty(local.shape, dtype=local.dtype, device=device)
    if not isinstance(tensor, DTensor):
        return fresh
    return DTensor.from_local(
        fresh,
        tensor.device_mesh,
        tensor.placements,
        run_check=False,
        shape=tensor.shape,
        stride=tensor.stride(),
    )


def in_tensor(tensor: torch.Tensor, key: str) -> Destination:
    """A template's tensor. Raises `ReplicaMismatch` in the end if elements that share memory differ."""
    local = local_part(tensor)
    if local.is_meta:
        return Destination(new_like(tensor))
    if not any(stride == 0 and size > 1 for stride, size in zip(local.stride(), local.shape, strict=True)):
        return Destination(tensor)
    fresh = new_like(tensor)
    return Destination(fresh, lambda: _into_expanded(fresh, tensor, key))


def _into_expanded(fresh: torch.Tensor, tensor: torch.Tensor, key: str) -> torch.Tensor:
    source, target = local_part(fresh), local_part(tensor)
    once = tuple(slice(0, 1) if stride == 0 else slice(None) for stride in target.stride())
    target[once].copy_(source[once])
    if not same_bits(source, target):
        raise ReplicaMismatch(
            f"elements of {key!r} share memory in the destination, and differ in the checkpoint",
            key=key,
            hint="load into a tensor that isn't expanded: .clone() or .contiguous()",
        )
    return tensor


def beside(tensor: torch.Tensor, keys: tuple[str, str]) -> Destination:
    """The second of two keys that name one tensor here and were stored apart: their values must be equal."""
    fresh = new_like(tensor)

    def finish() -> torch.Tensor:
        if not same_bits(local_part(fresh), local_part(tensor)):
            raise ReplicaMismatch(
                f"{keys[0]!r} and {keys[1]!r} are one tensor here, and differ in the checkpoint",
                key=keys[1],
                keys=keys,
                hint="untie them, or load one of the two",
            )
        return tensor

    return Destination(fresh, finish)


def in_array(value: Any, saved: torch.Tensor) -> Destination:
    """A template's numpy array, in place where it has the saved shape and dtype; else a new array."""
    fresh = saved.numpy()
    if not (isinstance(value, np.ndarray) and value.dtype == fresh.dtype and value.shape == fresh.shape):
        return Destination(saved, lambda: fresh)
    if not value.flags.writeable:
        return Destination(saved, lambda: fresh)

    def finish() -> Any:
        value[...] = fresh
        return value

    return Destination(saved, finish)
