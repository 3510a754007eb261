"""Small state as one text of typed JSON: whatever its structure was it comes back whole, and nothing is pickled."""

from collections import Counter
from typing import Any

from ckptstore.dcp.objects import decode, encode
from ckptstore.errors import CorruptError

__all__ = ["from_text", "like", "plain", "to_text"]


def to_text(value: Any, key: str) -> str:
    """Raises `UnsupportedValue` naming `key` and the path below it."""
    return encode(value, key=key).decode("ascii")


def from_text(text: Any, key: str) -> Any:
    """The value. Raises `CorruptError` naming `key`."""
    if not isinstance(text, str):
        raise CorruptError(f"{key!r} must be text, not {type(text).__name__}", key=key, hint="was it a TrainState's?")
    return decode(text.encode(), key=key)


def plain(value: Any) -> Any:
    """Dicts in place of counters: `MultiStepLR` keeps its milestones in one."""
    if type(value) in {dict, Counter}:
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if type(value) is list else value


def like(own: Any, saved: Any) -> Any:
    """What `plain` was given, where `own` is the same of a fresh object."""
    if isinstance(own, Counter):
        return Counter(saved)
    if isinstance(own, dict) and isinstance(saved, dict):
        return {key: like(own.get(key), item) for key, item in saved.items()}
    if isinstance(own, list) and isinstance(saved, list) and len(own) == len(saved):
        return [like(*pair) for pair in zip(own, saved, strict=True)]
    return saved
