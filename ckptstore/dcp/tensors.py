"""Which tensors can be stored, and what their dtypes are called."""

from collections.abc import Callable

import torch
from torch.distributed.tensor import DTensor, Partial

from ckptstore.dtypes import DTYPES
from ckptstore.errors import UnsupportedValue
from ckptstore.save.snapshot import reinterpreted

__all__ = [
    "check_tensor",
    "dtype_name",
    "local_part",
    "same_bits",
    "tensor_from_bytes",
    "torch_dtype",
]


def dtype_name(dtype: torch.dtype) -> str:
    """`bfloat16` for torch.bfloat16."""
    return str(dtype).removeprefix("torch.")


def torch_dtype(name: str) -> torch.dtype:
    """The storable dtype of that name; `KeyError` where there is none."""
    if name not in DTYPES or not isinstance(dtype := getattr(torch, name, None), torch.dtype):
        raise KeyError(name)
    return dtype


def local_part(tensor: torch.Tensor) -> torch.Tensor:
    """What this process holds: a DTensor's local tensor, any other tensor itself; detached."""
    return (tensor.to_local() if isinstance(tensor, DTensor) else tensor).detach()


def check_tensor(tensor: torch.Tensor, key: str, *, as_destination: bool = False) -> None:
    """Refuse a tensor whose values aren't plain bytes, to be saved or loaded into: `UnsupportedValue` naming the key.

    A meta tensor may be a destination: a real one takes its place.
    """
    reason = _unsupported(tensor)
    if reason and not (as_destination and tensor.is_meta):
        verb = "loaded into" if as_destination else "saved"
        raise UnsupportedValue(f"{key!r} can't be {verb}: {reason}", key=key, hint=_HINTS.get(reason))


def _unsupported(tensor: torch.Tensor) -> str | None:
    if isinstance(tensor, DTensor):
        partial = any(isinstance(placement, Partial) for placement in tensor.placements)
        return _PARTIAL if partial else _unsupported(local_part(tensor))
    for matches, reason in _KINDS:
        if matches(tensor):
            return reason
    if tensor.layout != torch.strided:
        return f"its layout is {tensor.layout}, not strided"
    return None if dtype_name(tensor.dtype) in DTYPES else f"the format has no dtype {tensor.dtype}"


_PARTIAL = "a DTensor with Partial placements holds unreduced sums"
_META = "a meta tensor has no values"
_QUANTISED = "a quantised tensor's scales are not part of its bytes"
_WRAPPER = "its class wraps other tensors"

_KINDS: list[tuple[Callable[[torch.Tensor], bool], str]] = [
    (lambda tensor: hasattr(tensor, "fake_mode"), "a FakeTensor has no values"),
    (lambda tensor: tensor.is_meta, _META),
    (lambda tensor: tensor.is_nested, "a nested tensor is not one array"),
    (lambda tensor: tensor.is_quantized, _QUANTISED),
    (lambda tensor: hasattr(tensor, "__tensor_flatten__"), _WRAPPER),
]
"""In this order: a FakeTensor claims to be anything."""

_HINTS = {
    _PARTIAL: "redistribute it to Shard or Replicate first",
    _META: "materialise it: module.to_empty(device=...)",
    _QUANTISED: "save its int_repr(), scale and zero point",
    _WRAPPER: "save the tensors that it wraps",
}


def tensor_from_bytes(data: bytes, dtype: torch.dtype, shape: list[int]) -> torch.Tensor:
    """A new tensor on the CPU. `RuntimeError` where the bytes aren't of that shape."""
    flat = torch.frombuffer(bytearray(data), dtype=torch.uint8) if data else torch.empty(0, dtype=torch.uint8)
    return flat.view(dtype).reshape(shape)


def same_bits(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Bitwise equality: NaN payloads and the sign of zero count."""
    return torch.equal(reinterpreted(one.detach()), reinterpreted(other.detach()))
