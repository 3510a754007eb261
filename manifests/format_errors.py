"""Every error of a stored document that is not what docs/format.md says it must be.

FormatError
├── MalformedJson           not one JSON value in UTF-8
├── NestingTooDeep
├── DuplicateKey            one JSON object holds a key twice
├── NonFiniteNumber         NaN or an infinity, which JSON can't hold
├── NewerFormat             written by a newer major version: upgrade (a NotUnderstood too)
├── MissingField
├── UnknownField            in a document of a version whose fields are all known
├── WrongType
├── WrongValue              of the right type, but the rules leave no such value
├── UnsafeName              a name that must not become part of an object name
├── NumberOutOfRange        negative, or too large to be a length, a count or an offset
├── IndexOutOfRange         a position past the end of the list it points into
├── WrongCount              a list or a table has too many or too few items
├── DuplicateName
├── OverlappingRange        two ranges share bytes or elements, or one leaves its whole
├── MissingRange            ranges leave a hole or a tail
├── ShapeMismatch           the elements take another number of bytes
├── TooLarge                past a limit that bounds what a reader must hold
├── SizeMismatch            stored or inflated size is not what the reference says
├── DigestMismatch          SHA-256 is not what the reference says
└── BadCompression          not a whole gzip member
"""

from manifests.errors import ManifestError, NotUnderstood

__all__ = [
    "BadCompression",
    "DigestMismatch",
    "DuplicateKey",
    "DuplicateName",
    "FormatError",
    "IndexOutOfRange",
    "MalformedJson",
    "MissingField",
    "MissingRange",
    "NestingTooDeep",
    "NewerFormat",
    "NonFiniteNumber",
    "NumberOutOfRange",
    "OverlappingRange",
    "ShapeMismatch",
    "SizeMismatch",
    "TooLarge",
    "UnknownField",
    "UnsafeName",
    "WrongCount",
    "WrongType",
    "WrongValue",
]


class FormatError(ManifestError):
    """A stored document breaks a rule of docs/format.md. `field` says where in the document."""


class MalformedJson(FormatError):
    """The bytes are not one JSON value in UTF-8."""


class NestingTooDeep(FormatError):
    """Lists and objects are nested deeper than any document needs."""


class DuplicateKey(FormatError):
    """One JSON object holds `key` twice; readers would disagree about which counts."""


class NonFiniteNumber(FormatError):
    """A NaN or an infinity where only JSON numbers can be stored."""


class NewerFormat(FormatError, NotUnderstood):
    """The document's major version `found` is newer than this release knows (`known`)."""


class MissingField(FormatError):
    """A field that every document of this version has is absent."""


class UnknownField(FormatError):
    """A document of a version whose fields are all known holds another one."""


class WrongType(FormatError):
    """A field holds another JSON type than it must."""


class WrongValue(FormatError):
    """A field has the right type and a value that the rules don't allow."""


class UnsafeName(FormatError):
    """A run, target, session, shard id or path breaks the rule for its kind: it addresses nothing."""


class NumberOutOfRange(FormatError):
    """A number is negative or larger than what it measures can be (`found`, `low`, `high`)."""


class IndexOutOfRange(FormatError):
    """A position points past the end of its list (`found`, `count`)."""


class WrongCount(FormatError):
    """A list or a table has another number of items than it must (`found`, `expected`)."""


class DuplicateName(FormatError):
    """A name that must be unique appears twice (`name`)."""


class OverlappingRange(FormatError):
    """Two ranges overlap, or a range leaves the whole that it is part of."""


class MissingRange(FormatError):
    """Ranges that must cover a whole leave a hole or a tail."""


class ShapeMismatch(FormatError):
    """The elements of a shape take another number of bytes than is recorded (`found`, `expected`)."""


class TooLarge(FormatError):
    """Past a limit that bounds what reading a document may cost (`found`, `limit`)."""


class SizeMismatch(FormatError):
    """A stored or inflated object has another size than its reference says (`found`, `expected`, `path`)."""


class DigestMismatch(FormatError):
    """A stored object has another SHA-256 than its reference says (`found`, `expected`, `path`)."""


class BadCompression(FormatError):
    """A gzip object is damaged, cut short or followed by other bytes (`path`)."""
