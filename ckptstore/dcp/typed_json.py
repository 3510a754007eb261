"""Python values as JSON with their types.

What None, a bool, a str, a list or a plain number is, JSON says itself; everything else is an object with one
member, whose name is the type:

    7                 7                       (1, 2)        {"tuple": [1, 2]}
    2 ** 60           {"int": "0x1000…"}      {1: "a"}      {"dict": [[1, "a"]]}
    -0.0              -0.0                    {3, 1}        {"set": [1, 3]}
    inf               {"float": "7ff0…"}      b"a"          {"bytes": "YQ=="}

Types are matched exactly, never by `isinstance`: a subclass would come back as something else than it was.
"""

import base64
import binascii
import json
import math
import re
import struct
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from ckptstore.dcp import arrays
from ckptstore.dcp.tensors import dtype_name, torch_dtype
from ckptstore.errors import UnsupportedValue

__all__ = ["MAX_DEPTH", "from_json", "to_json"]

MAX_DEPTH = 100
"""Containers in containers; far below the interpreter's recursion limit, so that deep input fails cleanly."""

_SURROGATE = re.compile("[\ud800-\udfff]")

_EXACT_IN_JSON = 1 << 53
"""Readers that hold JSON numbers as doubles are exact up to here."""


def to_json(value: Any, path: str = "", depth: int = 0) -> Any:
    """`value` as what `json.dumps` takes. `UnsupportedValue` names `path` and what is wrong below it."""
    if value is None or type(value) is bool:
        return value
    if depth > MAX_DEPTH:
        raise UnsupportedValue(f"{path}: nested deeper than {MAX_DEPTH}, or contains itself", key=path)
    if isinstance(value, torch.Tensor):
        return {"tensor": arrays.tensor_to_json(value, path)}
    if isinstance(value, np.generic):
        return {"numpy": arrays.array_to_json(np.asarray(value), path)}
    encoder = _ENCODERS.get(type(value))
    if encoder is None:
        raise UnsupportedValue(
            f"{path}: a {_name_of(value)} can't be stored without pickle",
            key=path,
            hint="turn it into plain Python: str(), list(), dict(), vars(), dataclasses.asdict() …",
        )
    return encoder(value, path, depth)


def from_json(node: Any, depth: int = 0) -> Any:
    """The value that `to_json` was given.

    Hostile input raises `ValueError`, `TypeError`, `KeyError`, `RuntimeError` or `OverflowError`; it runs no
    code, and can't allocate more than a small multiple of its own size.
    """
    if depth > MAX_DEPTH:
        raise ValueError(f"nested deeper than {MAX_DEPTH}")
    if isinstance(node, list):
        return [from_json(item, depth + 1) for item in node]
    if not isinstance(node, dict):
        return node
    if len(node) != 1:
        raise ValueError(f"an object must have one member, its type; this one has {len(node)}")
    ((tag, body),) = node.items()
    return _DECODERS[tag](body, depth)


# -- encoders: (value, path, depth) -> JSON ------------------------------------------------------------------


def _int(value: int, _path: str, _depth: int) -> Any:
    return value if abs(value) <= _EXACT_IN_JSON else {"int": hex(value)}


def _float(value: float, _path: str, _depth: int) -> Any:
    return value if math.isfinite(value) else {"float": struct.pack(">d", value).hex()}


def _complex(value: complex, path: str, depth: int) -> Any:
    return {"complex": [_float(value.real, path, depth), _float(value.imag, path, depth)]}


def _str(value: str, _path: str, _depth: int) -> Any:
    if _SURROGATE.search(value):  # JSON would join two of them into one character
        return {"str": _base64(value.encode("utf-8", "surrogatepass"))}
    return value


def _base64(value: bytes | bytearray) -> str:
    return base64.b64encode(value).decode("ascii")


def _items(values: Any, path: str, depth: int) -> list[Any]:
    return [to_json(item, f"{path}[{number}]", depth + 1) for number, item in enumerate(values)]


def _unordered(values: Any, path: str, depth: int) -> list[Any]:
    """Sorted by their JSON: every process must encode equal sets to equal bytes, whatever its hash seed."""
    return sorted((to_json(item, f"{path}{{…}}", depth + 1) for item in values), key=json.dumps)


