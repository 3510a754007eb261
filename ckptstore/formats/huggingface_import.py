"""A Hugging Face folder: safetensors shards that an index names, or one file, and the small files beside them.

    model.safetensors.index.json      {"metadata": {…}, "weight_map": {"lm_head": "model-00002-of-00002.safetensors"}}
    model-0000N-of-0000M.safetensors  each tensor in the file that the index gives it to, and in no other
    config.json, tokenizer.json, …    kept whole

The index must be right in both directions: a file that holds less or more than it says is refused.
"""

import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ckptstore.errors import KeyCollision, UnsupportedValue, UsageError
from ckptstore.formats.inside import check_inside, file_named
from ckptstore.formats.names import INDEX, SAFETENSORS
from ckptstore.operations.ingest import Plan, plan_of

WEIGHTS = (SAFETENSORS, ".bin", ".pt", ".pth", ".ckpt", ".h5", ".msgpack", ".onnx", ".gguf", ".npz", ".ot")
"""Endings of files that hold weights once more, for other tools: of them only what the index names is taken."""
LARGEST_INDEX = 256 << 20

__all__ = ["plan_huggingface"]


def plan_huggingface(path: Path) -> Plan:
    """What would be saved of a folder, or of one safetensors file.

    Raises `UsageError` where nothing says which files are meant; `UnsupportedValue` and `KeyCollision`, naming file or
    tensor, for what isn't as the format wants it.
    """
    if path.is_file():
        return plan_of([(path.name, path)])
    index = _the_index(path)
    weights = {} if index is None else _read_index(path, index)
    files = sorted(weights) if index is not None else [_the_file(path)]
    beside, left_out = _beside(path, {*files})
    named = [(name, file_named(path, name, index or str(path))) for name in files]
    made = plan_of([*((name, path / name) for name in beside), *named])
    if index is not None:
        _check_against(made, weights, index)
    made.left_out = tuple(left_out)
    return made


def _the_index(folder: Path) -> str | None:
    found = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(INDEX))
    preferred = f"model{INDEX}"
    if len(found) > 1 and preferred not in found:
        raise UsageError(f"{folder} holds {len(found)} indexes: {', '.join(found)}", hint="keep one in a folder")
    return preferred if preferred in found else next(iter(found), None)


def _the_file(folder: Path) -> str:
    found = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(SAFETENSORS))
    preferred = f"model{SAFETENSORS}"
    if preferred in found or len(found) == 1:
        return preferred if preferred in found else found[0]
    hint = "name one of them, or save the folder as it is: ckpt save"
    raise UsageError(f"{folder} holds {len(found)} {SAFETENSORS} files and no index", hint=hint)


def _read_index(folder: Path, name: str) -> dict[str, set[str]]:
    """{file: the tensors that the index gives to it}."""
    path = file_named(folder, name, str(folder))
    if path.stat().st_size > LARGEST_INDEX:
        raise _bad(name, f"it is larger than {LARGEST_INDEX} bytes")
    try:
        document = json.loads(path.read_bytes(), object_pairs_hook=_unique)
        weights = document["weight_map"]
        sound = weights and all(isinstance(file, str) for file in weights.values())
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError) as error:
        raise _bad(name, f"{error!r:.200}") from error
    if not sound:
        raise _bad(name, "its weight_map is no object of file names")
    files: dict[str, set[str]] = defaultdict(set)
    for tensor, file in weights.items():
        files[file].add(tensor)
    for file in files:
        if not file.endswith(SAFETENSORS):
            raise _bad(name, f"it names {file!r:.100}, which is no {SAFETENSORS} file")
    return dict(files)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name stands twice")
    return found


def _check_against(made: Plan, weights: dict[str, set[str]], index: str) -> None:
    held = {file.stored.path: {*(file.stored.tensors or ())} for file in made.files if file.stored is not None}
    home = {tensor: file for file, tensors in weights.items() for tensor in tensors}
    for file, wanted in weights.items():
        for tensor in sorted(held[file] - wanted):
            elsewhere = f"gives it to {home[tensor]}" if tensor in home else "doesn't name it"
            raise KeyCollision(f"{file} holds {tensor!r:.100}, and {index} {elsewhere}", key=tensor, hint=_HINT)
        for tensor in sorted(wanted - held[file]):
            message = f"{index} gives {tensor!r:.100} to {file}, which doesn't hold it"
            raise UnsupportedValue(message, key=tensor, hint=_HINT)


def _beside(folder: Path, weights: set[str]) -> tuple[list[str], list[str]]:
    """The other files of the folder: those to keep, and those to leave out (weights once more, folders, hidden)."""
    kept: list[str] = []
    left_out: list[str] = []
    for name, wanted in _others(folder, weights):
        (kept if wanted else left_out).append(name)
    return kept, left_out


def _others(folder: Path, weights: set[str]) -> Iterator[tuple[str, bool]]:
    for entry in sorted(folder.iterdir()):
        if entry.name in weights:
            continue
        wanted = entry.is_file() and not entry.name.startswith(".") and not entry.name.endswith(WEIGHTS)
        if wanted:
            check_inside(folder, entry)
        yield entry.name, wanted


_HINT = "fetch the folder again, or let the tool that wrote it write it anew"


def _bad(name: str, why: str) -> UnsupportedValue:
    return UnsupportedValue(f"{name} is no index of safetensors files: {why}", key=name, hint=_HINT)
