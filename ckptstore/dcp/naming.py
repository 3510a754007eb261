"""What a DCP `checkpoint_id` says: a name (its last component) and, where it ends in digits, a step."""

import os
import re
from dataclasses import dataclass

from ckptstore.errors import UsageError

_TRAILING_DIGITS = re.compile(r"(\d+)$")

__all__ = ["CheckpointName", "name_of"]


@dataclass(frozen=True)
class CheckpointName:
    """How a save is to be called."""

    checkpoint_id: str
    name: str
    step: int | None


def name_of(checkpoint_id: str | os.PathLike[str] | None, step: int | None = None) -> CheckpointName:
    """Raises `UsageError` where there is no name in it."""
    text = os.fspath(checkpoint_id) if checkpoint_id is not None else f"step-{step}" if step is not None else ""
    name = text.rstrip("/").rpartition("/")[2]
    if not name:
        raise UsageError(
            "a save needs a name: a checkpoint_id or a step", hint='step=100, or under DCP checkpoint_id="step-100"'
        )
    digits = _TRAILING_DIGITS.search(name)
    return CheckpointName(text, name, step if step is not None else int(digits[1]) if digits else None)
