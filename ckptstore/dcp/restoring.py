"""Loaded values put where the template wants them: in place wherever a container or tensor can be changed."""

from collections.abc import Mapping, MutableMapping
from typing import Any

from ckptstore.dcp.matching import KEPT, Wanted
from ckptstore.dcp.structure import container_of

__all__ = ["restore"]


def restore(wanted: Wanted, values: Mapping[str, Any]) -> Any:
    """What stands in the template's place afterwards: its own containers, filled, or new ones.

    `Stateful` owners are given their state. `values` holds one value for each leaf.
    """
    if wanted.owner is not None:
        owner, wanted.owner = wanted.owner, None
        owner.load_state_dict(restore(wanted, values))
        return owner
    if wanted.kind == KEPT:
        return wanted.value
    if not wanted.children and wanted.kind in {"tensor", "ndarray", "object"}:
        return _replaced(wanted.value, values[wanted.name])
    items = {key: restore(child, values) for key, child in wanted.children.items()}
    return _filled(wanted, items)


def _filled(wanted: Wanted, items: dict[Any, Any]) -> Any:
    value = wanted.value
    if isinstance(value, MutableMapping):
        value.update(items)
        return value
    if isinstance(value, list) and wanted.kind == "list":
        value[:] = items.values()
        return value
    return container_of(wanted.kind, items)


def _replaced(old: Any, new: Any) -> Any:
    """An object in the template's own list or dict, where it is one; else the new value."""
    if old is new or type(old) is not type(new):
        return new
    if isinstance(old, list):
        old[:] = new
        return old
    if isinstance(old, dict):
        old.clear()
        old.update(new)
        return old
    return new
