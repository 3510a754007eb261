"""`CheckpointLoadPlanner`: a checkpoint into a nested state dict, nothing missing or cast unnoticed.

dcp.load(state, planner=CheckpointLoadPlanner(), storage_reader=StoreReader("store.toml"), …)

state = {}                                                  no template: all of it
dcp.load({}, planner=CheckpointLoadPlanner(state), …)
"""

import dataclasses
import io
import threading
import warnings
from typing import Any

import numpy as np
import torch
from torch.distributed.checkpoint.default_planner import DefaultLoadPlanner, create_default_local_load_plan
from torch.distributed.checkpoint.metadata import STORAGE_TYPES, Metadata, MetadataIndex, TensorStorageMetadata
from torch.distributed.checkpoint.planner import LoadItemType, LoadPlan, ReadItem
from torch.distributed.tensor import DTensor

from ckptstore.dcp.destinations import Destination, array_over_others, beside, in_array, in_tensor, over_others
from ckptstore.dcp.job import JobState
from ckptstore.dcp.keys import LoadReport, listed, settle
from ckptstore.dcp.layout import Layout
from ckptstore.dcp.matching import Match, Wanted, match
from ckptstore.dcp.metadata import SavedTensor
from ckptstore.dcp.objects import decode
from ckptstore.dcp.restoring import restore
from ckptstore.dcp.tensors import check_tensor, dtype_name
from ckptstore.dcp.ties import overlapping, tied
from ckptstore.errors import CorruptError, DtypeMismatch, ShapeMismatch

__all__ = ["CheckpointLoadPlanner", "LoadReport"]


