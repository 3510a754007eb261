"""What a checkpoint says of its state beside tensors: structure, tied keys, what single ranks held."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch.distributed.checkpoint.metadata import BytesStorageMetadata, Metadata

from ckptstore.dcp.structure import Node, leaves_of, name_of_path
from ckptstore.dcp.structure_json import structure_from_json, structure_from_paths, structure_to_json
from ckptstore.errors import CorruptError

__all__ = ["Layout", "PlannerData"]


@dataclass(frozen=True)
class Layout:
    """`aliases`: {key: the key its tensor is stored under}. `single`: keys that one of several ranks held."""

    root: Node
    aliases: dict[str, str] = field(default_factory=dict)
    single: frozenset[str] = frozenset()

    def to_json(self) -> dict[str, Any]:
        """As the index keeps it, under `structure`."""
        return {
            "tree": structure_to_json(self.root),
            "aliases": self.aliases,
            "single": sorted(self.single),
        }

    @classmethod
    def from_json(cls, document: Any) -> "Layout":
        """`CorruptError` for anything that `to_json` doesn't write."""
        try:
            tree, aliases, single = document["tree"], dict(document["aliases"]), frozenset(document["single"])
        except (TypeError, KeyError, ValueError) as error:
            raise CorruptError(f"the checkpoint's structure is malformed: {error!r}") from error
        layout = cls(structure_from_json(tree), aliases, single)
        strangers = {*aliases, *aliases.values(), *single} - layout.names()
        if strangers or not aliases.keys().isdisjoint(aliases.values()):
            raise CorruptError(f"the checkpoint's structure is malformed: tied keys {sorted(map(str, strangers))[:5]}")
        return layout

    @classmethod
    def of(cls, metadata: Metadata) -> "Layout":
        """The layout that a `CheckpointSavePlanner` left, or what a stock planner's paths tell."""
        data = metadata.planner_data if metadata.planner_data is not None else {}
        structure = getattr(data, "structure", None)
        if structure is not None:
            return cls.from_json(structure)
        kinds = {
            name: "object" if isinstance(entry, BytesStorageMetadata) else "tensor"
            for name, entry in metadata.state_dict_metadata.items()
        }
        return cls(structure_from_paths(data, kinds))

    def names(self) -> set[str]:
        """All keys."""
        return {name_of_path(path) for path, _ in leaves_of(self.root)}


class PlannerData(dict[str, tuple[str | int, ...]]):
    """`Metadata.planner_data`: the {key: path} of stock planners, with a layout as JSON in `structure`.

    Pickles as a dict with an attribute, so that DCP may broadcast it.
    """

    def __init__(
        self,
        paths: Mapping[str, tuple[str | int, ...]] | Iterable[tuple[str, tuple[str | int, ...]]] = (),
        *,
        structure: Any = None,
    ) -> None:
        super().__init__(paths)
        self.structure = structure
