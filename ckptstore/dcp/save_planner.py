"""`CheckpointSavePlanner`: any nested state dict, with its types, ties and containers, as a DCP save plan.

    dcp.save(state, planner=CheckpointSavePlanner(), storage_writer=StoreWriter("store.toml"), …)

What can be refused is refused while planning, before any byte is written: kinds of tensors and objects that
can't be stored, keys that collide, ranks that hold different kinds of things under one key.
"""

import dataclasses
import io
import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch.distributed.checkpoint.default_planner import (
    DefaultSavePlanner,
    create_default_global_save_plan,
    create_default_local_save_plan,
)
from torch.distributed.checkpoint.metadata import Metadata, StorageMeta
from torch.distributed.checkpoint.planner import SavePlan, WriteItem, WriteItemType

from ckptstore.dcp.layout import Layout, PlannerData
from ckptstore.dcp.naming import check_in_step
from ckptstore.dcp.objects import encode
from ckptstore.dcp.replicas import without_replicas
from ckptstore.dcp.structure import flatten, leaf_kind
from ckptstore.dcp.structure_json import merge, structure_from_json, structure_to_json, torch_paths
from ckptstore.dcp.tensors import check_tensor
from ckptstore.dcp.ties import tied
from ckptstore.errors import ReplicaMismatch

__all__ = ["CheckpointSavePlanner"]


class CheckpointSavePlanner(DefaultSavePlanner):
    """Plans a save. `structure`, on rank 0 after planning: what the index keeps of the state's layout.

    Objects are given to the writer as typed JSON (`typed_objects`), tensors as they are; a view stands for
    its logical values. Tied tensors are planned once and named in the layout's aliases. With `allow_pickle`,
    objects that typed JSON can't hold are pickled and marked so. `called`: what this rank takes the save for, which
    must be the same on all.
    """

    typed_objects = True

    def __init__(self, *, allow_pickle: bool = False, called: str | None = None) -> None:
        # Plans are never cached: torch's cache compares neither dtypes nor structures, and spares little
        super().__init__(flatten_state_dict=False)
        self.allow_pickle = allow_pickle
        self.called = called
        self.structure: dict[str, Any] | None = None

    def set_up_planner(
        self,
        state_dict: dict[str, Any],
        storage_meta: StorageMeta | None = None,  # noqa: ARG002  torch looks for the name
        is_coordinator: bool = False,
    ) -> None:
        """Lay the state flat. Raises `KeyCollision` and `UnsupportedValue`, naming the keys."""
        flat = flatten(state_dict)
        for name, leaf in flat.leaves.items():
            if isinstance(leaf, torch.Tensor):
                check_tensor(leaf, name)
        self._aliases = tied(flat.leaves)
        self._root = flat.root
        self.state_dict = {name: self._storable(name, leaf) for name, leaf in flat.leaves.items()}
        self.is_coordinator = is_coordinator

    def _storable(self, name: str, leaf: Any) -> torch.Tensor | bytes:
        kind = leaf_kind(leaf)
        if kind == "object":
            return encode(leaf, key=name, allow_pickle=self.allow_pickle)
        return torch.from_numpy(_plain_array(leaf)) if kind == "ndarray" else leaf

    def create_local_plan(self) -> SavePlan:
        """The items of this rank; its structure travels to rank 0 with them."""
        stored = {name: leaf for name, leaf in self.state_dict.items() if name not in self._aliases}
        plan = create_default_local_save_plan(stored, self.is_coordinator)
        carried = {"tree": json.dumps(structure_to_json(self._root)), "aliases": self._aliases, "called": self.called}
        self.plan = dataclasses.replace(
            plan,
            items=[item for item in plan.items if not _is_empty_chunk(item)],
            planner_data=PlannerData(structure=carried),
        )
        return self.plan

    def create_global_plan(self, all_plans: list[SavePlan]) -> tuple[list[SavePlan], Metadata]:
        """On rank 0. Raises `ReplicaMismatch` and `KeyCollision` where ranks disagree, naming the keys.

        `UsageError` where they are out of step.
        """
        check_in_step([plan.planner_data.structure["called"] for plan in all_plans])
        _check_kinds(all_plans)
        layout = _layout(all_plans)
        bare = [dataclasses.replace(plan, planner_data=None) for plan in all_plans]
        # Hints for lookups would cost a copy of every item, and no writer of ours looks anything up by them
        plans, metadata = create_default_global_save_plan(without_replicas(bare), rewrite_index_hints=False)
        for alias, name in layout.aliases.items():
            metadata.state_dict_metadata[alias] = metadata.state_dict_metadata[name]
        self.structure = layout.to_json()
        paths = torch_paths(layout.root)
        self.metadata = dataclasses.replace(metadata, planner_data=PlannerData(paths, structure=self.structure))
        return plans, self.metadata

    def transform_object(self, write_item: WriteItem, object: Any) -> Any:  # noqa: A002  torch's name
        """The bytes of an object; a tensor's logical values."""
        if write_item.type is WriteItemType.BYTE_IO:
            return io.BytesIO(object)
        return object.detach().resolve_conj().resolve_neg()


def _plain_array(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """As torch takes it: writable, strides not negative."""
    plain = np.ascontiguousarray(array)
    return plain if plain.flags.writeable else plain.copy()


def _is_empty_chunk(item: WriteItem) -> bool:
    """A shard of nothing, as the last ranks hold of a tensor with few rows; an empty tensor is none."""
    data = item.tensor_data
    return data is not None and data.size.numel() > 0 and data.chunk.sizes.numel() == 0


def _check_kinds(plans: Sequence[SavePlan]) -> None:
    """One key is one thing on all ranks: an object, or a tensor of one dtype and shape, whole or sharded."""
    first: dict[str, tuple[int, Any]] = {}
    for rank, plan in enumerate(plans):
        for item in plan.items:
            kind = _kind(item)
            holder, seen = first.setdefault(item.index.fqn, (rank, kind))
            if seen != kind:
                raise ReplicaMismatch(
                    f"{item.index.fqn!r} is {seen} on rank {holder} and {kind} on rank {rank}",
                    key=item.index.fqn,
                    ranks=[holder, rank],
                    hint="give ranks keys of their own, or the same kind of value",
                )


def _kind(item: WriteItem) -> str:
    data = item.tensor_data
    if data is None:
        return "an object"
    what = "a sharded tensor" if item.type is WriteItemType.SHARD else "a tensor"
    return f"{what} of {data.properties.dtype} and shape {tuple(data.size)}"


def _layout(plans: Sequence[SavePlan]) -> Layout:
    carried = [plan.planner_data.structure for plan in plans]
    trees = dict.fromkeys(each["tree"] for each in carried)  # the same on all ranks, as a rule
    root = merge(structure_from_json(json.loads(tree)) for tree in trees)
    items = [item for plan in plans for item in plan.items]
    held = Counter(item.index.fqn for item in items if item.type is not WriteItemType.SHARD)
    planned = {item.index.fqn for item in items}
    # a key that is tied on one rank and not on another is stored for the rank where it is not
    aliases = {alias: name for each in carried for alias, name in each["aliases"].items() if alias not in planned}
    single = frozenset(name for name, ranks in held.items() if ranks == 1) if len(plans) > 1 else frozenset()
    return Layout(root, aliases, single)
