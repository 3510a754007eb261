"""A DCP load plan carried out: byte ranges read and verified, then handed to the planner."""

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch.distributed.checkpoint.planner import LoadItemType, LoadPlan, LoadPlanner, ReadItem

from ckptstore.dcp.objects import to_torch_zip
from ckptstore.dcp.tensors import torch_dtype
from ckptstore.errors import DtypeMismatch
from ckptstore.load.plan import Request, Shard, box_runs
from ckptstore.load.scatter import Destination, destination
from ckptstore.source import Source
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
    found = list(zip(plan.items, places, strict=True))
    tensors = [(item, *place) for item, place in found if item.type is LoadItemType.TENSOR]
    for batch in _batches([_prepare(planner, *each, cast) for each in tensors], source.opened.config.window_bytes):
        source.read([delivery.request for delivery in batch])
        for delivery in batch:
            delivery.destination.arrive()
            planner.commit_tensor(delivery.item, delivery.tensor)
    for item, (shard, entry) in found:
        if item.type is LoadItemType.BYTE_IO:
            _deliver_object(source, planner, item, shard, entry, allow_pickle)


def _prepare(planner: LoadPlanner, item: ReadItem, shard: Shard, entry: TensorEntry, cast: bool) -> _Delivery:
    tensor = planner.resolve_tensor(item).detach()
    dtype = torch_dtype(entry.dtype)
    if tensor.dtype != dtype and not cast:
        message = f"{entry.fqn!r} was saved as {dtype} and the destination is {tensor.dtype}"
        hint = "make the destination of the saved dtype, or pass allow_cast=True"
        raise DtypeMismatch(message, hint=hint, key=entry.fqn, saved=str(dtype), wanted=str(tensor.dtype))
    runs = box_runs(entry.shape, dtype.itemsize, item.storage_offsets, item.lengths)
    place = destination(tensor, dtype)
    return _Delivery(item, tensor, place, Request(shard, entry.offset, runs, place.into))


def _batches(deliveries: Sequence[_Delivery], limit: int) -> Iterator[list[_Delivery]]:
    """Groups that hold at most `limit` bytes beside their tensors (or one tensor): staging is bounded as well."""
    batch: list[_Delivery] = []
    staged = 0
    for delivery in deliveries:
        if batch and staged + delivery.destination.staged > limit:
            yield batch
            batch, staged = [], 0
        batch.append(delivery)
        staged += delivery.destination.staged
    if batch:
        yield batch


def _deliver_object(
    source: Source, planner: LoadPlanner, item: ReadItem, shard: Shard, entry: TensorEntry, allow_pickle: bool
) -> None:
    into = np.empty(entry.nbytes, np.uint8)
    source.read([Request(shard, entry.offset, box_runs([entry.nbytes], 1, [0], [entry.nbytes]), into)])
    data = into.tobytes()
    if not getattr(planner, "typed_objects", False):
        data = to_torch_zip(data, key=entry.fqn, allow_pickle=allow_pickle)
    planner.load_bytes(item, io.BytesIO(data))
