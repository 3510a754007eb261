"""What is particular about optimizer states: entries appear with a parameter's first step, and come whole.

An optimizer's state dict has "state", {parameter: {"exp_avg": …, "exp_avg_sq": …}}, and "param_groups". A
parameter that was never stepped has no entry: a gap, to be reported. An entry saved in part is an error.
Flattened state dicts (`flatten_optimizer_state_dict=True`) have keys "state.<parameter>.exp_avg" instead.
"""

from collections.abc import Iterable

from ckptstore.dcp.structure import Node, Path, name_of_path

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
    """The names of each `exp_avg_sq` that is missing beside an `exp_avg`, of optimizers known to keep both.

    They are known by the `amsgrad` in their param_groups, as Adam and AdamW have it, or by another parameter.
    """
    slots: dict[tuple[Path, str], dict[str, Path]] = {}
    adams: set[Path] = set()
    for path in leaves:
        if (entry := entry_of(root, path)) is not None:
            slots.setdefault(entry, {})[_slot(path)] = path
        elif path and _slot(path) == "amsgrad":
            adams.add(_optimizer_of_group(path))
    adams |= {optimizer for (optimizer, _), found in slots.items() if found.keys() >= {"exp_avg", "exp_avg_sq"}}
    return [
        f"{name_of_path(found['exp_avg'])}_sq"
        for (optimizer, _), found in slots.items()
        if optimizer in adams and "exp_avg" in found and "exp_avg_sq" not in found
    ]


def _slot(path: Path) -> str:
    return str(path[-1]).rpartition(".")[2]


def _optimizer_of_group(path: Path) -> Path:
    """The path above "param_groups", or above the key "param_groups.<parameter>.amsgrad"."""
    return path[: path.index("param_groups")] if "param_groups" in path else path[:-1]
