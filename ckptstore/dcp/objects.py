"""Byte objects of a checkpoint: one Python value each, as typed JSON; pickle only where it was asked for.

{"object": 1, "value": …}           typed JSON, see `typed_json`
{"object": 1, "torch_zip": "…"}     what `torch.save` wrote, in base64: saved with allow_pickle=True and
                                    loaded only with allow_pickle=True, since unpickling runs code
"""

import base64
import io
import json
import threading
from typing import Any

import numpy as np
import torch
from numpy._core import multiarray  # where numpy's own pickles say that their two constructors live

from ckptstore.dcp.typed_json import from_json, to_json
from ckptstore.errors import CorruptError, UnsupportedValue

__all__ = ["decode", "encode", "from_torch_zip", "to_torch_zip"]

_VERSION = 1
_MALFORMED = (ValueError, TypeError, KeyError, RuntimeError, OverflowError, MemoryError, AttributeError)


def encode(value: Any, *, key: str = "", allow_pickle: bool = False) -> bytes:
    """The stored bytes of `value`: equal values give equal bytes in every process.

    Raises `UnsupportedValue`, naming `key` and the path below it, for what typed JSON can't hold;
    with `allow_pickle` such a value is pickled instead.
    """
    try:
        return _dump({"value": to_json(value, key)})
    except UnsupportedValue:
        if not allow_pickle:
            raise
        return _dump({"torch_zip": base64.b64encode(_torch_save(value)).decode("ascii")})


def decode(data: bytes, *, key: str = "", allow_pickle: bool = False) -> Any:
    """The value of stored bytes. Safe on hostile input: no code runs, depth and allocation are bounded.

    Raises `CorruptError` for bytes that aren't a byte object, `UnsupportedValue` for a pickled one
    without `allow_pickle`; both name `key`.
    """
    try:
        document = _parse(data)
        if "torch_zip" not in document:
            return from_json(document["value"])
        pickled = base64.b64decode(document["torch_zip"], validate=True)
    except (*_MALFORMED, RecursionError) as error:
        raise CorruptError(f"object {key!r} is malformed: {error}", key=key, hint="run: ckpt verify") from error
    _check_pickle_allowed(allow_pickle, key)
    return _torch_load(pickled, weights_only=False)


def from_torch_zip(data: bytes, *, key: str = "", allow_pickle: bool = False) -> bytes:
    """The bytes to store for the `torch.save` archive that a stock DCP planner hands over.

    Raises `UnsupportedValue` naming `key` for what can't be read with weights_only or stored as typed JSON;
    with `allow_pickle` the archive is stored as it is, and marked.
    """
    try:
        return encode(_torch_load(data, weights_only=True), key=key)
    except Exception as error:  # torch raises UnpicklingError, RuntimeError, AttributeError … by version
        if allow_pickle:
            return _dump({"torch_zip": base64.b64encode(data).decode("ascii")})
        if isinstance(error, UnsupportedValue):
            raise
        raise UnsupportedValue(
            f"object {key!r} can't be stored without pickle: {error}",
            key=key,
            hint="or ask for allow_pickle=True",
        ) from error


def to_torch_zip(data: bytes, *, key: str = "", allow_pickle: bool = False) -> bytes:
    """Stored bytes as the archive that a stock planner's `load_bytes` reads. Raises as `decode` does."""
    return _torch_save(decode(data, key=key, allow_pickle=allow_pickle))


def _check_pickle_allowed(allowed: bool, key: str) -> None:
    if not allowed:
        raise UnsupportedValue(
            f"object {key!r} was saved as a pickle; reading it runs whatever code it holds",
            key=key,
            hint="where you trust who wrote it: load with allow_pickle=True",
        )


def _dump(members: dict[str, Any]) -> bytes:
    return json.dumps({"object": _VERSION, **members}, separators=(",", ":"), allow_nan=False).encode("ascii")


def _parse(data: bytes) -> dict[str, Any]:
    document = json.loads(data, parse_constant=_no_constant)
    if not isinstance(document, dict) or document.get("object") != _VERSION:
        raise ValueError(f"not a byte object of version {_VERSION}")
    return document


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _torch_save(value: Any) -> bytes:
    buffer = io.BytesIO()
    torch.save(value, buffer)
    return buffer.getvalue()


_NUMPY_GLOBALS = [
    multiarray._reconstruct,  # noqa: SLF001  the name that numpy pickles use
    multiarray.scalar,
    np.ndarray,
    np.dtype,
    *(getattr(np.dtypes, name) for name in np.dtypes.__all__),
    frozenset,
]
"""What numpy arrays and scalars pickle to. None of these runs code of the archive's choice."""

_safe_globals_lock = threading.Lock()
"""torch keeps its allow-list in one global: two threads inside `safe_globals` would undo each other's."""


def _torch_load(data: bytes, *, weights_only: bool) -> Any:
    with _safe_globals_lock, torch.serialization.safe_globals(_NUMPY_GLOBALS):
        return torch.load(io.BytesIO(data), map_location="cpu", weights_only=weights_only)
