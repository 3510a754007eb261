"""The `.metadata` of a DCP folder, read without running anything in it.

It is a pickle. The few classes that torch writes there are stood in for by plain records made for the occasion, so that
nothing of torch or of anybody else is called, and every other name is refused. What it claims is checked afterwards.
"""

import io
import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Self

from ckptstore.dtypes import DTYPES, OBJECT
from ckptstore.errors import UnsupportedValue
from ckptstore.formats.names import DCP_METADATA

Box = tuple[tuple[int, ...], tuple[int, ...]]
"""Offsets and sizes of a chunk."""

LONGEST = 64
"""Dimensions of a tensor, and parts of a path."""
LARGEST = 2**63

__all__ = ["Box", "Entry", "FolderMetadata", "Stored", "read_metadata"]


@dataclass(frozen=True)
class Entry:
    """A tensor by dtype, shape and chunks; an object has the dtype `object` and nothing else."""

    dtype: str
    shape: tuple[int, ...] = ()
    chunks: tuple[Box, ...] = ()


@dataclass(frozen=True)
class Stored:
    """Where a chunk or an object is: `length` bytes of a file at `offset`."""

    file: str
    offset: int
    length: int


@dataclass(frozen=True)
class FolderMetadata:
    """What a DCP folder says of itself. `stored`: by key and offsets; objects have None for these."""

    entries: dict[str, Entry]
    stored: dict[tuple[str, tuple[int, ...] | None], Stored]
    paths: dict[str, tuple[str | int, ...]] = field(default_factory=dict)


def read_metadata(folder: Path) -> FolderMetadata:
    """Read and check it. Raises `UnsupportedValue`; nothing in the pickle is run."""
    data = (folder / DCP_METADATA).read_bytes()
    try:
        return _decoded(_Unpickler(io.BytesIO(data)).load())
    except UnsupportedValue:
        raise
    except Exception as error:  # whatever a malformed pickle makes of the unpickler, or of the records
        raise _bad(f"{error!r:.200}") from error


def _bad(why: str) -> UnsupportedValue:
    hint = "import what torch.distributed.checkpoint's FileSystemWriter wrote; of other origin: run.save in Python"
    return UnsupportedValue(f"{DCP_METADATA} is none that can be read: {why}", key=DCP_METADATA, hint=hint)


# -- the pickle ----------------------------------------


class _Record:
    """An instance of a class of torch's: the arguments and the state that the pickle gave it."""

    args: tuple[Any, ...] = ()
    state: Any = None

    def __new__(cls, *args: Any) -> Self:
        made = super().__new__(cls)
        made.args = args
        return made

    def __setstate__(self, state: Any) -> None:
        self.state = state


_RECORDS = {
    "torch.distributed.checkpoint.metadata": {
        "BytesStorageMetadata",
        "ChunkStorageMetadata",
        "Metadata",
        "MetadataIndex",
        "StorageMeta",
        "TensorProperties",
        "TensorStorageMetadata",
        "_MEM_FORMAT_ENCODING",
    },
    "torch.distributed.checkpoint.filesystem": {"_StorageInfo"},
    "torch.serialization": {"_get_layout"},
    "torch": {"Size"},
    "torch.storage": {"_get_layout"},
    "collections": {"OrderedDict"},
}
_PATHS = {("pathlib", "PosixPath"), ("pathlib", "PurePosixPath"), ("pathlib._local", "PosixPath")}

_PythonUnpickler: Any = pickle._Unpickler  # noqa: SLF001
"""The one written in Python: the other takes memory for as many memo entries as ten bytes of a pickle claim."""


class _Unpickler(_PythonUnpickler):  # type: ignore[misc]
    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file)
        self._made: dict[tuple[str, str], Any] = {}

    def find_class(self, module: str, name: str) -> Any:
        """A stand-in made for this pickle: whatever it does to it, nobody else has it."""
        if module == "torch" and name in DTYPES:
            return name
        if (module, name) in _PATHS:
            return _path
        if name not in _RECORDS.get(module, ()):
            raise _bad(f"it asks for {module}.{name}, which is refused: nothing was run"[:300])
        if (module, name) == ("collections", "OrderedDict"):
            return type(name, (dict,), {})
        return self._made.setdefault((module, name), type(name, (_Record,), {}))