class CheckpointLoadPlanner(DefaultLoadPlanner):
    """Plans a load into `state`, or, where none is given, into the state dict that DCP passes.

    `strict`: missing and unexpected keys raise `KeyMismatch`; without it, what is missing stays untouched.
    Values are cast with `allow_cast` only, with a warning for each key. `report`, after planning, is of all
    ranks. Everything is in its place once the reader has handed over the last item.
    """

    typed_objects = True

    def __init__(
        self,
        state: dict[str, Any] | JobState | None = None,
        *,
        strict: bool = True,
        allow_cast: bool = False,
        allow_pickle: bool = False,
    ) -> None:
        super().__init__(flatten_state_dict=False)
        self.state = state
        self.strict = strict
        self.allow_cast = allow_cast
        self.allow_pickle = allow_pickle
        self.report = LoadReport()
        self._lock = threading.Lock()

    def set_up_planner(
        self, state_dict: dict[str, Any], metadata: Metadata | None = None, is_coordinator: bool = False
    ) -> None:
        """Hold the template against the checkpoint. Raises `ShapeMismatch` and `DtypeMismatch`."""
        assert metadata is not None, "DCP reads the metadata first"
        self.metadata, self.is_coordinator = metadata, is_coordinator
        self._layout = Layout.of(metadata)
        template = state_dict if self.state is None else self.state
        self._match = match(self._layout.root, template, metadata.state_dict_metadata, strict=self.strict)
        self._values: dict[str, Any] = {}
        self._destinations: dict[str, Destination] = {}
        leaves = list(self._match.wanted.leaves())
        self._set_destinations([leaf for leaf in leaves if leaf.kind != "object"])
        self.state_dict = {name: destination.tensor for name, destination in self._destinations.items()}
        self.state_dict |= {leaf.name: None for leaf in leaves if leaf.kind == "object"}

    def _set_destinations(self, leaves: list[Wanted]) -> None:
        """One for each tensor to be read: keys that are tied here and in the checkpoint are read once."""
        values = {leaf.name: leaf.value for leaf in leaves}
        ties = tied(values)
        over = overlapping({name: value for name, value in values.items() if name not in ties})
        fresh: dict[str, Destination] = {}
        for leaf in sorted(leaves, key=lambda leaf: leaf.name):
            stored, first = self._stored(leaf.name), ties.get(leaf.name)
            if first is not None and self._stored(first) == stored:
                self._values[leaf.name] = leaf.value
            elif first is not None:
                self._check(leaf.name, tuple(leaf.value.shape), leaf.value.dtype)
                self._destinations[leaf.name] = beside(leaf.value, (first, leaf.name))
            elif isinstance(leaf.value, (torch.Tensor, np.ndarray)):
                self._destinations[leaf.name] = self._in_place(leaf, shared=leaf.name in over)
            elif stored in fresh:
                self._values[leaf.name] = fresh[stored].finish()
            else:
                fresh[stored] = self._destinations[leaf.name] = self._fresh(leaf)

    def _in_place(self, leaf: Wanted, *, shared: bool) -> Destination:
        """Into the template's memory; by way of memory beside it where other keys reach into it too."""
        if isinstance(leaf.value, torch.Tensor):
            check_tensor(leaf.value, leaf.name, as_destination=True)
            self._check(leaf.name, tuple(leaf.value.shape), leaf.value.dtype)
            return over_others(leaf.value, leaf.name) if shared else in_tensor(leaf.value, leaf.name)
        tensor = self._fresh(leaf).tensor
        self._check(leaf.name, leaf.value.shape, _torch_dtype_of(leaf.value, leaf.name))
        return array_over_others(leaf.value, tensor, leaf.name) if shared else in_array(leaf.value, tensor)

    def _fresh(self, leaf: Wanted) -> Destination:
        entry = self._entry(leaf.name)
        tensor = torch.empty(entry.size, dtype=entry.properties.dtype)
        return Destination(tensor, tensor.numpy if leaf.kind == "ndarray" else None)

    def _stored(self, name: str) -> str:
        """The key that a tensor is stored under."""
        return self._layout.aliases.get(name, name)

    def _entry(self, name: str) -> TensorStorageMetadata:
        entry = self.metadata.state_dict_metadata.get(name) if self.metadata else None
        if not isinstance(entry, TensorStorageMetadata):
            raise CorruptError(f"the checkpoint's structure has a tensor {name!r}, its index has none", key=name)
        return entry

    def _check(self, name: str, shape: tuple[int, ...], dtype: torch.dtype) -> None:
        entry = self._entry(name)
        saved = entry.properties.dtype
        if tuple(entry.size) != shape:
            raise ShapeMismatch(
                f"{name!r} was saved with shape {tuple(entry.size)}, and the destination has {shape}",
                key=name,
                saved=tuple(entry.size),
                wanted=shape,
            )
        if saved == dtype:
            return
        if not self.allow_cast or (saved.is_complex and not dtype.is_complex):
            raise DtypeMismatch(
                f"{name!r} was saved as {dtype_name(saved)}, and the destination is {dtype_name(dtype)}",
                key=name,
                saved=dtype_name(saved),
                wanted=dtype_name(dtype),
                hint="make the destination of the saved dtype, or pass allow_cast=True",
            )
        warnings.warn(f"{name!r} is cast from {dtype_name(saved)} to {dtype_name(dtype)}", stacklevel=2)

    def create_local_plan(self) -> LoadPlan:
        """What this rank reads, and the keys it found missing or over; nothing is decided about them here."""
        assert self.metadata is not None, "set_up_planner came first"
        saved = {name: self.metadata.state_dict_metadata[name] for name in self.state_dict}
        near = {name: _near(entry, self.state_dict[name]) for name, entry in saved.items()}
        plan = create_default_local_load_plan(self.state_dict, Metadata(near))
        items = [self._from_stored(item) for item in plan.items if _reads_something(item)]
        self._expected = len(items)
        return LoadPlan(items, planner_data=_keys_of(self._match, self._layout))

    def _from_stored(self, item: ReadItem) -> ReadItem:
        index = item.storage_index
        stored = MetadataIndex(self._stored(index.fqn), index.offset, index.index)
        return dataclasses.replace(item, storage_index=stored)

    def create_global_plan(self, global_plan: list[LoadPlan]) -> list[LoadPlan]:
        """On rank 0. Raises `KeyMismatch` with the keys of all ranks."""
        found = [plan.planner_data for plan in global_plan]
        report = settle(found, self._layout.single, strict=self.strict)
        return [dataclasses.replace(plan, planner_data=report) for plan in global_plan]

    def finish_plan(self, new_plan: LoadPlan) -> LoadPlan:
        """Take the report of all ranks."""
        self.report = new_plan.planner_data
        if self.is_coordinator:
            _warn(self.report)
        if not self._expected:
            self._put_in_place()
        return new_plan

    def load_bytes(self, read_item: ReadItem, value: io.BytesIO) -> None:
        """Take an object, as typed JSON."""
        name = read_item.dest_index.fqn
        self._values[name] = decode(value.read(), key=name, allow_pickle=self.allow_pickle)
        self._count()

    def lookup_tensor(self, index: MetadataIndex) -> torch.Tensor:
        """The part of this process; never a tensor that autograd watches."""
        return super().lookup_tensor(index).detach()

    def commit_tensor(self, read_item: ReadItem, tensor: torch.Tensor) -> None:  # noqa: ARG002  DCP passes them
        """Take note that a piece is complete; the reader wrote into what `resolve_tensor` gave it."""
        self._count()

    def _count(self) -> None:
        with self._lock:
            self._expected -= 1
            complete = self._expected == 0
        if complete:
            self._put_in_place()

    def _put_in_place(self) -> None:
        for name, destination in self._destinations.items():
            self._values[name] = destination.finish()
        for destination in self._destinations.values():
            destination.check()
        restore(self._match.wanted, self._values)


