"""What is amiss with one object, and how many were looked at."""

from dataclasses import dataclass

__all__ = ["Counts", "Finding"]


@dataclass(frozen=True)
class Finding:
    """Something not as it should be.

    `kind`: "missing", "short", "corrupt", "unreachable", "doubled", "scarce", "retired", "changed" or "strange".
    """

    kind: str
    what: str
    target: str
    path: str
    detail: str = ""


@dataclass
class Counts:
    """Objects that should be there, and those that were found as they should be or not."""

    expected: int = 0
    checked: int = 0
