"""Every error that manifests raises, grouped by what a handler would do about it.

    ManifestError
    ├── FormatError                 a stored document is not what docs/format.md says it must be: see `format_errors`
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
    "BeingCollected",
    "Conflict",
    "Fenced",
    "InDoubt",
    "ManifestError",
    "NoQuorum",
    "NoSuchCheckpoint",
    "NotAStore",
    "NotConditional",
    "NotUnderstood",
    "Unavailable",
    "Voided",
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
    `lost`: so many lost their votes that it would be too few if all that are out of reach came back.
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
