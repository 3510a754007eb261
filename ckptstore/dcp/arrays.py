"""Arrays and tensors inside typed JSON: {"dtype", "shape", "data" in base64}, bit for bit."""

import base64
import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.distributed.tensor import DTensor

from ckptstore.dcp.tensors import check_tensor, dtype_name, tensor_from_bytes, torch_dtype
from ckptstore.errors import UnsupportedValue
from ckptstore.save.snapshot import tensor_bytes

__all__ = ["array_from_json", "array_to_json", "tensor_from_json", "tensor_to_json"]


def array_to_json(array: NDArray[Any], path: str) -> dict[str, Any]:
    """A numpy array of any dtype that its `str` names; object and structured dtypes are refused."""
    dtype = array.dtype
    if dtype.hasobject or not dtype.itemsize or np.dtype(dtype.str) != dtype:
        raise UnsupportedValue(f"{path}: a numpy array of dtype {dtype} can't be stored", key=path)
    return {"dtype": dtype.str, "shape": list(array.shape), "data": _base64(array.tobytes())}


def array_from_json(body: Any) -> NDArray[Any]:
    """The array, writable. `ValueError`, `TypeError` or `KeyError` where shape, dtype and data don't fit."""
    dtype, shape, data = np.dtype(str(body["dtype"])), _shape(body), _data(body)
    if dtype.hasobject or not dtype.itemsize:
        raise ValueError(f"dtype {dtype} can't be stored")
    _check_size(shape, dtype.itemsize, data)
    return np.frombuffer(bytearray(data), dtype).reshape(shape)


def tensor_to_json(tensor: torch.Tensor, path: str) -> dict[str, Any]:
    """A tensor inside an object (in a set, say). Large ones belong in dicts, lists or tuples."""
    check_tensor(tensor, path)
    if isinstance(tensor, DTensor):
        raise UnsupportedValue(f"{path}: a DTensor must stand in a dict, list or tuple", key=path)
    return {
        "dtype": dtype_name(tensor.dtype),
        "shape": list(tensor.shape),
        "data": _base64(tensor_bytes(tensor).tobytes()),
    }


def tensor_from_json(body: Any) -> torch.Tensor:
    """The tensor, on the CPU. `ValueError`, `TypeError` or `KeyError` as above."""
    dtype, shape, data = torch_dtype(body["dtype"]), _shape(body), _data(body)
    _check_size(shape, dtype.itemsize, data)
    return tensor_from_bytes(data, dtype, shape)


def _shape(body: Any) -> list[int]:
    shape = body["shape"]
    if not isinstance(shape, list) or not all(type(size) is int and size >= 0 for size in shape):
        raise ValueError(f"not a shape: {shape!r:.100}")
    return shape


def _data(body: Any) -> bytes:
    return base64.b64decode(body["data"], validate=True)


def _check_size(shape: list[int], itemsize: int, data: bytes) -> None:
    if math.prod(shape) * itemsize != len(data):
        raise ValueError(f"{len(data)} bytes for shape {shape} of {itemsize}-byte items")


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")
