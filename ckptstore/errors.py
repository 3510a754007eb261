"""Every error that ckptstore raises, grouped by what a handler would do about it.

    CkptStoreError
    ├── UsageError                the caller asked for something that can't be (exit 2)
    │   ├── ConfigError           store.toml or Config: names the key and what is allowed
    │   └── StateError            the state dict: names the key
    │       ├── UnsupportedValue  a tensor kind or object that can't be stored
    │       ├── KeyCollision      two keys that would be stored under one name
    │       ├── ReplicaMismatch   ranks hold different values under one key
    │       ├── KeyMismatch       keys missing or unexpected on load
    │       ├── ShapeMismatch
    │       └── DtypeMismatch
    ├── NotFoundError             no such run, checkpoint or store (exit 10)
    ├── ConflictError             another writer was there first (exit 11)
    ├── CommitInDoubt             neither success nor failure: look before saving again (exit 1)
    ├── ToleranceError            too few targets or fragments to be as safe as asked (exit 1)
    │   └── TargetsFull           because they are full (exit 1)
    ├── IncompleteSave            a planned piece was not written: names the rank (exit 1)
    ├── StoreClosed               the store was closed in the middle of work, or the interpreter is ending (exit 1)
    ├── SaveStalled               a rank was too late, or is gone: names the rank (exit 1)
    ├── CorruptError              stored metadata fails its digest or its schema (exit 4)
    ├── DataLost                  fewer than k good fragments (exit 4)
    ├── OutOfReach                what can't be reached decides between loadable and lost (exit 5)
    ├── ForkedClient              a client was carried across a fork (exit 1)
    └── TargetError               one request to one target failed
        ├── TargetUnavailable     transient: refused, timed out, throttled, 5xx (exit 5)
        ├── ObjectNotFound        permanent: the target says it has no such object (exit 10)
        ├── AccessDenied          permanent: credentials or permissions (exit 12)
        ├── NoSpace               permanent: the target is full (exit 1)
        ├── ShortObject           permanent: fewer bytes than the object must have (exit 4)
        └── TargetUnusable        permanent: not the target it should be, or lacks a capability (exit 1)

Errors survive pickling with all their fields: torch.distributed carries them between ranks.
"""

from functools import partial
from typing import Any, ClassVar

__all__ = [
    "AccessDenied",
    "CkptStoreError",
    "CommitInDoubt",
    "ConfigError",
    "ConflictError",
    "CorruptError",
    "DataLost",
    "DtypeMismatch",
    "ForkedClient",
    "IncompleteSave",
    "KeyCollision",
    "KeyMismatch",
    "NoSpace",
    "NotFoundError",
    "ObjectNotFound",
    "OutOfReach",
    "ReplicaMismatch",
    "SaveStalled",
    "ShapeMismatch",
    "ShortObject",
    "StateError",
    "StoreClosed",
    "TargetError",
    "TargetUnavailable",
    "TargetUnusable",
    "TargetsFull",
    "ToleranceError",
    "UnsupportedValue",
    "UsageError",
]


class CkptStoreError(Exception):
    """Base of all. `kind` is a stable name for scripts; `hint` says what to do next.

    Keyword arguments become fields of the error (`key=`, `rank=`, `target=` …): a handler reads those, never the text.
    """

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, hint: str | None = None, **fields: Any) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
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

    def __str__(self) -> str:
        return f"{self.message}\n  next: {self.hint}" if self.hint else self.message

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(type(self), hint=self.hint, **self.fields), (self.message,)


class UsageError(CkptStoreError):
    """The caller asked for something that can't be."""

    exit_code = 2


class ConfigError(UsageError):
    """A setting is missing, unknown or out of range; the message names the key and the allowed values."""


class StateError(UsageError):
    """The state dict given can't be saved or loaded as it is; `key` names the entry."""


class UnsupportedValue(StateError):
    """A tensor kind (sparse, meta, quantised) or a Python object that no checkpoint can hold."""


class KeyCollision(StateError):
    """Two different paths in the state dict would be stored under one name."""


class ReplicaMismatch(StateError):
    """Ranks hold different values under one key that is stored once."""


class KeyMismatch(StateError):
    """Keys wanted but not saved (`missing`), or saved but not wanted (`unexpected`)."""


class ShapeMismatch(StateError):
    """The saved shape differs from the destination's."""


class DtypeMismatch(StateError):
    """The saved dtype differs from the destination's; a load never casts unless told to."""


class NotFoundError(CkptStoreError):
    """No such store, run, checkpoint or tensor."""

    exit_code = 10


class ConflictError(CkptStoreError):
    """Another writer was there first, or a newer session has taken over the run."""

    exit_code = 11


class CommitInDoubt(CkptStoreError):
    """The commit can't be proved either way: too few commit targets answered."""


class ToleranceError(CkptStoreError):
    """Too few targets, or of what is stored, to survive as many losses as is asked: `reached`, `required`.

    `lasting`, where it is set: they would be too few if all that are out of reach or full came back.
    """


class TargetsFull(ToleranceError):
    """So many targets are full that what can be stored survives too few losses. `target` names them."""


class IncompleteSave(CkptStoreError):
    """A planned piece was not written; `rank` names who owed it. Nothing was committed."""


class SaveStalled(CkptStoreError):
    """A rank did not do its part of a save within `save_timeout`, or is gone; `ranks` names it where that is known."""


class CorruptError(CkptStoreError):
    """Stored metadata fails its digest or its schema, and no good copy is in reach."""

    exit_code = 4


class DataLost(CkptStoreError):
    """Fewer than k good fragments of a stripe are left."""

    exit_code = 4


class OutOfReach(CkptStoreError):
    """Targets that can't be reached decide whether the data is loadable or lost."""

    exit_code = 5


class ForkedClient(CkptStoreError):
    """A store was opened before a fork and used after it: open it again in the child."""


class StoreClosed(CkptStoreError):
    """The store was closed while this thread was in the middle of a load or a save, or the main thread has ended."""


class TargetError(CkptStoreError):
    """One request to one target failed. `target` and `path` say which; `transient` whether to try again.

    `out_of_reach`: it proves nothing about what is stored there. Unreachable is not missing.
    """

    transient: ClassVar[bool] = False
    out_of_reach: ClassVar[bool] = False

    def __init__(
        self, message: str, *, target: str = "", path: str = "", hint: str | None = None, **fields: Any
    ) -> None:
        super().__init__(message, hint=hint, target=target, path=path, **fields)


class TargetUnavailable(TargetError):
    """Refused, timed out, throttled or failed inside: worth another try. `retry_after` in seconds, where told."""

    exit_code = 5
    transient = True
    out_of_reach = True


class ObjectNotFound(TargetError):
    """The target answered, and has no such object."""

    exit_code = 10


class AccessDenied(TargetError):
    """The target refused these credentials or this permission."""

    exit_code = 12
    out_of_reach = True


class NoSpace(TargetError):
    """The target is full."""


class ShortObject(TargetError):
    """The object holds fewer bytes than asked for."""

    exit_code = 4


class TargetUnusable(TargetError):
    """Not the target that the store knows under this name, or without a capability that its place needs."""
