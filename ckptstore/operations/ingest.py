"""Files into a checkpoint: a safetensors file's tensors by name, a folder's files so that it comes back whole.

Bytes go from the mapped file straight into stripe buffers; of the file itself only what is being copied is held.
Other formats make a `Plan` of their own (`ckptstore.formats`), and are saved here likewise.
"""

import mmap
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np

from ckptstore.buffers import Bytes
from ckptstore.commit import About, Commit, check_about, shard_saver
from ckptstore.dtypes import OBJECT
from ckptstore.errors import ConflictError, KeyCollision, UnsupportedValue, UsageError
from ckptstore.events import Observer, ignore
from ckptstore.opened import Opened
from ckptstore.operations.folder import FILES, StoredFile, files_to_bytes, whole_name
from ckptstore.operations.safetensors_file import read_header
from ckptstore.save.stream import Piece, lay_out, split
from manifests import FormatError, Manifest, TableBuilder, TensorTable
from manifests.index_rules import check_table

SAFETENSORS = ".safetensors"

__all__ = ["Plan", "SourceFile", "ingest", "plan", "plan_of", "watched"]


class _Place(NamedTuple):
    """Where the bytes of a piece are: a file of the plan, and an offset in it."""

    file: int
    offset: int


class _State(NamedTuple):
    """What shows that a file was written to: its size and time of last change."""

    size: int
    modified: int


class SourceFile(NamedTuple):
    """A file to save: what the checkpoint will say of it, where it is, and how it looked when the plan was made.

    `stored` is None where its tensors alone are kept, and it isn't given back as a file.
    """

    stored: StoredFile | None
    path: Path
    state: _State


@dataclass
class Plan:
    """What would be saved: the pieces, and the files they come from.

    A piece's key is its place in a file, or a function that gives its bytes; of an object the bytes themselves.
    `structure` and `paths` ({key: path}) are what the index keeps of a nested state, as `ckptstore.dcp` writes them.
    `left_out`: files that were seen and aren't saved.
    """

    pieces: list[Piece] = field(default_factory=list)
    files: list[SourceFile] = field(default_factory=list)
    structure: dict[str, Any] | None = None
    paths: Mapping[str, Sequence[str | int]] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()

    @property
    def bytes(self) -> int:
        """All of it."""
        return sum(piece.nbytes for piece in self.pieces)


def plan(path: Path) -> Plan:
    """Look at a safetensors file, or at every file of a folder.

    Raises `UsageError`, `UnsupportedValue` naming a file that can't be saved, `KeyCollision` for a name in two files.
    """
    made = plan_of(_files(path))
    if not made.files:
        raise UsageError(f"{path} holds no file", hint="name a .safetensors file, a .pt file or a folder")
    return made


def plan_of(files: Iterable[tuple[str, Path]]) -> Plan:
    """What would be saved of these files, under these names. Raises as `plan` does."""
    made = Plan()
    owners: dict[str, str] = {}
    for name, file in files:
        _add_file(made, name, file, owners)
    data = files_to_bytes([file.stored for file in made.files if file.stored is not None])
    made.pieces.append(Piece(data, FILES, OBJECT, [len(data)], len(data)))
    return made


def watched(path: Path) -> SourceFile:
    """A file whose tensors alone are kept: if it is written to while it is saved, nothing is committed."""
    with path.open("rb") as file:
        return SourceFile(None, path, _state(file.fileno()))


def ingest(opened: Opened, run: str, made: Plan, about: About, observer: Observer = ignore) -> Manifest:
    """Save and commit what `plan` found.

    Raises `UsageError`, `UnsupportedValue` and `KeyCollision` for what can't be stored before anything is written;
    `ToleranceError`, `OutOfReach`, `CommitInDoubt`, and `ConflictError` if a file was written to meanwhile.
    """
    check_about(run, about)
    places = opened.ready_to_save()
    groups = list(split(made.pieces))
    streams = [lay_out(group) for group in groups]
    table = _table(made, groups)
    save = Commit(opened, run, places)
    save.begin()
    saver = shard_saver(opened, run, places, observer)
    with _Reader(made) as reader:
        saved = [saver.save(stream, reader.bytes_of, rank=0) for stream in streams]
    _check_unchanged(made)
    paths = [(fqn, list(path)) for fqn, path in made.paths.items()]
    return save.finish(saved, table, about, structure=made.structure, planner_data=paths)


