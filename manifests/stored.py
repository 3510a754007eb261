"""What all stored types share: the format version, and room for the fields of newer minor versions."""

from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

FORMAT = (1, 0)
"""Major and minor version written by this release. A newer minor is read, a newer major refused."""

UNDERSTOOD: frozenset[str] = frozenset()
"""Names in `requires` that this release knows how to honour. Version 1.0 has none."""


class Stored(msgspec.Struct, kw_only=True):
    """One JSON object in a stored document.

    `extra` holds what a newer minor version added to this object. It is no field of the JSON: `wire.decode`
    fills it and `wire.encode` puts its items back beside the others, so that rewriting loses nothing.
    """

    extra: dict[str, Any] | UnsetType = UNSET

    def __reduce__(self) -> tuple[Any, ...]:
        """As msgspec's own, but for UNSET: pickle looks for that in every module loaded, 2 ms with torch among them."""
        fields = {name: getattr(self, name) for name in self.__struct_fields__}
        return _rebuild, (type(self), {name: value for name, value in fields.items() if value is not UNSET})


class Document(Stored, kw_only=True):
    """A whole stored document. `requires` names the features a program must know before it acts on it."""

    format: tuple[int, int] = FORMAT
    requires: list[str] = []


def _rebuild(kind: type[Stored], fields: dict[str, Any]) -> Stored:
    return kind(**fields)
