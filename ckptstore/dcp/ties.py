"""Keys that share memory: tied tensors, which are one, and views that overlap, which are not."""

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np
import torch
from torch.distributed.tensor import DTensor

from ckptstore.dcp.tensors import local_part

__all__ = ["overlapping", "tied"]


def tied(leaves: Mapping[str, Any]) -> dict[str, str]:
    """{alias: key} for tensors of the same memory, shape and strides; `key` is the first of them by name.

    Not by position: ranks whose dicts are ordered differently must choose the same key.
    """
    first: dict[Hashable, str] = {}
    aliases: dict[str, str] = {}
    for name in sorted(name for name, leaf in leaves.items() if isinstance(leaf, torch.Tensor)):
        memory = _memory(leaves[name])
        if memory is not None and first.setdefault(memory, name) != name:
            aliases[name] = first[memory]
    return aliases


def _memory(tensor: torch.Tensor) -> Hashable | None:
    """What tells one tensor's memory from another's; None for a tensor that has none."""
    local = local_part(tensor)
    if not local.numel() or local.is_meta:
        return None
    where = (local.device, local.untyped_storage().data_ptr(), local.storage_offset(), local.stride())
    what = (local.dtype, tuple(local.shape), local.is_conj(), local.is_neg(), tuple(tensor.shape))
    spread = (tensor.device_mesh, tensor.placements) if isinstance(tensor, DTensor) else None
    return (where, what, spread)


def overlapping(values: Mapping[str, Any]) -> set[str]:
    """Keys of tensors and arrays that lie in a stretch of memory that another one's elements reach into."""
    spans = sorted((*span, name) for name, value in values.items() if (span := _span(value)) is not None)
    found: set[str] = set()
    last: tuple[str, int, str] = ("", 0, "")
    for device, start, stop, name in spans:
        if device == last[0] and start < last[1]:
            found |= {name, last[2]}
        if device != last[0] or stop > last[1]:
            last = (device, stop, name)
    return found


def _span(value: Any) -> tuple[str, int, int] | None:
    """Device, and the first and last byte of memory that a tensor's or an array's elements lie in."""
    if isinstance(value, np.ndarray):
        reach = [(size - 1) * stride for size, stride in zip(value.shape, value.strides, strict=True)]
        start = value.ctypes.data + sum(each for each in reach if each < 0)
        last = value.ctypes.data + sum(each for each in reach if each > 0)
        return ("cpu", start, last + value.itemsize) if value.size else None
    if not isinstance(value, torch.Tensor) or value.is_meta or not (local := local_part(value)).numel():
        return None
    reach = [(size - 1) * stride for size, stride in zip(local.shape, local.stride(), strict=True)]
    return str(local.device), local.data_ptr(), local.data_ptr() + (sum(reach) + 1) * local.itemsize
