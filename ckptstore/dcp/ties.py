"""Tied tensors: keys that name one and the same memory."""

from collections.abc import Hashable, Mapping
from typing import Any

import torch
from torch.distributed.tensor import DTensor

from ckptstore.dcp.tensors import local_part

__all__ = ["tied"]


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
