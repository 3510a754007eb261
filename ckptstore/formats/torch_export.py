"""A checkpoint as one file of `torch.save`, nested as it was saved, whatever its size.

torch writes the archive with room for the tensors and without their data (`skip_data`), from tensors that lie in a
file of nothing. Where the room for each is, is asked of torch, by mapping the archive. It is filled as a restored file
is, and the archive's checksums are set right.
"""

import os
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from ckptstore.dcp.layout import Layout
from ckptstore.dcp.metadata import metadata_of
from ckptstore.dcp.objects import decode
from ckptstore.dcp.structure import flatten, leaves_of, name_of_path, unflatten
from ckptstore.dcp.tensors import torch_dtype
from ckptstore.errors import CkptStoreError
from ckptstore.events import Observer, Progress, ignore
from ckptstore.formats.choosing import Chosen
from ckptstore.formats.torch_dtypes import check_torch_dtypes
from ckptstore.formats.zip_sums import data_start, set_checksums
from ckptstore.operations.assembly import tensor_bytes
from ckptstore.operations.placing import FileToWrite, RestorePlan, checked, publish, staging
from ckptstore.operations.restore import fill
from ckptstore.save import snapshot
from ckptstore.source import Source

ALIGNMENT = 64
"""Of each tensor's place; torch aligns storages so."""

__all__ = ["export_torch_file", "plan_torch_export"]


def plan_torch_export(source: Source, place: Path, chosen: Chosen, *, force: bool = False) -> RestorePlan:
    """What would be written to the file `place`. Raises `UnsupportedValue` naming dtypes, `UsageError`."""
    check_torch_dtypes(source, chosen)
    size = sum(tensor_bytes(source, fqn) for fqn in chosen.tensors)
    plan = RestorePlan(place.parent, (FileToWrite(place.name, size),), chosen.kept, (), fresh=False)
    return checked(plan, place, force=force)


def export_torch_file(source: Source, plan: RestorePlan, chosen: Chosen, observer: Observer = ignore) -> None:
    """Write it. Raises `DataLost`, `OutOfReach`, `CorruptError`, `OSError`; what was there before is untouched then."""
    limit = source.opened.config.window_bytes // 2
    with staging(plan) as stage:
        path = stage / plan.files[0].path
        state = _state(source, chosen, stage / "empty", limit)
        with torch.serialization.skip_data():
            torch.save(state, path)
        leaves = {name: leaf for name, leaf in flatten(state).leaves.items() if isinstance(leaf, torch.Tensor)}
        rooms = _rooms(path, leaves)
        stored = {chosen.called(fqn): source.aliases.get(fqn, fqn) for fqn in chosen.tensors}
        offsets = {stored[name]: at for name, at in rooms.items() if name in stored}
        file = FileToWrite(path.name, path.stat().st_size, offsets=tuple(offsets.items()))
        with path.open("r+b") as opened:
            fill(source, file, opened, limit, lambda done: observer(Progress("export", done, plan.bytes)))
            for name in rooms.keys() - stored.keys():  # tensors inside of objects
                opened.seek(rooms[name])
                opened.write(snapshot.tensor_bytes(leaves[name]).data)
            set_checksums(opened)
            os.fsync(opened.fileno())
        publish(replace(plan, files=(file,)), stage)


def _state(source: Source, chosen: Chosen, nothing: Path, limit: int) -> dict[str, Any]:
    """What is saved: objects as they are, and tensors of the right dtype and shape without their values.

    Nested as it was where all of the checkpoint is chosen, else by name.
    """
    values: dict[str, Any] = _empty(source, chosen, nothing)
    for fqn in chosen.objects:
        values[fqn] = decode(source.read_object(fqn, limit), key=fqn)
    root = Layout.of(metadata_of(source.index)).root
    if values.keys() >= {name_of_path(path) for path, _ in leaves_of(root)}:
        state: dict[str, Any] = unflatten(root, values)
        return state
    return {chosen.called(fqn): values[fqn] for fqn in [*chosen.tensors, *chosen.objects]}


def _empty(source: Source, chosen: Chosen, nothing: Path) -> dict[str, torch.Tensor]:
    """A tensor for each key, tied ones on one storage, all in a file of holes: it takes no room and no memory."""
    table = source.index.tensors
    stored = {fqn: source.aliases.get(fqn, fqn) for fqn in chosen.tensors}
    starts: dict[str, int] = {}
    end = 0
    for name in dict.fromkeys(stored.values()):
        starts[name], end = end, end + -(-max(tensor_bytes(source, name), 1) // ALIGNMENT) * ALIGNMENT
    with nothing.open("xb") as file:
        file.truncate(max(end, ALIGNMENT))
    holes = torch.UntypedStorage.from_file(str(nothing), shared=True, nbytes=max(end, ALIGNMENT))
    made = {}
    for name, start in starts.items():
        room: torch.UntypedStorage = holes[start : start + tensor_bytes(source, name)]
        flat = torch.empty(0, dtype=torch_dtype(table[name].dtype)).set_(room)
        made[name] = flat.reshape(table[name].shape)
    return {fqn: made[name] for fqn, name in stored.items()}


def _rooms(path: Path, leaves: Mapping[str, torch.Tensor]) -> dict[str, int]:
    """Where the bytes of each tensor go in the archive, as torch itself would find them."""
    with path.open("rb") as file, zipfile.ZipFile(file) as archive:
        data = [record for record in archive.infolist() if "/data/" in record.filename and record.file_size]
        records = {data_start(file, record): record.file_size for record in data}
    mapped = flatten(torch.load(path, map_location="cpu", weights_only=True, mmap=True)).leaves
    pointers = {name: mapped[name].untyped_storage().data_ptr() for name, leaf in leaves.items() if leaf.nbytes}
    base = min(pointers.values(), default=0) - min(records, default=0)
    rooms = {name: pointer - base for name, pointer in pointers.items()}
    wrong = [name for name, at in rooms.items() if records.get(at) != leaves[name].nbytes]
    if wrong or mapped.keys() < leaves.keys():
        message = f"torch {torch.__version__} lays its files out otherwise than is known here: {wrong[:3]}"
        raise CkptStoreError(message, hint="export to a DCP folder, or a Hugging Face folder", key=wrong[:1])
    return rooms
