"""A nested state dict as named leaves, and what it takes to nest them again.

    {"model": {"w": tensor}, 7: [tensor, 1]}
        leaves     model.w, 7.0, 7.1                    names: the path joined by dots, as torch DCP does
        structure  {"dict": [["model", {"dict": [["w", "tensor"]]}], [7, {"list": ["tensor", "object"]}]]}

Tensors anywhere in dicts, lists and tuples are leaves of their own. Dicts are opened, and lists that hold
dicts, as torch does, so that its planners find the names they look for; other containers without tensors are
one object each. What is long and holds no tensor is one object too: 10,000 numbers are not 10,000 objects.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch.distributed.checkpoint.stateful import Stateful

from ckptstore.dcp.typed_json import MAX_DEPTH, to_json
from ckptstore.errors import KeyCollision, UnsupportedValue

__all__ = [
    "LEAVES",
    "POSITIONAL",
    "Flat",
    "Node",
    "Path",
    "collision",
    "container_of",
    "flatten",
    "holds_tensors",
    "is_stateful",
    "leaf_kind",
    "leaves_of",
    "name_of_path",
    "unflatten",
]

Path = tuple[Any, ...]
"""Typed dict keys, and positions in lists and tuples."""

LEAVES = frozenset({"tensor", "ndarray", "object"})
POSITIONAL = frozenset({"list", "tuple"})
_CONTAINERS: dict[type, str] = {dict: "dict", OrderedDict: "OrderedDict", list: "list", tuple: "tuple"}
_LONGEST_WITHOUT_TENSORS = 1000
"""Entries of a container that is opened though it holds no tensor; optimizers have fewer param groups."""
_SMALLEST_TENSOR_ARRAY = 1 << 16
"""Bytes from which a numpy array travels as a tensor; below it (random states: 2.5 kB) as an object."""


@dataclass(slots=True)
class Node:
    """A leaf or a container; `kind` is one of LEAVES, or "dict", "OrderedDict", "list", "tuple"."""

    kind: str
    children: "dict[Any, Node]" = field(default_factory=dict)

    @property
    def is_leaf(self) -> bool:
        """Whether this is one stored item."""
        return self.kind in LEAVES


@dataclass(frozen=True)
class Flat:
    """A state dict laid flat: the leaves' values and paths by name, and the structure."""

    leaves: dict[str, Any]
    paths: dict[str, Path]
    root: Node


def name_of_path(path: Path) -> str:
    """The FQN of a path."""
    return ".".join(map(str, path))


def flatten(state: Any) -> Flat:
    """Lay a state dict flat; `Stateful` values in it are asked for their state.

    Raises `KeyCollision` naming both paths where two leaves or two keys of a dict would have one name, and
    `UnsupportedValue` for keys that can't be stored and for a state that contains itself.
    """
    leaves: dict[str, Any] = {}
    paths: dict[str, Path] = {}

    def add(path: Path, value: Any) -> None:
        name = name_of_path(path)
        if name in leaves:
            raise collision(name, paths[name], path)
        leaves[name], paths[name] = value, path

    return Flat(leaves, paths, _walk(state, (), add))


def _walk(value: Any, path: Path, add: Callable[[Path, Any], None]) -> Node:
    if len(path) > MAX_DEPTH:
        raise UnsupportedValue(f"{path[:3]}… is nested deeper than {MAX_DEPTH}, or contains itself", key=str(path[0]))
    if is_stateful(value):
        value = value.state_dict()
    if not _is_opened(value, is_root=not path):
        add(path, value)
        return Node(leaf_kind(value))
    node = Node(_CONTAINERS[type(value)])
    for key, item in _entries(value, path):
        node.children[key] = _walk(item, (*path, key), add)
    return node


def is_stateful(value: Any) -> bool:
    """Whether a value stands for its `state_dict()`."""
    if type(value) in _CONTAINERS or type(value) in _PLAIN or isinstance(value, torch.Tensor):
        return False  # told apart at once: asking a protocol costs 20 µs
    return isinstance(value, Stateful)