def _table(made: Plan, groups: Sequence[Sequence[Piece]]) -> TensorTable:
    """What the index will say, held against its rules: what can't be read again isn't written."""
    chunks: dict[str, list[tuple[Sequence[int], Sequence[int], int]]] = {}
    whole: dict[str, Piece] = {}
    for number, group in enumerate(groups):
        for piece in group:
            whole[piece.fqn] = piece
            chunk = ((), (), number) if piece.is_object else (tuple(piece.range or ()), piece.shape, number)
            chunks.setdefault(piece.fqn, []).append(chunk)
    table = TableBuilder()
    for name, stored in [*((fqn, fqn) for fqn in whole), *(made.structure or {}).get("aliases", {}).items()]:
        piece = whole[stored]
        shape = () if piece.is_object else piece.shape if piece.global_shape is None else piece.global_shape
        table.add(name, piece.dtype, shape, chunks[stored])
    built = table.build()
    try:
        check_table(built, len(groups))
    except FormatError as error:
        hint = "save it again with what wrote it"
        raise UnsupportedValue(f"the pieces of a tensor don't fit together: {error}", key="", hint=hint) from error
    return built


def _files(path: Path) -> Iterator[tuple[str, Path]]:
    """The files to save with their names relative to the folder, in order."""
    if path.is_file():
        if path.suffix != SAFETENSORS:
            hint = "put it into a folder and save that, or name a .safetensors or .pt file"
            raise UsageError(f"{path} is neither a {SAFETENSORS} nor a .pt file", hint=hint)
        yield path.name, path
        return
    if not path.is_dir():
        raise UsageError(f"there is no file or folder {path}", hint="name a .safetensors file, a .pt file or a folder")
    for folder, below, names in os.walk(path, onerror=_raise):
        for link in [name for name in below if Path(folder, name).is_symlink()]:
            raise UnsupportedValue(
                f"{Path(folder, link)} is a link to a folder", key=link, hint="save the folder it leads to"
            )
        below.sort()
        for name in sorted(names):
            file = Path(folder, name)
            yield _checked_name(file.relative_to(path).as_posix(), file), file


def _checked_name(name: str, file: Path) -> str:
    if not file.is_file():
        raise UnsupportedValue(
            f"{file} is no file that can be read", key=name, hint="remove it, or save another folder"
        )
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise UnsupportedValue(f"the name of {name!r} is not UTF-8", key=name, hint="rename it") from error
    return name


def _raise(error: OSError) -> None:
    raise error


def _add_file(made: Plan, name: str, file: Path, owners: dict[str, str]) -> None:
    number = len(made.files)
    with file.open("rb") as opened:
        state = _state(opened.fileno())
        if file.suffix != SAFETENSORS:
            pieces = [_piece(number, whole_name(name), "uint8", (state.size,), 0, state.size)]
            stored = StoredFile(name, {}, None)
        else:
            header = read_header(opened, str(file))
            pieces = [_piece(number, t.name, t.dtype, t.shape, t.offset, t.nbytes) for t in header.tensors]
            stored = StoredFile(name, header.metadata, tuple(tensor.name for tensor in header.tensors))
    for piece in pieces:
        if owners.setdefault(piece.fqn, name) != name or piece.fqn == FILES:
            message = f"{owners[piece.fqn]} and {name} both hold {piece.fqn!r}"
            raise KeyCollision(message, key=piece.fqn, hint="save them as checkpoints of their own, or rename one")
    made.pieces += pieces
    made.files.append(SourceFile(stored, file, state))


def _piece(file: int, fqn: str, dtype: str, shape: tuple[int, ...], offset: int, nbytes: int) -> Piece:
    place = _Place(file, offset)
    return Piece(place, fqn, dtype, shape, nbytes, global_shape=shape, range=(0,) * len(shape))


def _state(descriptor: int) -> _State:
    status = os.fstat(descriptor)
    return _State(status.st_size, status.st_mtime_ns)


def _check_unchanged(made: Plan) -> None:
    for source in made.files:
        with source.path.open("rb") as file:
            if _state(file.fileno()) != source.state:
                message = f"{source.path} was written to while it was being saved; nothing was committed"
                raise ConflictError(message, hint="save it again when it is finished")


def _given(piece: Piece) -> Bytes:
    give: Callable[[], Bytes] = piece.key
    return give()


class _Reader:
    """Maps one file at a time. What was copied is let go of when the next piece is asked for."""

    def __init__(self, made: Plan) -> None:
        self._plan = made
        self._maps: dict[int, mmap.mmap] = {}
        self._last: mmap.mmap | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._maps.clear()
        self._last = None

    def bytes_of(self, piece: Piece) -> Bytes:
        """`Sources` of a shard."""
        if self._last is not None:
            self._last.madvise(mmap.MADV_DONTNEED)
        if piece.is_object:
            return np.frombuffer(piece.key, np.uint8)
        if not piece.nbytes:
            return np.empty(0, np.uint8)
        if not isinstance(piece.key, _Place):
            return _given(piece)
        self._last = self._map(piece.key.file)
        return np.frombuffer(self._last, np.uint8, piece.nbytes, piece.key.offset)

    def _map(self, number: int) -> mmap.mmap:
        if number not in self._maps:
            with self._plan.files[number].path.open("rb") as file:
                self._maps[number] = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        return self._maps[number]