def _path(*parts: str) -> str:
    return str(PurePosixPath(*parts))


# -- what it says ----------------------------------------


def _decoded(metadata: Any) -> FolderMetadata:
    fields = _fields(metadata, "Metadata")
    chunks = sum(len(_chunks(entry)) for entry in fields["state_dict_metadata"].values())
    if chunks > len(fields["storage_data"]):
        raise ValueError(f"{chunks} chunks are named, and {len(fields['storage_data'])} stored")
    entries = {_text(fqn): _entry(fqn, entry) for fqn, entry in fields["state_dict_metadata"].items()}
    stored = dict(_stored(index, info) for index, info in fields["storage_data"].items())
    if len(stored) != len(fields["storage_data"]):
        raise ValueError("a chunk is stored twice")
    planner_data = fields.get("planner_data") or {}
    paths = {_text(fqn): _path_of(path) for fqn, path in planner_data.items() if fqn in entries}
    return FolderMetadata(entries, stored, paths)


def _fields(record: Any, name: str) -> Mapping[str, Any]:
    if type(record).__name__ != name or not isinstance(record, _Record) or not isinstance(record.state, dict):
        raise ValueError(f"a {name} is wanted, and there is {type(record).__name__}")
    return record.state


def _chunks(record: Any) -> Sequence[Any]:
    """Of a tensor; a pickle may name one list a thousand times, so they are counted before they are looked at."""
    return () if type(record).__name__ == "BytesStorageMetadata" else _fields(record, "TensorStorageMetadata")["chunks"]


def _entry(fqn: str, record: Any) -> Entry:
    if type(record).__name__ == "BytesStorageMetadata":
        return Entry(OBJECT)
    fields = _fields(record, "TensorStorageMetadata")
    properties = fields["properties"]
    dtype = properties.state[0] if isinstance(properties.state, tuple) else properties.state["dtype"]
    if dtype not in DTYPES or dtype == OBJECT:
        message = f"tensor {fqn!r:.100} has dtype {dtype!r:.40}, which checkpoints don't hold"
        raise UnsupportedValue(message, key=fqn)
    boxes = (_fields(chunk, "ChunkStorageMetadata") for chunk in _chunks(record))
    return Entry(dtype, _size(fields["size"]), tuple((_size(box["offsets"]), _size(box["sizes"])) for box in boxes))


def _stored(index: Any, info: Any) -> tuple[tuple[str, tuple[int, ...] | None], Stored]:
    at, where = _fields(index, "MetadataIndex"), _fields(info, "_StorageInfo")
    key = _text(at["fqn"])
    if where.get("transform_descriptors"):
        message = f"{key!r:.100} was compressed or otherwise transformed when it was written"
        raise UnsupportedValue(message, key=key, hint="load it with what wrote it, and save it: run.save")
    offset = None if at.get("offset") is None else _size(at["offset"])
    return (key, offset), Stored(_text(where["relative_path"]), *_numbers((where["offset"], where["length"])))


def _size(record: Any) -> tuple[int, ...]:
    if type(record).__name__ != "Size" or not isinstance(record, _Record):
        raise ValueError(f"a Size is wanted, and there is {type(record).__name__}")
    return _numbers(record.args[0] if record.args else ())


def _numbers(values: Any) -> tuple[int, ...]:
    if len(values) > LONGEST or not all(type(value) is int and 0 <= value < LARGEST for value in values):
        raise ValueError("numbers from 0 are wanted")
    return tuple(values)


def _path_of(values: Any) -> tuple[str | int, ...]:
    if len(values) > LONGEST or not all(type(value) in (str, int) for value in values):
        raise ValueError("a path of names and positions is wanted")
    return tuple(values)


def _text(value: Any) -> str:
    if type(value) is not str:
        raise ValueError(f"there is a {type(value).__name__} where a name is wanted")
    return value
