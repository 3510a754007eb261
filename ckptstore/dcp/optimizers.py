"""What is particular about optimizer states: entries appear with a parameter's first step, and come whole.

An optimizer's state dict has "state", {parameter: {"exp_avg": …, "exp_avg_sq": …}}, and "param_groups". A
parameter that was never stepped has no entry: a gap, to be reported. An entry saved in part is an error.
Flattened state dicts (`flatten_optimizer_state_dict=True`) have keys "state.<parameter>.exp_avg" instead.
"""

from collections.abc import Iterable

from ckptstore.dcp.structure import Node, Path

__all__ = ["entry_of", "torn_entries"]


def entry_of(root: Node, path: Path) -> tuple[Path, str] | None:
    """The entry that a leaf of an optimizer's state belongs to: the optimizer's path, the parameter's name.

    `root` is a structure in which the optimizer's param_groups are found. None for all other leaves.
    """
    node = root
    for depth, key in enumerate(path):
        if key == "state" and "param_groups" in node.children and len(path) > depth + 2:
            return path[:depth], str(path[depth + 1])
        if _is_flat(node) and isinstance(key, str) and key.startswith("state."):
            return path[:depth], key.removeprefix("state.").rpartition(".")[0]
        if key not in node.children:
            return None
        node = node.children[key]
    return None


def _is_flat(node: Node) -> bool:
    return any(isinstance(key, str) and key.startswith("param_groups.") for key in node.children)


def torn_entries(root: Node, leaves: Iterable[Path]) -> list[str]:
    """Entries with an `exp_avg` but no `exp_avg_sq`, where the optimizer is known to keep both.

    It is where its param_groups have `amsgrad`, as Adam's and AdamW's do, or another parameter has both.
    """
    slots: dict[tuple[Path, str], set[str]] = {}
    adams: set[Path] = set()
    for path in leaves:
        if (entry := entry_of(root, path)) is not None:
            slots.setdefault(entry, set()).add(_slot(path))
        elif path and _slot(path) == "amsgrad":
            adams.add(_optimizer_of_group(path))
    adams |= {optimizer for (optimizer, _), names in slots.items() if names >= {"exp_avg", "exp_avg_sq"}}
    return [
        parameter
        for (optimizer, parameter), names in slots.items()
        if optimizer in adams and "exp_avg" in names and "exp_avg_sq" not in names
    ]


def _slot(path: Path) -> str:
    return str(path[-1]).rpartition(".")[2]


def _optimizer_of_group(path: Path) -> Path:
    """The path above "param_groups", or above the key "param_groups.<parameter>.amsgrad"."""
    return path[: path.index("param_groups")] if "param_groups" in path else path[:-1]
