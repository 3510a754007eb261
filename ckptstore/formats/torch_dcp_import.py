"""A DCP folder: chunks of tensors and objects, each an archive of `torch.save` somewhere in one of its files.

Every archive is looked at before anything is written to the store. The bytes of a chunk are read when its turn comes,
so that one chunk is in memory at a time.
"""

import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any, cast

import torch
from torch.distributed.checkpoint.utils import _create_file_view

from ckptstore.buffers import Bytes
from ckptstore.dcp.objects import from_torch_zip
from ckptstore.dcp.tensors import check_tensor, dtype_name
from ckptstore.dtypes import OBJECT, nbytes_of
from ckptstore.errors import ConflictError, UnsupportedValue
from ckptstore.formats.dcp_metadata import Box, Entry, FolderMetadata, Stored, read_metadata
from ckptstore.formats.inside import check_inside, file_named
from ckptstore.formats.names import DCP_METADATA
from ckptstore.operations.ingest import Plan, watched
from ckptstore.save.snapshot import tensor_bytes
from ckptstore.save.stream import Piece

_MALFORMED = (pickle.UnpicklingError, RuntimeError, EOFError, ValueError, OSError)
_HINT = "copy the whole folder again, or load it where it was written and save it: run.save"

__all__ = ["plan_dcp"]


def plan_dcp(folder: Path) -> Plan:
    """What would be saved of a DCP folder.

    Raises `UnsupportedValue`, naming the file or the key, for metadata or archives that aren't as torch writes them,
    and for what can't be read without running code.
    """
    check_inside(folder, folder / DCP_METADATA)
    metadata = read_metadata(folder)
    files = {
        name: file_named(folder, name, DCP_METADATA) for name in sorted({s.file for s in metadata.stored.values()})
    }
    made = Plan(files=[watched(path) for path in (folder / DCP_METADATA, *files.values())], paths=metadata.paths)
    for fqn, entry in metadata.entries.items():
        if entry.dtype == OBJECT:
            made.pieces.append(_object(files, fqn, _place(metadata, fqn, None)))
        else:
            made.pieces += [_chunk(files, metadata, fqn, entry, box) for box in entry.chunks]
    if not made.pieces:
        raise UnsupportedValue(f"{folder} holds no tensor and no object", key=DCP_METADATA, hint=_HINT)
    return made


def _place(metadata: FolderMetadata, fqn: str, offsets: tuple[int, ...] | None) -> Stored:
    stored = metadata.stored.get((fqn, offsets))
    if stored is None:
        where = "" if offsets is None else f" at {list(offsets)}"
        raise UnsupportedValue(f"{DCP_METADATA} doesn't say where {fqn!r:.100}{where} is", key=fqn, hint=_HINT)
    return stored


def _object(files: dict[str, Path], fqn: str, stored: Stored) -> Piece:
    with _archive(files, stored, fqn) as view:
        data = from_torch_zip(view.read(), key=fqn)
    return Piece(data, fqn, OBJECT, [len(data)], len(data))


def _chunk(files: dict[str, Path], metadata: FolderMetadata, fqn: str, entry: Entry, box: Box) -> Piece:
    offsets, sizes = box
    stored = _place(metadata, fqn, offsets)
    _load(files, stored, fqn, entry.dtype, sizes, "meta")
    return Piece(
        key=cast("Callable[[], Bytes]", partial(_bytes, files, stored, fqn, entry.dtype, sizes)),
        fqn=fqn,
        dtype=entry.dtype,
        shape=sizes,
        nbytes=nbytes_of(entry.dtype, sizes),
        global_shape=entry.shape,
        range=offsets,
    )


def _bytes(files: dict[str, Path], stored: Stored, fqn: str, dtype: str, sizes: tuple[int, ...]) -> Bytes:
    try:
        return tensor_bytes(_load(files, stored, fqn, dtype, sizes, "cpu"))
    except UnsupportedValue as error:  # it was well when the plan was made
        message = f"{error.message}; nothing was committed"
        raise ConflictError(message, hint="save it again when nobody writes to the folder") from error


def _load(
    files: dict[str, Path], stored: Stored, fqn: str, dtype: str, sizes: tuple[int, ...], device: str
) -> torch.Tensor:
    """The tensor of one archive, on the CPU, or on `meta` without its data."""
    try:
        with _archive(files, stored, fqn) as view:
            tensor: Any = torch.load(view, map_location=device, weights_only=True)
    except _MALFORMED as error:
        reason = str(error).strip().partition("\n")[0]
        message = f"{fqn!r:.100} in {stored.file} can't be read with weights_only=True: {reason:.200}"
        raise UnsupportedValue(message, key=fqn, hint=_HINT) from error
    if not isinstance(tensor, torch.Tensor):
        raise UnsupportedValue(f"{stored.file} holds no tensor for {fqn!r:.100}", key=fqn, hint=_HINT)
    check_tensor(tensor, fqn, as_destination=True)
    if dtype_name(tensor.dtype) != dtype or tuple(tensor.shape) != sizes:
        found = f"{dtype_name(tensor.dtype)} {list(tensor.shape)}"
        message = f"{fqn!r:.100} in {stored.file} is {found}, and {DCP_METADATA} says {dtype} {list(sizes)}"
        raise UnsupportedValue(message, key=fqn, hint=_HINT)
    return tensor


@contextmanager
def _archive(files: dict[str, Path], stored: Stored, fqn: str) -> Iterator[IO[bytes]]:
    """The bytes of one archive as a file of their own."""
    path = files[stored.file]
    if stored.offset + stored.length > path.stat().st_size:
        message = f"{fqn!r:.100} ends at byte {stored.offset + stored.length} of {stored.file}, which is shorter"
        raise UnsupportedValue(message, key=fqn, hint=_HINT)
    with path.open("rb") as file:
        yield cast("IO[bytes]", _create_file_view(file, stored.offset, stored.length))
