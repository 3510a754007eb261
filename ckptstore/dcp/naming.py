"""What a DCP `checkpoint_id` says: a name (its last component) and, where it ends in digits, a step."""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass

from ckptstore.errors import UsageError
from ckptstore.names import check_checkpoint

MOST_DIGITS = 15  # of a step in a name; more are a date or an id, and past 2^53 no JSON reader agrees on them
_TRAILING_DIGITS = re.compile(r"(\d+)$")

__all__ = ["CheckpointName", "check_in_step", "name_of"]


@dataclass(frozen=True)
class CheckpointName:
    """How a save is to be called."""

    checkpoint_id: str
    name: str
    step: int | None

    def __str__(self) -> str:
        return f"{self.name!r}, step {self.step}"


def name_of(checkpoint_id: str | os.PathLike[str] | None, step: int | None = None) -> CheckpointName:
    """Raises `UsageError` where there is no name in it."""
    if not isinstance(checkpoint_id, str | os.PathLike | None):
        raise UsageError(f"a checkpoint's name is text, not {type(checkpoint_id).__name__}", hint='name="best"')
    text = os.fspath(checkpoint_id) if checkpoint_id is not None else f"step-{step}" if step is not None else ""
    name = text.rstrip("/").rpartition("/")[2]
    if not name:
        raise UsageError(
            "a save needs a name: a checkpoint_id or a step", hint='step=100, or under DCP checkpoint_id="step-100"'
        )
    check_checkpoint(name)
    digits = _TRAILING_DIGITS.search(name)
    found = int(digits[1]) if digits and len(digits[1]) <= MOST_DIGITS else None
    return CheckpointName(text, name, step if step is not None else found)


def check_in_step(called: Sequence[str | None]) -> None:
    """Raise `UsageError` where ranks call one save differently, by rank; None for one that doesn't tell."""
    told = {rank: name for rank, name in enumerate(called) if name is not None}
    first = min(told, default=0)
    other = next((rank for rank, name in told.items() if name != told[first]), None)
    if other is not None:
        message = f"the ranks are out of step: rank {first} saves {told[first]}; rank {other} saves {told[other]}"
        hint = "agree on the step first: let rank 0 broadcast it, or count it alike on every rank"
        raise UsageError(message, hint=hint, ranks=[first, other])
