"""Commit documents carry their own digest.

Nothing refers to a manifest, a mark or a standing by digest, so each ends with one: a last field `sha256` over the
canonical bytes without that field. A flipped bit in a copy is then found, whatever it says, and another copy is used.
A vote's digest begins with the vote's own name, so that under any other name it is damage: what a vote says is partly
said by its name, and a file system or a person may misname a file.
"""

import hashlib
from typing import TypeVar

from manifests.format_errors import DigestMismatch
from manifests.stored import Document
from manifests.wire import decode, encode

_FIELD = b',"sha256":"'
_TAIL = len(_FIELD) + 64 + len(b'"}')

DocumentT = TypeVar("DocumentT", bound=Document)


def seal(document: Document, place: str = "") -> bytes:
    """Return the canonical bytes of `document`, with the field `sha256` last. `place`: of a vote, `<run>/<name>`."""
    body = encode(document)
    return body[:-1] + _FIELD + _digest(body, place).encode() + b'"}'


def unseal(cls: type[DocumentT], data: bytes, place: str = "") -> DocumentT:
    """Return the validated document that was sealed for `place`.

    Raises DigestMismatch where the digest is wrong or missing, or a FormatError.
    """
    body, tail = data[:-_TAIL] + b"}", data[-_TAIL:]
    expected = _digest(body, place)
    if tail != _FIELD + expected.encode() + b'"}':
        found = tail[len(_FIELD) : -2].decode("ascii", "replace")
        message = f"{cls.__name__} of {len(data)} bytes does not end in its own SHA-256: damaged, or of another name"
        raise DigestMismatch(message, found=found, expected=expected, path="")
    return decode(cls, body)


def _digest(body: bytes, place: str) -> str:
    return hashlib.sha256(place.encode() + body).hexdigest()
