"""Every error that manifests raises, grouped by what a handler would do about it.

    ManifestError
    ├── FormatError                 a stored document is not what docs/format.md says it must be
    │   ├── MalformedJson           not one JSON value in UTF-8
    │   ├── NestingTooDeep
    │   ├── DuplicateKey            one JSON object holds a key twice
    │   ├── NonFiniteNumber         NaN or an infinity, which JSON can't hold
    │   ├── NewerFormat             written by a newer major version: upgrade (a NotUnderstood too)
    │   ├── MissingField
    │   ├── UnknownField            in a document of a version whose fields are all known
    │   ├── WrongType
    │   ├── WrongValue              of the right type, but the rules leave no such value
    │   ├── UnsafeName              a name that must not become part of an object name
    │   ├── NumberOutOfRange        negative, or too large to be a length, a count or an offset
    │   ├── IndexOutOfRange         a position past the end of the list it points into
    │   ├── WrongCount              a list or a table has too many or too few items
    │   ├── DuplicateName
    │   ├── OverlappingRange        two ranges share bytes or elements, or one leaves its whole
    │   ├── MissingRange            ranges leave a hole or a tail
    │   ├── ShapeMismatch           the elements take another number of bytes
    │   ├── TooLarge                past a limit that bounds what a reader must hold
    │   ├── SizeMismatch            stored or inflated size is not what the reference says
    │   ├── DigestMismatch          SHA-256 is not what the reference says
    │   └── BadCompression          not a whole gzip member
    ├── NotUnderstood               written with features or kinds of a newer release: only read
    ├── Unavailable                 a register is out of reach, or its reply was lost: the outcome is unknown
    ├── NoQuorum                    too few registers answered
    ├── NotAStore                   no register holds a store, or all hold another one
    ├── NotConditional              a register overwrote where it was to put only if absent
    ├── NoSuchCheckpoint            the run has no such save
    ├── BeingCollected              a deleted save is past its grace period: what it names is being removed
    ├── Conflict                    another writer was there first
    ├── Fenced                      a newer session of the run exists
    ├── InDoubt                     neither committed nor refused: look before trying again
    └── Voided                      the save was closed by a collector and can't commit any more

Errors survive pickling with all their fields: torch.distributed carries them between ranks.
"""

from typing import Any

__all__ = [
    "BadCompression",
    "BeingCollected",
    "Conflict",
    "DigestMismatch",
    "DuplicateKey",
    "DuplicateName",
    "Fenced",
    "FormatError",
    "InDoubt",
    "IndexOutOfRange",
    "MalformedJson",
    "ManifestError",
    "MissingField",
    "MissingRange",
    "NestingTooDeep",
    "NewerFormat",
    "NoQuorum",
    "NoSuchCheckpoint",
    "NonFiniteNumber",
    "NotAStore",
    "NotConditional",
    "NotUnderstood",
    "NumberOutOfRange",
    "OverlappingRange",
    "ShapeMismatch",
    "SizeMismatch",
    "TooLarge",
    "Unavailable",
    "UnknownField",
    "UnsafeName",
    "Voided",
    "WrongCount",
    "WrongType",
    "WrongValue",
]

LINE = 80


class ManifestError(Exception):
    """Base of all. Keyword arguments become fields of the error (`field=`, `found=` …) for handlers."""

    def __init__(self, message: str, **fields: Any) -> None:
        super().__init__(message)
        self.message = message
        self.fields = fields

    @property
    def kind(self) -> str:
        """The class's name: stable, append-only."""
        return type(self).__name__

    def __getattr__(self, name: str) -> Any:
        fields = self.__dict__.get("fields", {})
        if name in fields:
            return fields[name]
        raise AttributeError(name)

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.message, self.fields)


def _rebuild(cls: type[ManifestError], message: str, fields: dict[str, Any]) -> ManifestError:
    return cls(message, **fields)


def shown(value: object) -> str:
    """Return `value` for a message, cut to a line of a terminal: names may be 100 KiB long."""
    text = repr(value)
    return text if len(text) <= LINE else f"{text[: LINE - 3]}..."


class NotUnderstood(ManifestError):
    """A document uses features or kinds of a newer release (`unknown`: their names).

    It may be read around, but nothing may be written, pruned or trusted because of it.
    """


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


class Unavailable(ManifestError):
    """A register is out of reach, or its reply was lost: whether the request took effect is unknown.

    `final`, where it is set: asking again within seconds would end the same, as where the service refuses.
    `refused`, where it is set: it refuses these credentials or this permission, and nothing took effect.
    """

    @property
    def is_final(self) -> bool:
        """Whether asking again soon is of no use."""
        return bool(self.fields.get("final"))

    @property
    def is_refused(self) -> bool:
        """Whether it is for lack of a permission."""
        return bool(self.fields.get("refused"))


class NoQuorum(ManifestError):
    """Too few registers count and answered. `reasons` says what is wrong with each of the others.

    `refused`, where it is set: they refuse us, and those that are out of reach otherwise would not be enough.
    """


class NotAStore(ManifestError):
    """No register holds a store, or they hold another one. `reasons` says what each one is."""


class NotConditional(ManifestError):
    """A register took a second put-if-absent of one name: it can hold fragments, never votes (`register`)."""


class NoSuchCheckpoint(ManifestError):
    """The run has no save of this session and ordinal."""


class BeingCollected(ManifestError):
    """A deleted save is past its grace period, and a collector removes what it names, or may do so."""


class Conflict(ManifestError):
    """Another writer was there first; what it wrote stands."""


class Fenced(ManifestError):
    """A newer session of the run exists: this saver is no longer the run's saver."""


class InDoubt(ManifestError):
    """Neither committed nor refused: read before trying again."""


class Voided(ManifestError):
    """The save's register was closed by a collector: it can't commit any more."""
