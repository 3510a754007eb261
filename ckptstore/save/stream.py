"""A shard's bytes as one safetensors file: which tensor stands where, before a byte is copied.

The format is that of `ckptstore.header`. Largest items first keeps every tensor aligned to its item size, the header is
padded with spaces so that the first one starts on a page, and byte objects come last.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from ckptstore.dtypes import OBJECT, dtype_named, nbytes_of
from ckptstore.errors import KeyCollision, UnsupportedValue
from ckptstore.header import HEADER_LIMIT, METADATA, header_bytes, header_entry
from manifests import TensorEntry

ALIGNMENT = 4096  # a page: data can be mapped, or read with O_DIRECT
HEADER_ROOM = HEADER_LIMIT - 2 * ALIGNMENT
ENTRY_ROOM = 120  # bytes of a header entry beside its names and numbers, rounded up
LONGEST_NUMBER = 20  # digits of 2^63, and a comma

__all__ = ["Piece", "Stream", "check_name", "lay_out", "split"]


@dataclass(frozen=True, slots=True)
class Piece:
    """A tensor, a chunk of one, or a byte object, stored under `fqn`. `key` is whatever the caller finds it by.

    `stays`: its bytes are the save's own, and nobody changes them until it has ended.
    """

    key: Any
    fqn: str
    dtype: str
    shape: Sequence[int]
    nbytes: int
    global_shape: Sequence[int] | None = None
    range: Sequence[int] | None = None
    aliases: Sequence[str] = field(default=())
    stays: bool = False

    @property
    def is_object(self) -> bool:
        """Whether it holds a byte object."""
        return self.dtype == OBJECT


@dataclass(frozen=True, slots=True)
class Stream:
    """A shard laid out: the header's bytes, then `pieces[i]` at `entries[i].offset`; `length` bytes in all."""

    header: bytes
    pieces: list[Piece]
    entries: list[TensorEntry]
    length: int


def check_name(fqn: str, *, is_object: bool = False) -> None:
    """Refuse a key that no safetensors header can hold: `UnsupportedValue`. To be called before anything is written."""
    if fqn == METADATA and not is_object:
        raise UnsupportedValue(f"the key {fqn!r} is the safetensors header's own", key=fqn)
    try:
        fqn.encode()
    except UnicodeEncodeError as error:
        raise UnsupportedValue(f"the key {fqn[:80]!r} is not Unicode that can be stored", key=fqn) from error


def split(pieces: Sequence[Piece]) -> Iterator[list[Piece]]:
    """Groups of pieces whose header each stays within what safetensors readers accept. Always one group at least."""
    group: list[Piece] = []
    room = HEADER_ROOM
    for piece in pieces:
        cost = _header_cost(piece)
        if cost > HEADER_ROOM:
            message = f"the name of {piece.fqn[:80]!r}… takes {cost} bytes of a header limited to {HEADER_LIMIT}"
            raise UnsupportedValue(message, key=piece.fqn)
        if cost > room:
            yield group
            group, room = [], HEADER_ROOM
        group.append(piece)
        room -= cost
    yield group


def lay_out(pieces: Sequence[Piece], alignment: int = ALIGNMENT) -> Stream:
    """Order the pieces, name them and give each its place; data begins at a multiple of `alignment` bytes."""
    for piece in pieces:
        check_name(piece.fqn, is_object=piece.is_object)
    ordered = sorted(pieces, key=lambda p: (p.is_object, -dtype_named(p.dtype).itemsize, p.fqn, tuple(p.range or ())))
    names = _names(ordered)
    header = _header(ordered, names, alignment)
    entries = []
    offset = len(header)
    for piece, name in zip(ordered, names, strict=True):
        entries.append(_entry(piece, name, offset))
        offset += piece.nbytes
    return Stream(header, ordered, entries, offset)


def _names(pieces: Sequence[Piece]) -> list[str]:
    taken: dict[str, str] = {}
    names = []
    for piece in pieces:
        name = f"object:{piece.fqn}" if piece.is_object else piece.fqn
        if taken.get(name) == piece.fqn and not piece.is_object:
            name = f"{piece.fqn}@{','.join(map(str, piece.range or ()))}"
        if name in taken:
            message = f"{piece.fqn!r} and {taken[name]!r} would both be stored as {name!r}"
            raise KeyCollision(message, key=piece.fqn, other=taken[name])
        taken[name] = piece.fqn
        names.append(name)
    return names


def _header(pieces: Sequence[Piece], names: Sequence[str], alignment: int) -> bytes:
    head: dict[str, Any] = {METADATA: _metadata(pieces, names)}
    start = 0
    for piece, name in zip(pieces, names, strict=True):
        head[name] = header_entry(piece.dtype, piece.shape, start)
        start += piece.nbytes
    return header_bytes(head, alignment)


def _metadata(pieces: Sequence[Piece], names: Sequence[str]) -> dict[str, str]:
    offsets = {
        name: {"saved_offsets": list(piece.range)} for piece, name in zip(pieces, names, strict=True) if piece.range
    }
    sharding = json.dumps(offsets, separators=(",", ":"))
    return {"format": "pt", "DCP_SHARDING_INFO": sharding}  # what torch's Hugging Face reader looks for


def _entry(piece: Piece, name: str, offset: int) -> TensorEntry:
    expected = nbytes_of(piece.dtype, piece.shape)
    assert piece.nbytes == expected, f"{piece.fqn}: {piece.nbytes} bytes, shape and dtype say {expected}"
    return TensorEntry(
        name=name,
        fqn=piece.fqn,
        aliases=list(piece.aliases),
        dtype=piece.dtype,
        shape=list(piece.shape),
        offset=offset,
        nbytes=piece.nbytes,
        global_shape=None if piece.global_shape is None else list(piece.global_shape),
        range=None if piece.range is None else list(piece.range),
    )


def _header_cost(piece: Piece) -> int:
    """At most this many bytes: the name stands there as JSON, and again as JSON inside JSON, twice as long at worst."""
    numbers = len(piece.shape) + 3 * len(piece.range or ()) + 3
    return 3 * len(json.dumps(piece.fqn)) + LONGEST_NUMBER * numbers + ENTRY_ROOM
