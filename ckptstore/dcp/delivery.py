"""A DCP load plan carried out: byte ranges read and verified, then handed to the planner."""

import io
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch.distributed.checkpoint.planner import LoadItemType, LoadPlan, LoadPlanner, ReadItem

from ckptstore.dcp.objects import to_torch_zip
from ckptstore.dcp.pieces import address
from ckptstore.dcp.sharing import Sharing, key_of_item
from ckptstore.dcp.tensors import dtype_name, torch_dtype
from ckptstore.errors import DtypeMismatch
from ckptstore.load.plan import Request, Shard, box_runs
from ckptstore.load.scatter import Destination, destination, staged_bytes
from ckptstore.source import Source, batches
from manifests import TensorEntry

__all__ = ["deliver"]


@dataclass(frozen=True, eq=False)
class _Wanted:
    """One read item: its tensor, and where the bytes are."""

    item: ReadItem
    tensor: torch.Tensor
    shard: Shard
    entry: TensorEntry

    @property
    def dtype(self) -> torch.dtype:
        """As it is stored."""
        return torch_dtype(self.entry.dtype)

    @property
    def staged(self) -> int:
        """Bytes held beside the tensor while it is read."""
        return staged_bytes(self.tensor, self.dtype)

    def into(self, place: Destination) -> Request:
        """What asks for the bytes."""
        runs = box_runs(self.entry.shape, self.dtype.itemsize, self.item.storage_offsets, self.item.lengths)
        return Request(self.shard, self.entry.offset, runs, place.into)


def deliver(
    source: Source, plan: LoadPlan, planner: LoadPlanner, sharing: Sharing, *, allow_cast: bool, allow_pickle: bool
) -> None:
    """Read every item of the plan to where the planner says. Raises `DtypeMismatch`, and what a read raises.

    Where another rank failed to read what is shared it returns early: that rank's error fails the load on all.
    """
    try:
        wanted = _all_wanted(source, plan, planner, allow_cast or bool(getattr(planner, "allow_cast", False)))
    except Exception as error:
        sharing.tell(error)
        raise
    if not getattr(planner, "allow_cast", False):  # a planner that casts has warned already
        _warn_of_casts(wanted)
    if _deliver_shared(source, wanted, planner, sharing):
        _deliver_own(source, [each for each in wanted if not sharing.is_shared(each.item)], planner)
        for item in plan.items:
            if item.type is LoadItemType.BYTE_IO:
                _deliver_object(source, planner, item, allow_pickle)


def _deliver_own(source: Source, wanted: Sequence[_Wanted], planner: LoadPlanner) -> None:
    """In groups that hold at most the window beside their tensors: staging is bounded as well."""
    for batch in batches(wanted, lambda each: each.staged, source.opened.config.window_bytes):
        placed = [(each, destination(each.tensor, each.dtype)) for each in batch]
        source.read([each.into(place) for each, place in placed])
        for each, place in placed:
            place.arrive()
            planner.commit_tensor(each.item, each.tensor)


def _deliver_shared(source: Source, wanted: Sequence[_Wanted], planner: LoadPlanner, sharing: Sharing) -> bool:
    """In groups of at most the window, the same on all ranks; each reads its part. False where a rank failed."""
    by_key = {key_of_item(each.item): each for each in wanted}
    shared = [by_key[key] for key in sharing.owners]
    failure: Exception | None = None
    for batch in batches(shared, _nbytes, source.opened.config.window_bytes):
        placed = {key_of_item(each.item): (each, destination(each.tensor, each.dtype)) for each in batch}
        try:
            if failure is None:
                source.read([each.into(place) for each, place in placed.values() if sharing.is_mine(each.item)])
        except Exception as error:  # noqa: BLE001 - whatever it is, the others must hear of it: they would wait for ever
            failure = error
        if not sharing.agree({key: place.into for key, (_, place) in placed.items()}, failure):
            break
        try:
            sharing.pass_on({key: place.into for key, (_, place) in placed.items()})
            for each, place in placed.values():
                place.arrive()
                planner.commit_tensor(each.item, each.tensor)
        except Exception as error:  # noqa: BLE001 - told in the next group, or by the end of the load
            failure = error
    else:
        if failure is None:
            return True
    if failure is not None:
        raise failure
    return False


def _all_wanted(source: Source, plan: LoadPlan, planner: LoadPlanner, cast: bool) -> list[_Wanted]:
    places = source.locate([address(item.storage_index) for item in plan.items])
    found = zip(plan.items, places, strict=True)
    return [_wanted(planner, item, *place, cast) for item, place in found if item.type is LoadItemType.TENSOR]


def _nbytes(wanted: _Wanted) -> int:
    return wanted.tensor.numel() * wanted.dtype.itemsize


def _wanted(planner: LoadPlanner, item: ReadItem, shard: Shard, entry: TensorEntry, cast: bool) -> _Wanted:
    tensor = planner.resolve_tensor(item).detach()
    dtype = torch_dtype(entry.dtype)
    if tensor.dtype != dtype and (not cast or (dtype.is_complex and not tensor.is_complex())):
        message = f"{entry.fqn!r} was saved as {dtype} and the destination is {tensor.dtype}"
        hint = "make the destination of the saved dtype, or pass allow_cast=True"
        raise DtypeMismatch(message, hint=hint, key=entry.fqn, saved=str(dtype), wanted=str(tensor.dtype))
    return _Wanted(item, tensor, shard, entry)


def _warn_of_casts(wanted: Sequence[_Wanted]) -> None:
    """Warn once for each key whose destination is of another dtype, into however many pieces it was cut."""
    casts = [(each.item.storage_index.fqn, each.entry.dtype, dtype_name(each.tensor.dtype)) for each in wanted]
    for fqn, one, other in dict.fromkeys(casts):
        if one != other:
            warnings.warn(f"{fqn!r} is cast from {one} to {other}", stacklevel=2)


def _deliver_object(source: Source, planner: LoadPlanner, item: ReadItem, allow_pickle: bool) -> None:
    fqn = item.storage_index.fqn
    data = source.read_object(fqn)
    if not getattr(planner, "typed_objects", False):
        data = to_torch_zip(data, key=fqn, allow_pickle=allow_pickle)
    planner.load_bytes(item, io.BytesIO(data))