def _torch_dtype_of(array: np.ndarray[Any, Any], name: str) -> torch.dtype:
    try:
        return torch.from_numpy(np.empty(0, array.dtype)).dtype
    except (TypeError, ValueError):
        message = f"{name!r} was saved as numbers, and the destination is an array of {array.dtype}"
        raise DtypeMismatch(message, key=name, wanted=str(array.dtype), hint="put None there to take it") from None


def _near(entry: STORAGE_TYPES, wanted: Any) -> STORAGE_TYPES:
    """The metadata with those chunks alone that hold something of what this process has of a tensor."""
    if not isinstance(entry, SavedTensor) or not isinstance(wanted, torch.Tensor) or wanted.size() != entry.size:
        return entry
    if isinstance(wanted, DTensor):
        if wanted.device_mesh.get_coordinate() is None:
            return entry  # it has no part in it, and DCP plans nothing
        chunks = wanted.__create_chunk_list__()  # type: ignore[no-untyped-call]
        return entry.within([(chunk.offsets, chunk.sizes) for chunk in chunks])
    return entry.within([([0] * wanted.dim(), wanted.size())])


def _reads_something(item: ReadItem) -> bool:
    return item.type is LoadItemType.BYTE_IO or item.lengths.numel() > 0


def _keys_of(found: Match, layout: Layout) -> LoadReport:
    """A tensor counts as loaded under each of its names, in the template as in the checkpoint."""
    loaded = {leaf.name: leaf.value for leaf in found.wanted.leaves()}
    ties = tied(found.missing | loaded)
    here = {ties.get(name, name) for name in loaded}
    there = {layout.aliases.get(name, name) for name in loaded}
    return LoadReport(
        missing=tuple(name for name in found.missing if ties.get(name, name) not in here),
        unexpected=tuple(name for name in found.unexpected if layout.aliases.get(name, name) not in there),
        gaps=tuple(found.gaps),
        torn=tuple(found.torn),
    )


def _warn(report: LoadReport) -> None:
    if report.gaps:
        what = "optimizer state that was not saved, its parameters had never been stepped"
        warnings.warn(listed(what, report.gaps), stacklevel=2)
    if report.unread:
        warnings.warn(listed("saved by one rank, wanted by none", report.unread), stacklevel=2)
