"""What is particular about optimizer states: entries appear with a parameter's first step, and come whole.

An optimizer's state dict has "state", {parameter: {"exp_avg": …, "exp_avg_sq": …}}, and "param_groups". A
parameter that was never stepped has no entry: a gap, to be reported. An entry saved in part is an error.
Flattened state dicts (`flatten_optimizer_state_dict=True`) have keys "state.<parameter>.exp_avg" instead.
"""

from collections.abc import Iterable, Iterator

from ckptstore.dcp.structure import Node, Path, name_of_path

__all__ = ["Entry", "Optimizers"]

Entry = tuple[Path, str]
"""An optimizer's path, and a parameter's name in it."""


class Optimizers:
    """Those of a structure, found by their param_groups."""

    def __init__(self, root: Node) -> None:
        self._nested: set[Path] = set()
        self._flat: set[Path] = set()
        for path, node in _containers(root, ()):
            if "param_groups" in node.children:
                self._nested.add(path)
            elif any(isinstance(key, str) and key.startswith("param_groups.") for key in node.children):
                self._flat.add(path)

    def entry_of(self, path: Path) -> Entry | None:
        """The entry that a leaf of an optimizer's state belongs to, saved or not; None for all other leaves."""
        if not (self._nested or self._flat):
            return None
        for depth, key in enumerate(path):
            above = path[:depth]
            if key == "state" and above in self._nested and len(path) > depth + 2:
                return above, str(path[depth + 1])
            if isinstance(key, str) and key.startswith("state.") and above in self._flat:
                return above, key.removeprefix("state.").rpartition(".")[0]
        return None

    def torn(self, leaves: Iterable[Path]) -> list[str]:
        """The names of each `exp_avg_sq` that is missing beside an `exp_avg`, of optimizers known to keep both.

        They are known by the `amsgrad` in their param_groups, as Adam and AdamW have it, or by another parameter.
        """
        slots: dict[Entry, dict[str, Path]] = {}
        adams: set[Path] = set()
        for path in leaves:
            if (entry := self.entry_of(path)) is not None:
                slots.setdefault(entry, {})[_slot(path)] = path
            elif path and _slot(path) == "amsgrad":
                adams.add(_optimizer_of_group(path))
        moments = {"exp_avg", "exp_avg_sq"}
        adams |= {optimizer for (optimizer, _), found in slots.items() if found.keys() >= moments}
        return [
            f"{name_of_path(found['exp_avg'])}_sq"
            for (optimizer, _), found in slots.items()
            if optimizer in adams and found.keys() & moments == {"exp_avg"}
        ]


def _containers(node: Node, path: Path) -> Iterator[tuple[Path, Node]]:
    if not node.is_leaf:
        yield path, node
    for key, child in node.children.items():
        yield from _containers(child, (*path, key))


def _slot(path: Path) -> str:
    return str(path[-1]).rpartition(".")[2]


def _optimizer_of_group(path: Path) -> Path:
    """The path above "param_groups", or above the key "param_groups.<parameter>.amsgrad"."""
    return path[: path.index("param_groups")] if "param_groups" in path else path[:-1]
