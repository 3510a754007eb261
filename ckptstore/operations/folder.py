"""Which files a checkpoint came from, so that it can be given back as them.

A checkpoint saved from files holds one byte object more, `ckptstore:files`: a list with one entry a file,

    ["model.safetensors", [["format", "pt"]], ["embed", "lm_head"]]     its metadata, and its tensors in their order
    ["config.json", null, null]                                         kept whole, as the tensor file:config.json

Names come from other people's checkpoints: each is checked before it becomes a path.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ckptstore.errors import CorruptError

FILES = "ckptstore:files"
WHOLE = "file:"
LONGEST_NAME = 255
"""Bytes of one component of a path on Linux."""

__all__ = ["FILES", "StoredFile", "check_name", "files_from_bytes", "files_to_bytes", "whole_name"]


@dataclass(frozen=True)
class StoredFile:
    """A file of the folder or the file that was saved. `tensors` is None for one that is kept whole."""

    path: str
    metadata: dict[str, str]
    tensors: tuple[str, ...] | None


def whole_name(path: str) -> str:
    """The name of the tensor (uint8, one dimension) that holds a file which is kept whole."""
    return f"{WHOLE}{path}"


def files_to_bytes(files: Sequence[StoredFile]) -> bytes:
    """The byte object: typed JSON of format.md, Objects, which for lists and strings is plain JSON."""
    value = [
        [file.path, None, None]
        if file.tensors is None
        else [file.path, list(file.metadata.items()), list(file.tensors)]
        for file in files
    ]
    return json.dumps({"object": 1, "value": value}, separators=(",", ":")).encode()


def files_from_bytes(data: bytes) -> list[StoredFile]:
    """What `files_to_bytes` was given. Raises `CorruptError` for anything else, and for a name that is no safe path."""
    try:
        files = [_file(entry) for entry in json.loads(data)["value"]]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise CorruptError(
            f"{FILES} of the checkpoint is malformed: {error}", hint="run: ckpt verify", key=FILES
        ) from error
    names = {file.path for file in files}
    for file in files:
        check_name(file.path)
        parents = {"/".join(file.path.split("/")[:depth]) for depth in range(1, file.path.count("/") + 1)}
        if parents & names:
            raise _unsafe(file.path, "is below another file of the checkpoint")
    if len(names) < len(files):
        raise _unsafe(max(names, key=len), "or another name stands there twice")
    return files


def check_name(path: str) -> str:
    """`path` if it stays inside the folder that it is restored to. Raises `CorruptError`."""
    parts = path.split("/")
    if any(part in {"", ".", ".."} for part in parts) or "\0" in path:
        raise _unsafe(path, "is no relative path below a folder")
    try:
        too_long = max(len(part.encode()) for part in parts) > LONGEST_NAME
    except UnicodeEncodeError:
        too_long = True
    if too_long:
        raise _unsafe(path, "can't be a file's name")
    return path


def _file(entry: Any) -> StoredFile:
    path, metadata, tensors = entry
    whole = metadata is None and tensors is None
    strings = [path] if whole else [path, *tensors, *(text for pair in metadata for text in pair)]
    if not all(isinstance(text, str) for text in strings):
        raise TypeError("a name is no string")
    return StoredFile(path, {} if whole else dict(metadata), None if whole else tuple(tensors))


def _unsafe(path: str, why: str) -> CorruptError:
    message = f"the checkpoint holds a file named {path!r:.100}, which {why}; nothing was written"
    return CorruptError(message, hint="restore its tensors alone: ckpt restore PATH.safetensors", key=path)
