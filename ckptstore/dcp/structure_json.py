"""Structures as JSON, of several ranks as one, and of checkpoints that stock planners saved."""

from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any

from ckptstore.dcp.structure import LEAVES, POSITIONAL, Node, Path, collision, leaves_of, name_of_path
from ckptstore.dcp.typed_json import MAX_DEPTH, from_json, to_json
from ckptstore.errors import CorruptError, KeyCollision, ReplicaMismatch

__all__ = ["merge", "structure_from_json", "structure_from_paths", "structure_to_json", "torch_paths"]

_MAPPINGS = frozenset({"dict", "OrderedDict"})
_LARGEST_POSITION = 1_000_000
"""In lists of stock planners; a larger one is no list of tensors but an attempt on the reader's memory."""


def structure_to_json(root: Node) -> Any:
    """A leaf is its kind; a container {kind: [child, …]}, or {kind: [[key, child], …]} with typed keys."""
    if root.is_leaf:
        return root.kind
    if root.kind in POSITIONAL:
        return {root.kind: [structure_to_json(child) for child in root.children.values()]}
    return {root.kind: [[to_json(key), structure_to_json(child)] for key, child in root.children.items()]}


def structure_from_json(document: Any) -> Node:
    """The structure. `CorruptError` for anything that `structure_to_json` doesn't write."""
    try:
        root = _node(document, 0)
        _check_names(root)
    except (ValueError, TypeError, KeyError, AttributeError, RuntimeError, KeyCollision) as error:
        raise CorruptError(f"the checkpoint's structure is malformed: {error}", hint="run: ckpt verify") from error
    return root


def _node(document: Any, depth: int) -> Node:
    if depth > MAX_DEPTH:
        raise ValueError(f"nested deeper than {MAX_DEPTH}")
    if isinstance(document, str):
        if document not in LEAVES:
            raise ValueError(f"unknown kind of leaf: {document:.100}")
        return Node(document)
    ((kind, entries),) = document.items()
    if kind in POSITIONAL:
        return Node(kind, {position: _node(child, depth + 1) for position, child in enumerate(entries)})
    if kind not in _MAPPINGS:
        raise ValueError(f"unknown container: {kind:.100}")
    children = {from_json(key): _node(child, depth + 1) for key, child in entries}
    if len(children) != len(entries):
        raise ValueError("a key occurs twice")
    return Node(kind, children)


def _check_names(root: Node) -> None:
    paths: dict[str, Path] = {}
    for path, _ in leaves_of(root):
        name = name_of_path(path)
        if name in paths:
            raise collision(name, paths[name], path)
        paths[name] = path


def merge(roots: Iterable[Node]) -> Node:
    """The structure of what all ranks hold together.

    Raises `ReplicaMismatch` where one rank has a tensor or a container and another something else,
    `KeyCollision` where keys of different ranks would be stored under one name.
    """
    merged, *others = roots
    for other in others:
        merged = _merge(merged, other, ())
    _check_names(merged)
    return merged


def _merge(one: Node, other: Node, path: Path) -> Node:
    if one.kind != other.kind:
        name = name_of_path(path)
        raise ReplicaMismatch(
            f"{name!r:.500} is of kind {one.kind!r} on one rank and {other.kind!r} on another",
            key=name,
            hint="give ranks the same kind of value, or keys of their own",
        )
    children = dict(one.children)
    for key, child in other.children.items():
        children[key] = _merge(children[key], child, (*path, key)) if key in children else child
    return Node(one.kind, children)


def torch_paths(root: Node) -> dict[str, tuple[str | int, ...]]:
    """The paths that stock DCP planners keep in `planner_data`: keys as text, positions as numbers."""
    return {name_of_path(path): _torch_path(root, path) for path, _ in leaves_of(root)}


def _torch_path(node: Node, path: Path) -> tuple[str | int, ...]:
    parts: list[str | int] = []
    for key in path:
        parts.append(key if node.kind in POSITIONAL else str(key))
        node = node.children[key]
    return tuple(parts)


def structure_from_paths(paths: Mapping[str, tuple[str | int, ...]], kinds: Mapping[str, str]) -> Node:
    """The structure of a checkpoint that a stock planner saved: dicts with text keys, and lists.

    `kinds` of the leaves by name; those without a path stand at the top.
    """
    root = Node("dict")
    for name, kind in kinds.items():
        path = paths.get(name, (name,))
        node = root
        for key, following in pairwise(path):
            node = node.children.setdefault(key, Node("list" if isinstance(following, int) else "dict"))
        node.children[path[-1]] = Node(kind)
    return _in_order(root)


def _in_order(node: Node) -> Node:
    """List positions in ascending order; a missing leaf was an empty dict: stock planners drop those."""
    children = node.children
    if node.kind == "list":
        if max(children) > _LARGEST_POSITION:
            raise CorruptError(f"a list in the checkpoint has a position {max(children)}", hint="run: ckpt verify")
        children = {position: children.get(position, Node("dict")) for position in range(max(children) + 1)}
    return Node(node.kind, {key: _in_order(child) for key, child in children.items()})
