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

_UNFOLD = "load into a tensor that isn't expanded: .clone() or .contiguous()"

__all__ = ["Destination", "array_over_others", "beside", "in_array", "in_tensor", "new_like", "over_others"]


class Destination:
    """`tensor` is read into; `finish` then gives the value that goes into the state.

    `check` is called when all destinations are finished, where others may have written to the same memory.
    """

    def __init__(
        self,
        tensor: torch.Tensor,
        finish: Callable[[], Any] | None = None,
        check: Callable[[], None] | None = None,
    ) -> None:
        self.tensor = tensor
        self.finish = finish or (lambda: tensor)
        self.check = check or _nothing


def _nothing() -> None:
    """What has its memory to itself needs no check."""


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
        _refuse_folded(local, key)
        return Destination(tensor)
    fresh = new_like(tensor)
    return Destination(fresh, lambda: _into_expanded(fresh, tensor, key))


def _refuse_folded(local: torch.Tensor, key: str) -> None:
    """Refuse a tensor laid over itself, as by `as_strided`: whatever was read last would win."""
    by_stride = sorted(zip(local.stride(), local.shape, strict=True))
    reach = 0
    for stride, size in by_stride:
        if size > 1:
            if stride <= reach:
                raise ReplicaMismatch(f"elements of {key!r} share memory in the destination", key=key, hint=_UNFOLD)
            reach += (size - 1) * stride


def _into_expanded(fresh: torch.Tensor, tensor: torch.Tensor, key: str) -> torch.Tensor:
    source, target = local_part(fresh), local_part(tensor)
    once = tuple(slice(0, 1) if stride == 0 else slice(None) for stride in target.stride())
    target[once].copy_(source[once])
    if not same_bits(source, target):
        raise ReplicaMismatch(
            f"elements of {key!r} share memory in the destination, and differ in the checkpoint",
            key=key,
            hint=_UNFOLD,
        )
    return tensor


def beside(tensor: torch.Tensor, keys: tuple[str, str]) -> Destination:
    """The second of two keys that name one tensor here and were stored apart: their values must be equal."""
    fresh = new_like(tensor)

    def check() -> None:
        if not same_bits(local_part(fresh), local_part(tensor)):
            raise ReplicaMismatch(
                f"{keys[0]!r} and {keys[1]!r} are one tensor here, and differ in the checkpoint",
                key=keys[1],
                keys=keys,
                hint="untie them, or load one of the two",
            )

    return Destination(fresh, lambda: tensor, check)


def over_others(tensor: torch.Tensor, key: str) -> Destination:
    """A view of memory that other keys reach into: what is there in the end must do for all of them."""
    fresh = new_like(tensor)

    def finish() -> torch.Tensor:
        local_part(tensor).copy_(local_part(fresh))
        return tensor

    def check() -> None:
        if not same_bits(local_part(fresh), local_part(tensor)):
            raise _clash(key)

    return Destination(fresh, finish, check)


def array_over_others(value: np.ndarray[Any, Any], saved: torch.Tensor, key: str) -> Destination:
    """The same for a numpy array."""
    fresh = saved.numpy()

    def check() -> None:
        if value.tobytes() != fresh.astype(value.dtype).tobytes():
            raise _clash(key)

    return Destination(saved, in_array(value, saved).finish, check)


def _clash(key: str) -> ReplicaMismatch:
    message = f"{key!r} shares memory with another key here, and they differ in the checkpoint"
    return ReplicaMismatch(message, key=key, hint="load into tensors of their own: .clone()")


def in_array(value: Any, saved: torch.Tensor) -> Destination:
    """A template's numpy array, in place where it can be: cast, where its dtype is another, for that was allowed."""
    fresh = saved.numpy()
    if not (isinstance(value, np.ndarray) and value.shape == fresh.shape and value.flags.writeable):
        return Destination(saved, lambda: fresh)

    def finish() -> Any:
        np.copyto(value, fresh, casting="unsafe")
        return value

    return Destination(saved, finish)
