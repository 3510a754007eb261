"""A DCP load plan carried out: byte ranges read and verified, then handed to the planner."""

import io
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch.distributed.checkpoint.planner import LoadItemType, LoadPlan, LoadPlanner, ReadItem

from ckptstore.dcp.objects import to_torch_zip
from ckptstore.dcp.tensors import dtype_name, torch_dtype
from ckptstore.errors import DtypeMismatch
from ckptstore.load.plan import Request, Shard, box_runs
from ckptstore.load.scatter import Destination, destination
from ckptstore.source import Source, batches
from manifests import TensorEntry

__all__ = ["deliver"]


@dataclass(frozen=True, eq=False)
class _Delivery:
    """One read item on its way: its tensor, where the bytes go, and what asks for them."""

    item: ReadItem
    tensor: torch.Tensor
    destination: Destination
    request: Request


def deliver(source: Source, plan: LoadPlan, planner: LoadPlanner, *, allow_cast: bool, allow_pickle: bool) -> None:
    """Read every item of the plan to where the planner says. Raises `DtypeMismatch`, and what a read raises."""
    cast = allow_cast or bool(getattr(planner, "allow_cast", False))
    places = source.locate([(item.storage_index.fqn, tuple(item.storage_index.offset or ())) for item in plan.items])
    found = zip(plan.items, places, strict=True)
    tensors = [(item, *place) for item, place in found if item.type is LoadItemType.TENSOR]
    prepared = [_prepare(planner, *each, cast) for each in tensors]
    if not getattr(planner, "allow_cast", False):  # a planner that casts has warned already
        _warn_of_casts(prepared, [entry.dtype for _, _, entry in tensors])
    # Groups that hold at most the window beside their tensors: staging is bounded as well.
    for batch in batches(prepared, lambda delivery: delivery.destination.staged, source.opened.config.window_bytes):
        source.read([delivery.request for delivery in batch])
        for delivery in batch:
            delivery.destination.arrive()
            planner.commit_tensor(delivery.item, delivery.tensor)
    for item in plan.items:
        if item.type is LoadItemType.BYTE_IO:
            _deliver_object(source, planner, item, allow_pickle)


def _prepare(planner: LoadPlanner, item: ReadItem, shard: Shard, entry: TensorEntry, cast: bool) -> _Delivery:
    tensor = planner.resolve_tensor(item).detach()
    dtype = torch_dtype(entry.dtype)
    if tensor.dtype != dtype and (not cast or (dtype.is_complex and not tensor.is_complex())):
        message = f"{entry.fqn!r} was saved as {dtype} and the destination is {tensor.dtype}"
        hint = "make the destination of the saved dtype, or pass allow_cast=True"
        raise DtypeMismatch(message, hint=hint, key=entry.fqn, saved=str(dtype), wanted=str(tensor.dtype))
    runs = box_runs(entry.shape, dtype.itemsize, item.storage_offsets, item.lengths)
    place = destination(tensor, dtype)
    return _Delivery(item, tensor, place, Request(shard, entry.offset, runs, place.into))


def _warn_of_casts(prepared: Sequence[_Delivery], saved: Sequence[str]) -> None:
    """Warn once for each key whose destination is of another dtype, into however many pieces it was cut."""
    wanted = [dtype_name(delivery.tensor.dtype) for delivery in prepared]
    keys = [delivery.item.storage_index.fqn for delivery in prepared]
    for fqn, one, other in dict.fromkeys(zip(keys, saved, wanted, strict=True)):
        if one != other:
            warnings.warn(f"{fqn!r} is cast from {one} to {other}", stacklevel=2)


def _deliver_object(source: Source, planner: LoadPlanner, item: ReadItem, allow_pickle: bool) -> None:
    fqn = item.storage_index.fqn
    data = source.read_object(fqn)
    if not getattr(planner, "typed_objects", False):
        data = to_torch_zip(data, key=fqn, allow_pickle=allow_pickle)
    planner.load_bytes(item, io.BytesIO(data))
