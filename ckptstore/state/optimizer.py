"""Optimizer state by the names of parameters, as torch's helpers give and take it, exactly as it is.

Left alone, those helpers step an optimizer that has no state yet, to make it some: Adam counts that step, and what
trains on differs. Loading casts moments to the dtype of their parameter, and drops those of frozen parameters. Here
none of it happens, and a parameter that had never been stepped when the state was saved hasn't been afterwards.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_optimizer_state_dict,
    set_optimizer_state_dict,
)
from torch.distributed.tensor import DTensor
from torch.optim import LBFGS, Optimizer

from ckptstore.dcp.job import Saved
from ckptstore.errors import KeyMismatch, StateError

__all__ = ["count_slots", "optimizer_state", "optimizer_template", "restore_optimizer"]


def optimizer_state(model: nn.Module, optimizers: Sequence[Optimizer]) -> dict[str, Any]:
    """{"state": {parameter: {slot: value}}, "param_groups": […]}, of all together; sharded tensors stay sharded."""
    with _unstepped(optimizers):
        return dict(get_optimizer_state_dict(model, optimizers))


def optimizer_template(
    model: nn.Module, optimizers: Sequence[Optimizer], saved: Saved
) -> tuple[dict[str, Any], set[str]]:
    """What saved optimizer state is loaded into, and the parameters that have none: they had never been stepped.

    Moments are made where there are none, sharded as their parameter is. Raises `KeyMismatch` for state of parameters
    that aren't here, if strict; `StateError` for sharded state of which nothing says how it is to be sharded.
    """
    own = optimizer_state(model, optimizers)
    params, stored = _params(own, optimizers), saved.below["state"].below if "state" in saved.below else {}
    if saved.strict and (strangers := sorted(stored.keys() - params.keys())):
        raise _mismatch([], strangers)
    state = {
        name: {slot: _place(_slots_of(own, name).get(slot), params[name], value) for slot, value in entry.below.items()}
        for name, entry in stored.items()
        if name in params
    }
    slots = next(iter(state.values()), {})
    lazy = [name for name, param in params.items() if name not in state and param.requires_grad]
    if any(isinstance(optimizer, LBFGS) for optimizer in optimizers):
        lazy = []  # it has one state for all, under its first parameter
    gaps = {name: dict.fromkeys({**slots, **_slots_of(own, name)}) for name in lazy if slots or _slots_of(own, name)}
    return {"state": state | gaps, "param_groups": None}, set(gaps)


def restore_optimizer(model: nn.Module, optimizers: Sequence[Optimizer], loaded: dict[str, Any]) -> None:
    """Take loaded state. Raises `KeyMismatch` where the groups are of other parameters."""
    own = optimizer_state(model, optimizers)
    params = _params(own, optimizers)
    _check_groups(own["param_groups"], loaded["param_groups"])
    with _unstepped(optimizers):
        set_optimizer_state_dict(model, optimizers, dict(loaded), options=StateDictOptions(strict=False))
    for optimizer in optimizers:
        members = {id(param) for group in optimizer.param_groups for param in group["params"]}
        for name, entry in loaded["state"].items():
            if id(params.get(name)) in members:
                _put_exactly(optimizer, params[name], entry)


def _put_exactly(optimizer: Optimizer, param: Tensor, entry: dict[str, Any]) -> None:
    """What torch has cast or dropped, as it was."""
    kept = optimizer.state[param]
    for slot, value in entry.items():
        old = kept.get(slot)
        if not isinstance(value, Tensor):
            kept[slot] = value
        elif not isinstance(old, Tensor) or old.dtype != value.dtype:
            kept[slot] = value.to(param.device) if value.dim() else value


def count_slots(entries: dict[str, dict[str, Any]]) -> int:
    """Values in optimizer state."""
    return sum(map(len, entries.values()))


def _slots_of(state: dict[str, Any], name: str) -> dict[str, Any]:
    return dict(state["state"].get(name, {}))


def _place(live: Any, param: Tensor, saved: Saved) -> Tensor | None:
    """The tensor that a slot is loaded into; None to take what was saved."""
    if isinstance(live, Tensor) or saved.tensor is None:
        return live if isinstance(live, Tensor) else None
    size, dtype = saved.tensor
    if size == param.size() and param.dim():
        return torch.zeros_like(param, dtype=dtype, requires_grad=False)
    if isinstance(param, DTensor) and size.numel() > 1:
        name = ".".join(map(str, saved.path))
        raise StateError(
            f"{name!r} is of shape {tuple(size)}, its parameter of {tuple(param.size())}: how to shard it isn't known",
            key=name,
            hint="let the optimizer take one step before it is loaded into",
        )
    return None


def _params(own: dict[str, Any], optimizers: Sequence[Optimizer]) -> dict[str, Tensor]:
    """Parameters by name: groups, and what is in them, stand in the order of the optimizers' own."""
    names = [name for group in own["param_groups"] for name in group["params"]]
    params = [param for optimizer in optimizers for group in optimizer.param_groups for param in group["params"]]
    return dict(zip(names, params, strict=True))


def _check_groups(own: list[dict[str, Any]], saved: Any) -> None:
    here, there = [[set(group["params"]) for group in groups] for groups in (own, saved)]
    if here != there:
        everything, stored = set().union(*here), set().union(*there)
        raise _mismatch(sorted(everything - stored), sorted(stored - everything))


def _mismatch(missing: list[str], unexpected: list[str]) -> KeyMismatch:
    about = f"not saved: {missing[:20]}; not here: {unexpected[:20]}" if missing or unexpected else "grouped otherwise"
    return KeyMismatch(
        f"the optimizer was saved with other parameters than it has here: {about}",
        missing=missing,
        unexpected=unexpected,
        hint="make model and optimizer as they were when it was saved",
    )


@contextmanager
def _unstepped(optimizers: Sequence[Optimizer]) -> Iterator[None]:
    """Keep torch's helpers from stepping an optimizer without state: they don't where one parameter has a gradient."""
    lent = []
    for optimizer in optimizers:
        params = [param for group in optimizer.param_groups for param in group["params"]]
        if params and not optimizer.state and all(param.grad is None for param in params):
            smallest = min(params, key=Tensor.numel)
            smallest.grad = torch.zeros_like(smallest)
            lent.append(smallest)
    try:
        yield
    finally:
        for param in lent:
            param.grad = None
