"""What callers give: checked where it enters, so that a slip is told in words and is not somebody else's TypeError."""

from numbers import Real
from typing import Any

import msgspec

from ckptstore.errors import ConfigError, UsageError

__all__ = ["check_observer", "check_types", "is_number", "is_whole"]


def is_whole(value: object) -> bool:
    """Whether it is an int. A bool is none: `True` is a switch in the wrong place, not 1."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_number(value: object) -> bool:
    """Whether it is a real number, numpy's too, and no bool."""
    return isinstance(value, Real) and not isinstance(value, bool)


def check_observer(observer: object) -> None:
    """Raise `UsageError` for what can't be called: it would be found out in the middle of a save."""
    if not callable(observer):
        raise UsageError(f"observer = {observer!r:.80}: a function of an event is wanted", hint="leave it out for none")


def check_types(settings: msgspec.Struct, prefix: str = "") -> None:
    """Raise `ConfigError`, naming the key, for a field of another type: msgspec checks what it reads, not Python's.

    All of it must be what JSON can hold as well: an open store is known by its settings written so.
    """
    for field in msgspec.structs.fields(settings):
        key = f"{prefix}{field.name}"
        try:
            _check(getattr(settings, field.name), field.type)
        except (TypeError, ValueError, RecursionError) as error:  # msgspec.ValidationError is a ValueError
            raise ConfigError(f"{key}: {error}", key=key, hint="keys and values: docs/configuration.md") from error


def _check(value: object, wanted: Any) -> None:
    made = msgspec.convert(value, wanted)
    given = list(value) if isinstance(value, tuple) else value
    if made is not given and made != given:  # a NaN is itself and yet unequal
        name = str(wanted).removeprefix("<class '").removesuffix("'>")
        raise TypeError(f"Expected `{name}`, got tables as a file has them")
    msgspec.json.encode(value)