def _pairs(values: Any, path: str, depth: int) -> list[Any]:
    return [
        [to_json(key, f"{path}: key", depth + 1), to_json(item, f"{path}[{key!r}]", depth + 1)]
        for key, item in values.items()
    ]


_ENCODERS: dict[type, Callable[[Any, str, int], Any]] = {
    int: _int,
    float: _float,
    complex: _complex,
    str: _str,
    bytes: lambda value, _path, _depth: {"bytes": _base64(value)},
    bytearray: lambda value, _path, _depth: {"bytearray": _base64(value)},
    list: _items,
    tuple: lambda value, path, depth: {"tuple": _items(value, path, depth)},
    set: lambda value, path, depth: {"set": _unordered(value, path, depth)},
    frozenset: lambda value, path, depth: {"frozenset": _unordered(value, path, depth)},
    dict: lambda value, path, depth: {"dict": _pairs(value, path, depth)},
    OrderedDict: lambda value, path, depth: {"OrderedDict": _pairs(value, path, depth)},
    torch.dtype: lambda value, _path, _depth: {"torch.dtype": dtype_name(value)},
    torch.Size: lambda value, _path, _depth: {"torch.Size": list(value)},
    torch.device: lambda value, _path, _depth: {"torch.device": str(value)},
    np.ndarray: lambda value, path, _depth: {"ndarray": arrays.array_to_json(value, path)},
    np.memmap: lambda value, path, _depth: {"ndarray": arrays.array_to_json(value, path)},
}


def _name_of(value: Any) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")


# -- decoders: (body, depth) -> value ------------------------------------------------------------------------


def _to_bytes(body: Any) -> bytes:
    if not isinstance(body, str):
        raise TypeError(f"base64 text expected, not {type(body).__name__}")
    try:
        return base64.b64decode(body, validate=True)
    except binascii.Error as error:
        raise ValueError(f"not base64: {error}") from error


def _to_list(body: Any, depth: int) -> list[Any]:
    if not isinstance(body, list):
        raise TypeError(f"an array expected, not {type(body).__name__}")
    return [from_json(item, depth + 1) for item in body]


def _to_pairs(body: Any, depth: int) -> list[tuple[Any, Any]]:
    pairs = [tuple(pair) for pair in _to_list(body, depth)]
    if len(dict(pairs)) != len(pairs):
        raise ValueError("a key occurs twice")
    return pairs


def _to_set(body: Any, depth: int) -> list[Any]:
    items = _to_list(body, depth)
    if len(set(items)) != len(items):
        raise ValueError("a member occurs twice")
    return items


def _to_float(body: Any) -> float:
    bits = int(body, 16).to_bytes(8, "big")
    return float(struct.unpack(">d", bits)[0])


def _to_complex(body: Any, depth: int) -> complex:
    real, imag = _to_list(body, depth)
    return complex(real, imag)


_DECODERS: dict[str, Callable[[Any, int], Any]] = {
    "int": lambda body, _depth: int(body, 16),
    "float": lambda body, _depth: _to_float(body),
    "complex": _to_complex,
    "str": lambda body, _depth: _to_bytes(body).decode("utf-8", "surrogatepass"),
    "bytes": lambda body, _depth: _to_bytes(body),
    "bytearray": lambda body, _depth: bytearray(_to_bytes(body)),
    "tuple": lambda body, depth: tuple(_to_list(body, depth)),
    "set": lambda body, depth: set(_to_set(body, depth)),
    "frozenset": lambda body, depth: frozenset(_to_set(body, depth)),
    "dict": lambda body, depth: dict(_to_pairs(body, depth)),
    "OrderedDict": lambda body, depth: OrderedDict(_to_pairs(body, depth)),
    "torch.dtype": lambda body, _depth: torch_dtype(body),
    "torch.Size": lambda body, _depth: torch.Size(body),
    "torch.device": lambda body, _depth: torch.device(body),
    "numpy": lambda body, _depth: arrays.array_from_json(body)[()],
    "ndarray": lambda body, _depth: arrays.array_from_json(body),
    "tensor": lambda body, _depth: arrays.tensor_from_json(body),
}
