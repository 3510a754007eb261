"""The rules for single values that documents share. Each raises its own FormatError, naming the field."""

import math
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from manifests import paths
from manifests.errors import shown
from manifests.format_errors import (
    DuplicateName,
    IndexOutOfRange,
    NestingTooDeep,
    NonFiniteNumber,
    NumberOutOfRange,
    UnsafeName,
    WrongCount,
    WrongType,
    WrongValue,
)

MAX_LENGTH = 2**53 - 1
"""Largest length or offset: all JSON readers hold integers up to here exactly (RFC 8259, section 6)."""

MAX_DIMENSIONS = 64
"""Most dimensions of a tensor, as in numpy and torch."""

MAX_DEPTH = 400
"""Deepest nesting of lists and objects; Python's own JSON reader gives up near 1,000."""

_SHA256 = re.compile(r"[0-9a-f]{64}")
_LOWEST, _HIGHEST = -(2**63), 2**64 - 1


def number(found: int, field: str, low: int = 0, high: int = MAX_LENGTH) -> None:
    """Require low <= found <= high."""
    if not low <= found <= high:
        message = f"{field} is {found}, not in {low}..{high}"
        raise NumberOutOfRange(message, field=field, found=found, low=low, high=high)


def numbers(found: Sequence[int], field: str, low: int = 0, high: int = MAX_LENGTH) -> None:
    """Require each of them to be in low..high."""
    if found:
        number(min(found), field, low, high)
        number(max(found), field, low, high)


def shape(found: Sequence[int], field: str) -> None:
    """Require the dimensions of a tensor whose elements can be counted."""
    number(len(found), f"{field} dimensions", high=MAX_DIMENSIONS)
    numbers(found, field)
    number(math.prod(found), f"{field} elements")


def count(found: int, expected: int, field: str) -> None:
    """Require a number of items, or of bytes in a table."""
    if found != expected:
        message = f"{field} has {found} items, not {expected}"
        raise WrongCount(message, field=field, found=found, expected=expected)


def position(found: int, length: int, field: str) -> None:
    """Require a position in a list of `length` items."""
    if not 0 <= found < length:
        message = f"{field} is {found}, but the list it points into has {length} items"
        raise IndexOutOfRange(message, field=field, found=found, count=length)


def unique(names: Iterable[Any], field: str) -> None:
    """Require that no name comes twice."""
    seen: set[Any] = set()
    for name in names:
        if name in seen:
            raise DuplicateName(f"{shown(name)} is twice in {field}", field=field, name=name)
        seen.add(name)


def value(found: Any, allowed: Sequence[Any], field: str) -> None:
    """Require one of the allowed values."""
    if found not in allowed:
        message = f"{field} is {shown(found)}, not {' or '.join(map(repr, allowed))}"
        raise WrongValue(message, field=field, found=found)


def absent(found: Any, field: str, why: str) -> None:
    """Require null."""
    if found is not None:
        raise WrongValue(f"{field} is {shown(found)}, but {why}", field=field, found=found)


def present(found: Any, field: str, why: str) -> None:
    """Require something other than null."""
    if found is None:
        raise WrongValue(f"{field} is null, but {why}", field=field, found=None)


def name(rule: Callable[[str], object], found: str, field: str) -> None:
    """Require a name that a rule of `paths` lets pass: check_run, check_label, check_token, check_session."""
    try:
        rule(found)
    except UnsafeName as error:
        raise UnsafeName(f"{field}: {error.message}", field=field, name=found) from error


def labels(found: Sequence[str], field: str) -> None:
    """Require names of targets, none twice."""
    for i, label in enumerate(found):
        name(paths.check_label, label, f"{field}[{i}]")
    unique(found, field)


def save(session: str, ordinal: int, field: str) -> None:
    """Require the name of a save."""
    name(paths.check_session, session, f"{field}session")
    number(ordinal, f"{field}ordinal", high=paths.MAX_NUMBER)


def sha256(found: str, field: str) -> None:
    """Require 64 hexadecimal digits in lower case."""
    if not _SHA256.fullmatch(found):
        raise WrongValue(f"{field} is not a SHA-256 in hexadecimal", field=field, found=found)


def json_value(found: Any, field: str) -> None:
    """Require what JSON holds without loss: finite numbers, string keys, plain values, not too deep."""
    level = [found]
    for _ in range(MAX_DEPTH):
        if not level:
            return
        level = [inner for outer in level for inner in _items(outer, field)]
    if level:
        raise NestingTooDeep(f"{field} is nested deeper than {MAX_DEPTH} levels", field=field, limit=MAX_DEPTH)


def _items(found: Any, field: str) -> Iterable[Any]:
    match found:
        case None | bool() | str():
            return ()
        case int():
            number(found, field, _LOWEST, _HIGHEST)
            return ()
        case float():
            if not math.isfinite(found):
                raise NonFiniteNumber(f"{field} holds {found}, which JSON can't", field=field)
            return ()
        case list() | tuple():
            return found
        case dict() if all(isinstance(key, str) for key in found):
            return found.values()
    raise WrongType(f"{field} holds {type(found).__name__}, which JSON can't", field=field)
