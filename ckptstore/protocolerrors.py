"""The commit protocol's errors, told as ours."""

from collections.abc import Iterator
from contextlib import contextmanager

import manifests
from ckptstore.errors import (
    AccessDenied,
    CkptStoreError,
    CommitInDoubt,
    ConflictError,
    CorruptError,
    DataLost,
    NotFoundError,
    OutOfReach,
    TargetUnusable,
    UsageError,
)
from ckptstore.refusals import DENIED

BEYOND_REPAIR = "no repair gives these votes back: see docs/operating.md, When more is lost than may be"

__all__ = ["BEYOND_REPAIR", "protocol_errors"]


@contextmanager
def protocol_errors() -> Iterator[None]:
    """Turn the commit protocol's errors into ours, by what a handler would do about them."""
    try:
        yield
    except manifests.ManifestError as error:
        kind, hint = _PROTOCOL_ERRORS.get(type(error), (CorruptError, "run: ckpt verify"))
        if error.fields.get("refused"):
            kind, hint = AccessDenied, DENIED
        elif error.fields.get("lost"):
            kind, hint = DataLost, BEYOND_REPAIR
        raise kind(error.message, hint=hint, **error.fields) from error


_PROTOCOL_ERRORS: dict[type[manifests.ManifestError], tuple[type[CkptStoreError], str]] = {
    manifests.Fenced: (ConflictError, "a newer session saves this run: stop this job, or open the run again"),
    manifests.Voided: (ConflictError, "the save was given up as dead and collected: save again"),
    manifests.BeingCollected: (ConflictError, "it can't be undeleted any more; see what is left with: ckpt ls"),
    manifests.Conflict: (ConflictError, "look at what is there with: ckpt log"),
    manifests.InDoubt: (CommitInDoubt, "look with: ckpt ls; what is listed there is committed"),
    manifests.NoQuorum: (OutOfReach, "run: ckpt doctor"),
    manifests.Unavailable: (OutOfReach, "run: ckpt doctor"),
    manifests.NotAStore: (NotFoundError, "make it a store with: ckpt init"),
    manifests.NotConditional: (
        TargetUnusable,
        "give that target commit = false: it takes fragments, never manifests",
    ),
    manifests.NoSuchCheckpoint: (NotFoundError, "run: ckpt ls"),
    manifests.NotUnderstood: (UsageError, "upgrade ckptstore: this run holds what a newer release wrote"),
    manifests.NewerFormat: (UsageError, "upgrade ckptstore: this run holds what a newer release wrote"),
}
