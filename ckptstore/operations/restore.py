"""A checkpoint into files: one safetensors file, or a folder.

Every file is written under a temporary name and gets its own only when every byte of all of them was verified, so
what is there under its name is right and whole. Names of files come from the checkpoint and are checked first:
nothing is ever written outside the path given.
"""

import json
import mmap
import os
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import BinaryIO

import numpy as np

from ckptstore.dtypes import OBJECT, dtype_named
from ckptstore.errors import CorruptError, NotFoundError
from ckptstore.events import Observer, Progress, ignore
from ckptstore.operations.assembly import Part, parts_of, read_parts, tensor_bytes
from ckptstore.operations.folder import FILES, StoredFile, files_from_bytes, whole_name
from ckptstore.operations.placing import SAFETENSORS, FileToWrite, RestorePlan, checked, publish, staging
from ckptstore.operations.safetensors_file import lay_out_file
from ckptstore.source import Source, batches

OBJECTS = "objects.json"

__all__ = [
    "FileToWrite",
    "RestorePlan",
    "files_of",
    "fill",
    "in_order",
    "is_object",
    "matches",
    "plan_restore",
    "restore",
    "stored_files",
]


def plan_restore(source: Source, path: Path, include: Sequence[str] = (), *, force: bool = False) -> RestorePlan:
    """What would be written for `path`: one file if it ends in `.safetensors`, else a folder.

    `include`: patterns (`*.weight`) of what is wanted. Raises `NotFoundError` where nothing matches, `UsageError` where
    something is in the way and `force` wasn't said, `CorruptError` for names that lead out of the folder.
    """
    place = Path(os.path.abspath(path))  # noqa: PTH100 - a link in it is the user's own
    stored = stored_files(source)
    wanted = [fqn for fqn in source.index.tensors if fqn != FILES and matches(fqn, include)]
    if not wanted:
        asked = " ".join(include) or "anything"
        raise NotFoundError(f"no tensor or object matches {asked}", hint="see their names: ckpt ls --tensors")
    if place.suffix == SAFETENSORS:
        files, left_out = _one_file(source, place.name, stored, wanted)
        return checked(RestorePlan(place.parent, files, left_out, (), fresh=False), place, force=force)
    plan = RestorePlan(place, _folder(source, stored, wanted), (), (), fresh=not place.exists())
    return checked(plan, place, force=force)


def files_of(source: Source) -> tuple[FileToWrite, ...]:
    """The files of the folder that a checkpoint would be restored to: those it was saved from, if it was from files."""
    return _folder(source, stored_files(source), [fqn for fqn in source.index.tensors if fqn != FILES])


def restore(source: Source, plan: RestorePlan, observer: Observer = ignore, *, called: str = "restore") -> None:
    """Write it. Raises `DataLost`, `OutOfReach`, `CorruptError`, `OSError`; what was there before is untouched then.

    `called`: the work whose progress is told.
    """
    limit = source.opened.config.window_bytes // 2
    with staging(plan) as stage:
        for file in plan.files:
            target = stage / file.path
            target.parent.mkdir(parents=True, exist_ok=True)
            if file.objects:
                _write_objects(source, file, target, limit)
            else:
                _write_tensors(source, file, target, limit, lambda done: observer(Progress(called, done, plan.bytes)))
        publish(plan, stage)


# -- what goes into which file ----------------------------------------


def matches(fqn: str, include: Sequence[str]) -> bool:
    """Whether a name matches one of the patterns, where there are any."""
    return not include or any(fnmatchcase(fqn, pattern) for pattern in include)


def stored_files(source: Source) -> list[StoredFile]:
    """The files that a checkpoint was saved from. Raises `CorruptError` where its index doesn't have all of them."""
    if FILES not in source.index.tensors:
        return []
    files = files_from_bytes(source.read_object(FILES, source.opened.config.window_bytes))
    names = [name for file in files for name in (file.tensors if file.tensors is not None else [whole_name(file.path)])]
    lacking = [name for name in names if name not in source.index.tensors]
    if lacking or len(set(names)) < len(names):
        message = f"{FILES} and the index of the checkpoint disagree about {(lacking or names)[0]!r:.100}"
        raise CorruptError(message, hint="run: ckpt verify", key=FILES)
    return files


def _one_file(
    source: Source, name: str, stored: Sequence[StoredFile], wanted: Sequence[str]
) -> tuple[tuple[FileToWrite, ...], tuple[str, ...]]:
    whole = {whole_name(file.path): file.path for file in stored if file.tensors is None}
    listed = [fqn for file in stored for fqn in file.tensors or ()]
    with_tensors = [file for file in stored if file.tensors is not None]
    metadata = with_tensors[0].metadata if len(with_tensors) == 1 else {}
    tensors = [fqn for fqn in wanted if fqn not in whole and not is_object(source, fqn)]
    files = [_tensor_file(source, name, in_order(source, tensors, listed), metadata)]
    objects = [fqn for fqn in wanted if is_object(source, fqn)]
    if objects:
        files.append(_object_file(f"{name.removesuffix(SAFETENSORS)}.{OBJECTS}", objects))
    return tuple(files), tuple(whole[fqn] for fqn in wanted if fqn in whole)