def _entries(value: Any, path: Path) -> Iterator[tuple[Any, Any]]:
    if type(value) in {list, tuple}:
        yield from enumerate(value)
        return
    seen: dict[str, Any] = {}
    for key, item in value.items():
        if type(key) is not str:
            to_json(key, f"{name_of_path(path)}: key {key!r:.100}")
        if str(key) in seen:
            raise collision(name_of_path((*path, key)), (*path, seen[str(key)]), (*path, key))
        seen[str(key)] = key
        yield key, item


def collision(name: str, one: Path, other: Path) -> KeyCollision:
    """The error for two paths of one name."""
    return KeyCollision(
        f"{one!r:.500} and {other!r:.500} would both be stored as {name!r:.500}",
        key=name,
        paths=(one, other),
        hint="rename one of the two keys",
    )


# -- what becomes a leaf of its own --------------------------------------------------------------------------


def leaf_kind(value: Any) -> str:
    """How a leaf is stored: "tensor", "ndarray" (a large numpy array, stored as a tensor) or "object"."""
    if isinstance(value, torch.Tensor):
        return "tensor"
    return "ndarray" if _is_large_array(value) else "object"


def _is_large_array(value: Any) -> bool:
    if type(value) not in {np.ndarray, np.memmap} or value.nbytes < _SMALLEST_TENSOR_ARRAY:
        return False
    return bool(value.dtype.isnative) and value.dtype.kind in "biufc" and value.dtype.name in _TENSOR_ARRAYS


_TENSOR_ARRAYS = frozenset(
    {
        *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
        *("float16", "float32", "float64", "complex64", "complex128"),
    }
)


def _is_opened(value: Any, *, is_root: bool) -> bool:
    kind = _CONTAINERS.get(type(value))
    if kind is None:
        return False
    if is_root or _holds(value, _is_tensor_like, 0):
        return True
    if kind in POSITIONAL and not (kind == "list" and _holds_dict(value, 0)):
        return False
    return len(value) <= _LONGEST_WITHOUT_TENSORS


def holds_tensors(value: Any) -> bool:
    """Whether a value is, or a container holds, what is saved piece by piece: a tensor, a large array, a `Stateful`."""
    return _holds([value], _is_tensor_like, 0)


def _is_tensor_like(value: Any) -> bool:
    return isinstance(value, (torch.Tensor, Stateful)) or _is_large_array(value)


def _holds(value: Any, wanted: Callable[[Any], bool], depth: int) -> bool:
    """Whether a container holds such a value, itself or in its containers."""
    if depth > MAX_DEPTH:
        return True  # it is opened, and refused there by name
    items = value if type(value) in {list, tuple} else value.values()
    return any(
        _holds(item, wanted, depth + 1) if type(item) in _CONTAINERS else type(item) not in _PLAIN and wanted(item)
        for item in items
    )


_PLAIN = frozenset({int, float, str, bytes, bool, type(None)})
"""Most values of long lists: told apart at once."""


def _holds_dict(value: list[Any], depth: int) -> bool:
    return any(
        type(item) in {dict, OrderedDict} or (type(item) is list and depth < MAX_DEPTH and _holds_dict(item, depth + 1))
        for item in value
    )


# -- and back ------------------------------------------------------------------------------------------------


def leaves_of(root: Node, path: Path = ()) -> Iterator[tuple[Path, Node]]:
    """Every leaf of a structure with its path, in order."""
    if root.is_leaf:
        yield path, root
    for key, child in root.children.items():
        yield from leaves_of(child, (*path, key))


def unflatten(root: Node, values: dict[str, Any], path: Path = ()) -> Any:
    """The nested value: containers and keys of the types they had. `KeyError` where a leaf has no value."""
    if root.is_leaf:
        return values[name_of_path(path)]
    items = {key: unflatten(child, values, (*path, key)) for key, child in root.children.items()}
    return container_of(root.kind, items)


def container_of(kind: str, items: dict[Any, Any]) -> Any:
    """A container of that kind; `items` in order, by key or position."""
    if kind in POSITIONAL:
        return list(items.values()) if kind == "list" else tuple(items.values())
    return items if kind == "dict" else OrderedDict(items)
