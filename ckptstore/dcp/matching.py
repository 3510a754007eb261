"""A template held against a checkpoint's structure: what is to be read, what is missing, what is left over.

A dict in the template asks for its keys. An empty container, None, or a Python value where the checkpoint has
a container, asks for all of it; a list takes the length that was saved; a tensor asks for a tensor, also at the end
of a list that is longer than the saved one, and so do a large array and a `Stateful`.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import torch

from ckptstore.dcp.job import JobState, Saved
from ckptstore.dcp.optimizers import Optimizers
from ckptstore.dcp.structure import (
    LEAVES,
    POSITIONAL,
    Node,
    Path,
    collision,
    flatten,
    holds_tensors,
    is_stateful,
    leaves_of,
    name_of_path,
)
from ckptstore.errors import DtypeMismatch

__all__ = ["ABSENT", "KEPT", "Match", "Wanted", "match"]

ABSENT: Any = object()
"""What the template has where it leaves a value open."""
KEPT = "kept"
"""The kind of a list position that the template keeps, since the checkpoint has something else there."""


@dataclass(slots=True)
class Wanted:
    """A part of the structure that is to be loaded into `value`: a leaf, or children by the template's keys.

    `path` is the checkpoint's. `owner` is the `Stateful` that `value` is the state of.
    """

    kind: str
    path: Path
    value: Any
    children: "dict[Any, Wanted]" = field(default_factory=dict)
    owner: Any = None

    @property
    def name(self) -> str:
        """The FQN."""
        return name_of_path(self.path)

    def leaves(self) -> "Iterator[Wanted]":
        """Every leaf below, or this one."""
        if self.kind in LEAVES:
            yield self
        for child in self.children.values():
            yield from child.leaves()


@dataclass
class Match:
    """What comes of it. `unexpected` are keys of the checkpoint, the others of the template.

    missing   not saved, with the template's values
    gaps      entries of optimizer states that weren't saved, as their parameter had never been stepped
    torn      entries of optimizer states that were saved in part
    """

    wanted: Wanted
    missing: dict[str, Any] = field(default_factory=dict)
    gaps: list[str] = field(default_factory=list)
    torn: list[str] = field(default_factory=list)
    unexpected: list[str] = field(default_factory=list)


def match(
    root: Node, template: Any, entries: Mapping[str, Any] = MappingProxyType({}), *, strict: bool = True
) -> Match:
    """Hold the template against the structure. `DtypeMismatch` where a tensor would take an object.

    `entries` are DCP's metadata by key: a `JobState` makes its template by them, and by whether it is to be strict.
    """
    matcher = _Matcher(root, lambda node, path: Saved(node, path, entries, strict))
    wanted = matcher.visit(root, template, ())
    torn = matcher.torn + matcher.optimizers.torn([leaf.path for leaf in wanted.leaves()])
    return Match(wanted, matcher.missing, matcher.gaps, torn, matcher.unexpected)


class _Matcher:
    def __init__(self, root: Node, saved: Callable[[Node, Path], Saved]) -> None:
        self._saved = saved
        self.optimizers = Optimizers(root)
        self.missing: dict[str, Any] = {}
        self.gaps: list[str] = []
        self.torn: list[str] = []
        self.unexpected: list[str] = []
        self._entries = {self.optimizers.entry_of(path) for path, _ in leaves_of(root)}

    def visit(self, node: Node, value: Any, path: Path) -> Wanted:
        """The wanted part, of the kind KEPT where the template has something else here."""
        if is_stateful(value):
            makes_its_own = isinstance(value, JobState)
            template = value.template_for(self._saved(node, path)) if makes_its_own else value.state_dict()
            wanted = self.visit(node, template, path)
            wanted.owner = value
            return wanted
        if _is_open(node, value):
            return _whole(node, path, value)
        if node.is_leaf:
            return self._leaf(node, value, path)
        if isinstance(value, Mapping) and node.kind not in POSITIONAL:
            return self._mapping(node, value, path)
        if isinstance(value, (list, tuple)) and node.kind in POSITIONAL:
            return self._sequence(node, value, path)
        return self._mismatch(node, value, path)

    def _leaf(self, node: Node, value: Any, path: Path) -> Wanted:
        name = name_of_path(path)
        if isinstance(value, torch.Tensor) and node.kind == "object":
            raise DtypeMismatch(
                f"{name!r} was saved as a Python object and the destination is a tensor of {value.dtype}",
                key=name,
                saved="object",
                wanted=str(value.dtype),
                hint="put None there to take what was saved",
            )
        if isinstance(value, (Mapping, list, tuple)) and (node.kind != "object" or holds_tensors(value)):
            return self._mismatch(node, value, path)
        return Wanted(node.kind, path, value)

    def _mapping(self, node: Node, value: Mapping[Any, Any], path: Path) -> Wanted:
        wanted = Wanted(node.kind, path, value)
        asked: dict[Any, Any] = {}
        for key in value:
            other = asked.setdefault(_saved_key(node, key), key)
            if other != key:
                raise collision(name_of_path((*path, key)), (*path, other), (*path, key))
        for key, child in node.children.items():
            if key in asked:
                wanted.children[asked[key]] = self.visit(child, value[asked[key]], (*path, key))
            elif self._is_optimizer_entry(child, (*path, key)):
                wanted.children[key] = _whole(child, (*path, key))
            else:
                self._not_asked_for(child, (*path, key))
        for key, item in value.items():
            if _saved_key(node, key) not in node.children:
                self._not_saved(item, (*path, key))
        return wanted

    def _sequence(self, node: Node, value: Any, path: Path) -> Wanted:
        wanted = Wanted(node.kind, path, value)
        for position, child in node.children.items():
            item = value[position] if position < len(value) else ABSENT
            wanted.children[position] = self.visit(child, item, (*path, position))
        more = [position for position in range(len(node.children), len(value)) if holds_tensors(value[position])]
        for position in range(len(node.children), max(more, default=-1) + 1):
            wanted.children[position] = self._kept(value[position], (*path, position))
        return wanted

    def _mismatch(self, node: Node, value: Any, path: Path) -> Wanted:
        self._not_asked_for(node, path)
        return self._kept(value, path)

    def _kept(self, value: Any, path: Path) -> Wanted:
        self._not_saved(value, path)
        return Wanted(KEPT, path, value)

    def _is_optimizer_entry(self, node: Node, path: Path) -> bool:
        """A parameter's entry in an optimizer's state, or all: made at the parameter's first step."""
        inner = next((below for below, _ in leaves_of(node, path)), path)
        entry = self.optimizers.entry_of(inner)
        return entry is not None and len(entry[0]) < len(path) < len(inner)

    def _not_asked_for(self, node: Node, path: Path) -> None:
        self.unexpected += [name_of_path(below) for below, _ in leaves_of(node, path)]

    def _not_saved(self, value: Any, path: Path) -> None:
        for below, leaf in _leaves_below(value, path):
            name, entry = name_of_path(below), self.optimizers.entry_of(below)
            if entry is None:
                self.missing[name] = leaf
            elif entry in self._entries:
                self.torn.append(name)
            else:
                self.gaps.append(name)


def _is_open(node: Node, value: Any) -> bool:
    """Whether whatever was saved is welcome."""
    if value is ABSENT or value is None:
        return True
    if isinstance(value, (Mapping, list, tuple)):
        return not value
    return not (node.is_leaf or isinstance(value, torch.Tensor))


def _whole(node: Node, path: Path, value: Any = ABSENT) -> Wanted:
    children = {key: _whole(child, (*path, key)) for key, child in node.children.items()}
    return Wanted(node.kind, path, value, children)


def _saved_key(node: Node, key: Any) -> Any:
    """The key that was saved for a template's key: stock planners turn all keys into text."""
    return key if key in node.children else str(key)


def _leaves_below(value: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    flat = flatten({"": value})
    for name, below in flat.paths.items():
        yield (*path, *below[1:]), flat.leaves[name]
