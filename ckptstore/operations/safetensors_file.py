"""Headers of safetensors files: read with every claim checked, and laid out for writing.

The format is that of `ckptstore.header`, its `__metadata__` of strings. A dtype that it lacks, and which is therefore
written as U8, is named in the metadata.
"""

import json
import os
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, BinaryIO, NamedTuple

from ckptstore.dtypes import DTYPES, dtype_named, nbytes_of
from ckptstore.errors import KeyCollision, UnsupportedValue
from ckptstore.header import HEADER_LIMIT, METADATA, header_bytes, header_entry

ALIGNMENT = 8
"""Where the tensors begin, as safetensors itself pads its headers."""

TRUE_DTYPES = "ckptstore.dtypes"
LARGEST = 2**53 - 1

_BY_STREAM = {dtype.stream: dtype for dtype in DTYPES.values() if dtype.stream and dtype.name != "object"}

__all__ = ["FileTensor", "Header", "Placed", "lay_out_file", "read_header"]


@dataclass(frozen=True, slots=True)
class FileTensor:
    """One tensor of a file: `offset` counts from the beginning of the file."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    offset: int
    nbytes: int


@dataclass(frozen=True)
class Header:
    """What a file says of itself: its tensors in the order in which their bytes stand, and its metadata."""

    tensors: list[FileTensor]
    metadata: dict[str, str]


class Placed(NamedTuple):
    """A file laid out: the bytes of its header, where each tensor begins, and its size."""

    header: bytes
    offsets: dict[str, int]
    size: int


def read_header(file: BinaryIO, path: str) -> Header:
    """Read and check a header. Raises `UnsupportedValue` naming the file, and the tensor where it is one."""
    size = os.fstat(file.fileno()).st_size
    start = file.read(8)
    length = struct.unpack("<Q", start)[0] if len(start) == 8 else 0  # noqa: PLR2004 - a u64
    if not len("{}") <= length <= min(HEADER_LIMIT, size - 8):
        raise _bad(path, f"its header claims {length} bytes of a file of {size}")
    try:
        head = json.loads(file.read(length), object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise _bad(path, f"its header is not JSON: {error}") from error
    if not isinstance(head, dict):
        raise _bad(path, "its header is no JSON object")
    metadata = head.pop(METADATA, {})
    if not (isinstance(metadata, dict) and all(isinstance(value, str) for value in metadata.values())):
        raise _bad(path, "its metadata are not strings")
    base = 8 + length
    true = _true_dtypes(path, metadata.pop(TRUE_DTYPES, "{}"))
    found = (_tensor(path, name, entry, base) for name, entry in head.items())
    tensors = sorted((_as_true(path, t, true) for t in found), key=lambda t: (t.offset, t.nbytes))
    _check_contiguous(path, tensors, base, size)
    return Header(tensors, metadata)


def _true_dtypes(path: str, text: str) -> dict[str, str]:
    try:
        true = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _bad(path, f"its {TRUE_DTYPES} are not JSON: {error}") from error
    if not (isinstance(true, dict) and {*map(str, true.values())} <= {d.name for d in DTYPES.values() if not d.stream}):
        raise _bad(path, f"its {TRUE_DTYPES} are not dtypes by name")
    return true


def _as_true(path: str, tensor: FileTensor, true: dict[str, str]) -> FileTensor:
    """A tensor with the dtype and shape that it had before `lay_out_file` wrote it as U8."""
    dtype = true.get(tensor.name, tensor.dtype)
    if dtype == tensor.dtype:
        return tensor
    written = list(header_entry(dtype, tensor.shape[:-1], 0)["shape"])
    if tensor.dtype != "uint8" or written != [*tensor.shape]:
        raise _bad(path, f"tensor {tensor.name!r:.80} can't be of dtype {dtype} as {TRUE_DTYPES} says", tensor.name)
    return replace(tensor, dtype=dtype, shape=tensor.shape[:-1])


def lay_out_file(tensors: Sequence[tuple[str, str, Sequence[int]]], metadata: dict[str, str]) -> Placed:
    """Lay out a file of (name, dtype, shape), in this order. Raises `KeyCollision`, `UnsupportedValue`."""
    true = {name: dtype for name, dtype, _ in tensors if dtype_named(dtype).stream is None}
    metadata = {**metadata, **({TRUE_DTYPES: json.dumps(true)} if true else {})}
    head: dict[str, Any] = {METADATA: metadata} if metadata else {}
    starts: dict[str, int] = {}
    end = 0
    for name, dtype, shape in tensors:
        if name == METADATA:
            raise KeyCollision(f"a safetensors file can't hold a tensor named {METADATA}", key=name)
        head[name] = header_entry(dtype, shape, end)
        starts[name], end = end, end + nbytes_of(dtype, shape)
    header = header_bytes(head, ALIGNMENT)
    base = len(header)
    if base - 8 > HEADER_LIMIT:
        message = f"the names and shapes of {len(tensors)} tensors take {base} bytes; a header may have {HEADER_LIMIT}"
        raise UnsupportedValue(message, hint="restore a part of them at a time, with --include")
    return Placed(header, {name: base + at for name, at in starts.items()}, base + end)


def _tensor(path: str, name: str, entry: Any, base: int) -> FileTensor:
    try:
        kind, shape, (start, stop) = entry["dtype"], entry["shape"], entry["data_offsets"]
        numbers = [*shape, start, stop]
        sound = all(type(n) is int and 0 <= n <= LARGEST for n in numbers) and isinstance(kind, str)
    except (TypeError, KeyError, ValueError):
        sound = False
    if not sound:
        raise _bad(path, f"its entry {name!r:.80} is malformed", name)
    if kind not in _BY_STREAM:
        raise _bad(path, f"tensor {name!r:.80} has dtype {kind!r:.20}, which checkpoints don't hold", name)
    dtype = _BY_STREAM[kind]
    if nbytes_of(dtype.name, shape) != stop - start:
        raise _bad(path, f"tensor {name!r:.80} takes {stop - start} bytes, its shape and dtype say otherwise", name)
    return FileTensor(name, dtype.name, tuple(shape), base + start, stop - start)


def _check_contiguous(path: str, tensors: Iterable[FileTensor], base: int, size: int) -> None:
    at = base
    for tensor in tensors:
        if tensor.offset != at:
            raise _bad(path, f"tensor {tensor.name!r:.80} overlaps another, or leaves a hole", tensor.name)
        at += tensor.nbytes
    if at != size:
        raise _bad(path, f"its tensors end at {at} of {size} bytes: cut short, or followed by something else")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name stands twice")
    return found


def _bad(path: str, why: str, key: str = "") -> UnsupportedValue:
    hint = "give a whole safetensors file; one with another name ending is saved as it is when it is in a folder"
    return UnsupportedValue(f"{path} is no safetensors file that can be saved: {why}", key=key, hint=hint)
