"""A checkpoint as a Hugging Face folder: `model.safetensors`, or shards of it and the index that names them.

Files are laid out by `operations.safetensors_file` and written by `operations.restore`, the index last. The small files
that an imported folder had beside its weights, as config.json, are written again.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ckptstore.dtypes import dtype_named
from ckptstore.errors import UsageError
from ckptstore.formats.choosing import Chosen, check_dtypes
from ckptstore.formats.huggingface_import import WEIGHTS
from ckptstore.formats.names import INDEX, SAFETENSORS
from ckptstore.operations.assembly import tensor_bytes
from ckptstore.operations.folder import whole_name
from ckptstore.operations.placing import FileToWrite, RestorePlan, checked
from ckptstore.operations.restore import in_order
from ckptstore.operations.safetensors_file import lay_out_file
from ckptstore.source import Source

STEM = "model"
METADATA = {"format": "pt"}
"""What transformers wants to be told: the tensors are laid out as torch has them."""

__all__ = ["plan_huggingface_export"]


def plan_huggingface_export(
    source: Source, place: Path, chosen: Chosen, *, shard_bytes: int, force: bool = False
) -> RestorePlan:
    """What would be written into the folder `place`. `shard_bytes`: of the tensors in one file, or of a larger one.

    Raises `UnsupportedValue` naming tensors whose dtype safetensors files lack, `UsageError` where something is in the
    way.
    """
    hint = "export them to a DCP folder (--format dcp), or leave them out with --include"
    check_dtypes(source, chosen, lambda dtype: dtype_named(dtype).stream is not None, "safetensors files", hint)
    shards = _cut(source, in_order(source, chosen.tensors, chosen.listed), shard_bytes)
    written = [_shard(source, chosen, names, _file_name(at, len(shards))) for at, names in enumerate(shards)]
    index = _index(source, chosen, shards) if len(shards) > 1 else None
    own = {file.path for file in written} | ({index.path} if index else set())
    beside = [
        FileToWrite(path, tensor_bytes(source, whole_name(path)), offsets=((whole_name(path), 0),))
        for path in chosen.kept
        if path not in own and not path.endswith((INDEX, *WEIGHTS))
    ]
    files = (*beside, *written, *([index] if index else []))
    plan = checked(RestorePlan(place, files, chosen.objects, (), fresh=not place.exists()), place, force=force)
    _check_strangers(plan, own)
    return replace(plan, marker=index.path if index else None)


def _cut(source: Source, names: Sequence[str], shard_bytes: int) -> list[list[str]]:
    """Names in order, in groups of at most `shard_bytes`, or one tensor that alone takes more."""
    shards: list[list[str]] = [[]]
    room = shard_bytes
    for name in names:
        size = tensor_bytes(source, name)
        if shards[-1] and size > room:
            shards.append([])
            room = shard_bytes
        shards[-1].append(name)
        room -= size
    return shards


def _file_name(at: int, count: int) -> str:
    return f"{STEM}-{at + 1:05d}-of-{count:05d}{SAFETENSORS}" if count > 1 else f"{STEM}{SAFETENSORS}"


def _shard(source: Source, chosen: Chosen, names: Sequence[str], path: str) -> FileToWrite:
    table = source.index.tensors
    called = {name: chosen.called(name) for name in names}
    placed = lay_out_file([(called[name], table[name].dtype, table[name].shape) for name in names], METADATA)
    return FileToWrite(path, placed.size, placed.header, tuple((name, placed.offsets[called[name]]) for name in names))


def _index(source: Source, chosen: Chosen, shards: Sequence[Sequence[str]]) -> FileToWrite:
    weights = {chosen.called(name): _file_name(at, len(shards)) for at, names in enumerate(shards) for name in names}
    total = sum(tensor_bytes(source, name) for names in shards for name in names)
    document = {"metadata": {"total_size": total}, "weight_map": dict(sorted(weights.items()))}
    data = (json.dumps(document, indent=2) + "\n").encode()
    return FileToWrite(f"{STEM}{INDEX}", len(data), data)


def _check_strangers(plan: RestorePlan, own: set[str]) -> None:
    """Refuse to write beside weights that a reader would take in the place of these, whatever was asked for."""
    if plan.fresh:
        return
    taken = sorted(
        entry.name
        for entry in plan.folder.iterdir()
        if entry.name.endswith((SAFETENSORS, INDEX)) and entry.name not in own
    )
    if taken:
        shown = ", ".join(taken[:5])
        hint = "remove them first, or name another folder"
        raise UsageError(f"{plan.folder} holds {shown}, which would be taken for a part of this model", hint=hint)