def _folder(source: Source, stored: Sequence[StoredFile], wanted: Sequence[str]) -> tuple[FileToWrite, ...]:
    chosen, rest, files = set(wanted), dict.fromkeys(wanted), []
    for file in stored:
        names = [whole_name(file.path)] if file.tensors is None else file.tensors
        here = [name for name in names if name in chosen]
        for name in here:
            rest.pop(name)
        if file.tensors is None and here:
            files.append(FileToWrite(file.path, tensor_bytes(source, here[0]), offsets=((here[0], 0),)))
        elif file.tensors is not None and (here or not file.tensors):
            files.append(_tensor_file(source, file.path, here, file.metadata))
    objects = [fqn for fqn in rest if is_object(source, fqn)]
    tensors = [fqn for fqn in rest if not is_object(source, fqn)]
    if tensors:
        files.append(_tensor_file(source, f"tensors{SAFETENSORS}", in_order(source, tensors, ()), {}))
    if objects:
        files.append(_object_file(OBJECTS, objects))
    return tuple(files)


def is_object(source: Source, fqn: str) -> bool:
    """Whether a byte object is stored under a name, not a tensor."""
    return source.index.tensors[fqn].dtype == OBJECT


def in_order(source: Source, names: Sequence[str], listed: Sequence[str]) -> list[str]:
    """As they stood in the file they came from; others by item size and name, as safetensors writes them."""
    place = {name: number for number, name in enumerate(listed)}
    dtypes = {name: dtype_named(source.index.tensors[name].dtype).itemsize for name in names}
    return sorted(names, key=lambda name: (place.get(name, len(place)), -dtypes[name], name))


def _tensor_file(source: Source, path: str, names: Sequence[str], metadata: dict[str, str]) -> FileToWrite:
    entries = [source.index.tensors[name] for name in names]
    placed = lay_out_file([(entry.fqn, entry.dtype, entry.shape) for entry in entries], metadata)
    return FileToWrite(path, placed.size, placed.header, tuple(placed.offsets.items()))


def _object_file(path: str, names: Sequence[str]) -> FileToWrite:
    return FileToWrite(path, 0, objects=tuple(names))


# -- writing ----------------------------------------


def _write_tensors(source: Source, file: FileToWrite, target: Path, limit: int, tell: Callable[[int], None]) -> None:
    with target.open("x+b") as opened:
        opened.write(file.header)
        opened.flush()
        fill(source, file, opened, limit, tell)
        os.fsync(opened.fileno())


def fill(source: Source, file: FileToWrite, opened: BinaryIO, limit: int, tell: Callable[[int], None]) -> None:
    """Put every tensor at its offset. Batch by batch: after each its pages go to disk, and out of our memory.

    The map is closed when nothing refers to it any more: an error that a load keeps may hold its buffers.
    """
    if file.size <= len(file.header):
        return
    # A full disk is an error here; in mapped memory it would be a crash.
    os.posix_fallocate(opened.fileno(), 0, file.size)
    memory = mmap.mmap(opened.fileno(), file.size)
    into = np.frombuffer(memory, np.uint8)
    for batch in batches(_parts(source, file, limit), lambda part: part.nbytes, limit):
        read_parts(source, batch, into)
        memory.flush()
        memory.madvise(mmap.MADV_DONTNEED)
        tell(sum(part.nbytes for part in batch))


def _parts(source: Source, file: FileToWrite, limit: int) -> list[Part]:
    """In the order in which the bytes are stored, so that each stripe is read once."""
    parts = [part for fqn, base in file.offsets for part in parts_of(source, fqn, base, limit)]
    return sorted(parts, key=lambda part: (part.shard.record.shard_id, part.offset))


def _write_objects(source: Source, file: FileToWrite, target: Path, limit: int) -> None:
    """One JSON object {name: byte object}: typed JSON, as docs/format.md describes it."""
    documents = {fqn: _parsed(fqn, source.read_object(fqn, limit)) for fqn in file.objects}
    with target.open("x", encoding="ascii") as opened:
        json.dump(documents, opened)
        opened.flush()
        os.fsync(opened.fileno())


def _parsed(fqn: str, data: bytes) -> object:
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise CorruptError(f"object {fqn!r:.100} is not JSON: {error}", hint="run: ckpt verify", key=fqn) from error
