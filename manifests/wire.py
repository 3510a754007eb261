"""Documents to bytes and back.

Canonical bytes: UTF-8 JSON without spaces, keys sorted, byte strings in base64. Large documents are stored as
one gzip member with no time in it. What was decoded has been validated: there is no other way in.
"""

import hashlib
import zlib
from functools import cache
from typing import Any, TypedDict, TypeVar, get_args, get_type_hints

import msgspec
from msgspec import UNSET

from manifests import checks
from manifests.errors import shown
from manifests.format_errors import (
    BadCompression,
    DigestMismatch,
    DuplicateKey,
    MalformedJson,
    MissingField,
    NestingTooDeep,
    NewerFormat,
    SizeMismatch,
    TooLarge,
    UnknownField,
    WrongType,
)
from manifests.manifest_rules import MAX_DOCUMENT_BYTES
from manifests.schema import Reference
from manifests.stored import FORMAT, Document, Stored
from manifests.validation import validate

GZIP_FROM = 4096
"""Smaller documents are stored as they are: gzip saves no request and no disk block."""

_GZIP = zlib.MAX_WBITS | 16
_MAGIC = b"\x1f\x8b"
_ENCODER = msgspec.json.Encoder(order="sorted")

DocumentT = TypeVar("DocumentT", bound=Document)


class Packed(TypedDict):
    """The fields of a Reference that follow from the stored bytes."""

    size: int
    raw_size: int
    sha256: str


def encode(document: Document) -> bytes:
    """Return the canonical bytes. Raises a FormatError for a document that `decode` would refuse."""
    validate(document)
    try:
        data = _ENCODER.encode(_plain(document) if document.format > FORMAT else document)
    except UnicodeEncodeError as error:
        raise MalformedJson(f"a string can't be written in UTF-8: {error}", field="") from error
    return _bounded(data)


def decode(cls: type[DocumentT], data: bytes) -> DocumentT:
    """Return the validated document. Raises the FormatError that names what is wrong with it."""
    raw = _parse(_bounded(data))
    _check_format(raw)
    known = tuple(raw["format"]) <= FORMAT
    try:
        document = msgspec.convert(_fold(raw, cls, known=known, where=""), cls)
    except msgspec.ValidationError as error:
        raise WrongType(f"{cls.__name__}: {error}", field=str(error).rpartition("`")[0].rpartition("`")[2]) from error
    validate(document)
    return document


def pack(document: Document) -> tuple[bytes, Packed]:
    """Return the bytes to store, gzipped if large, and what a Reference says of them."""
    raw = encode(document)
    stored = raw
    if len(raw) >= GZIP_FROM:
        gzip = zlib.compressobj(wbits=_GZIP)
        stored = gzip.compress(raw) + gzip.flush()
    return stored, Packed(size=len(stored), raw_size=len(raw), sha256=hashlib.sha256(stored).hexdigest())


def unpack(cls: type[DocumentT], stored: bytes, reference: Reference) -> DocumentT:
    """Check `stored` against `reference`, inflate it within `raw_size`, decode it. Raises a FormatError."""
    path = reference.path
    if len(stored) != reference.size:
        message = f"{path} has {len(stored)} bytes, not {reference.size}"
        raise SizeMismatch(message, path=path, found=len(stored), expected=reference.size)
    if (found := hashlib.sha256(stored).hexdigest()) != reference.sha256:
        message = f"{path} has SHA-256 {found}, not {reference.sha256}"
        raise DigestMismatch(message, path=path, found=found, expected=reference.sha256)
    raw = _inflate(stored, reference) if stored.startswith(_MAGIC) else stored
    if len(raw) != reference.raw_size:
        message = f"{path} holds {len(raw)} bytes or more, not {reference.raw_size}"
        raise SizeMismatch(message, path=path, found=len(raw), expected=reference.raw_size)
    return decode(cls, raw)


def _inflate(stored: bytes, reference: Reference) -> bytes:
    """Return no more than one byte beyond `raw_size`."""
    path, expected = reference.path, reference.raw_size
    if expected > MAX_DOCUMENT_BYTES:
        raise TooLarge(f"{path} would inflate to {expected} bytes", found=expected, limit=MAX_DOCUMENT_BYTES)
    gzip = zlib.decompressobj(wbits=_GZIP)
    try:
        raw = gzip.decompress(stored, expected + 1)
    except zlib.error as error:
        raise BadCompression(f"{path} is not a gzip object: {error}", path=path) from error
    if len(raw) <= expected and (not gzip.eof or gzip.unused_data):
        raise BadCompression(f"{path} is cut short, or followed by other bytes", path=path)
    return raw


def _bounded(data: bytes) -> bytes:
    if len(data) > MAX_DOCUMENT_BYTES:
        message = f"a document of {len(data)} bytes; the largest is {MAX_DOCUMENT_BYTES}"
        raise TooLarge(message, found=len(data), limit=MAX_DOCUMENT_BYTES)
    return data


def _parse(data: bytes) -> dict[str, Any]:
    try:
        raw = msgspec.json.decode(data)
    except RecursionError as error:
        raise NestingTooDeep("lists or objects are nested too deep to be a document", field="") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise MalformedJson(f"not a JSON document: {error}", field="") from error
    if not isinstance(raw, dict):
        raise WrongType(f"a document is a JSON object, not {type(raw).__name__}", field="")
    # Canonical bytes can't hold a key twice; only other writers' bytes need to be searched for one.
    if _ENCODER.encode(raw) != data:
        _refuse_duplicate_keys(data)
    return raw


def _refuse_duplicate_keys(data: bytes) -> None:
    import json  # here, as it takes a tenth of the time that `ckpt ls` has, and is hardly ever needed

    def check(pairs: list[tuple[str, Any]]) -> None:
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise DuplicateKey(f"{shown(key)} is twice in one JSON object", key=key, field=key)
            seen.add(key)

    try:
        json.loads(data, object_pairs_hook=check)
    except RecursionError as error:
        raise NestingTooDeep("lists or objects are nested too deep to be a document", field="") from error


def _check_format(raw: dict[str, Any]) -> None:
    match raw.get("format"):
        case [int(major), int(minor)] if major >= 1 and minor >= 0 and not isinstance(major, bool):
            if major > FORMAT[0]:
                found = f"format {major}.{minor}"
                message = f"written in {found}; this release reads {FORMAT[0]}: upgrade ckptstore"
                raise NewerFormat(message, found=major, known=FORMAT[0], field="format", unknown=[found])
        case None:
            raise MissingField("the document has no format", field="format")
        case other:
            raise WrongType(f"format is {shown(other)}, not [major, minor]", field="format")


# -- fields of newer minor versions ----------------------------------------


@cache
def _fields(cls: type[Stored]) -> frozenset[str]:
    """Return the names of a stored type's JSON fields."""
    return frozenset(cls.__struct_fields__) - {"extra"}


@cache
def _inner(cls: type[Stored]) -> dict[str, type[Stored]]:
    """Return the fields of a stored type whose value, or whose items, are of a stored type too."""
    hints = get_type_hints(cls)
    return {name: inner for name in _fields(cls) if (inner := _stored_in(hints[name]))}


def _stored_in(hint: Any) -> type[Stored] | None:
    if isinstance(hint, type) and issubclass(hint, Stored):
        return hint
    return next((found for part in get_args(hint) if (found := _stored_in(part))), None)


def _fold(raw: dict[str, Any], cls: type[Stored], *, known: bool, where: str) -> dict[str, Any]:
    """Move the fields that `cls` doesn't have into its `extra`; refuse them if the version is known."""
    folded = raw if raw.keys() == _fields(cls) else _with_extra(raw, cls, known, where)
    for name, inner in _inner(cls).items():
        folded[name] = _fold_value(raw[name], inner, known, where + name)
    return folded


def _with_extra(raw: dict[str, Any], cls: type[Stored], known: bool, where: str) -> dict[str, Any]:
    if missing := _fields(cls) - raw.keys():
        name = where + min(missing)
        raise MissingField(f"{cls.__name__} has no field {name}", field=name)
    extra = {name: raw[name] for name in sorted(raw.keys() - _fields(cls))}
    if known:
        name = where + min(extra)
        raise UnknownField(f"{cls.__name__} has an unknown field {shown(name)}", field=name)
    checks.json_value(extra, where or "the document")
    return {name: raw[name] for name in _fields(cls)} | {"extra": extra}


def _fold_value(value: Any, cls: type[Stored], known: bool, where: str) -> Any:
    if isinstance(value, dict):
        return _fold(value, cls, known=known, where=f"{where}.")
    if isinstance(value, list):
        return [_fold_value(item, cls, known, f"{where}[{i}]") for i, item in enumerate(value)]
    return value


def _plain(value: Any) -> Any:
    """Return JSON values with what `_fold` moved into `extra` back in its place."""
    if isinstance(value, Stored):
        plain = {name: _plain(getattr(value, name)) for name in _fields(type(value))}
        return plain if value.extra is UNSET else plain | value.extra
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value
