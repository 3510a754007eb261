"""Whatever was raised, as what a person and a script need of it: a kind, one message, what to do next, a code."""

from typing import NamedTuple

from ckptstore.errors import (
    AccessDenied,
    CkptStoreError,
    CommitInDoubt,
    ConfigError,
    ConflictError,
    CorruptError,
    DataLost,
    NoSpace,
    NotFoundError,
    TargetError,
    ToleranceError,
    UsageError,
)
from ckptstore.redaction import redacted

__all__ = ["BAD_USAGE", "FAILED", "INTERRUPTED", "TERMINATED", "Failure", "Terminated", "failure_of", "usage_failure"]

FAILED = 1
BAD_USAGE = 2
INTERRUPTED = 130
"""128 + SIGINT, as shells have it."""
TERMINATED = 143
"""128 + SIGTERM."""


class Terminated(KeyboardInterrupt):
    """SIGTERM, raised as Ctrl-C is: all that cleans up after the one does so after the other."""


class Failure(NamedTuple):
    """Why a command didn't do what it was asked to."""

    kind: str
    message: str
    hint: str
    code: int

    @property
    def next(self) -> str:
        """The hint as it stands after `next:`."""
        return self.hint.removeprefix("run: ")


_HINTS: dict[type[CkptStoreError], str] = {  # the first that fits, for errors that bring no hint of their own
    ConfigError: "mend store.toml, then: ckpt doctor",
    UsageError: "see: ckpt --help",
    NotFoundError: "see what there is: ckpt ls --all-runs",
    ConflictError: "see what happened: ckpt log",
    CommitInDoubt: "see whether it is there: ckpt ls",
    CorruptError: "run: ckpt verify",
    DataLost: "run: ckpt verify --read-data",
    AccessDenied: "check the credentials in the environment, then: ckpt doctor",
    NoSpace: "make room on the target, then: ckpt doctor",
    ToleranceError: "run: ckpt doctor",
    TargetError: "run: ckpt doctor",
}


SIGNALLED: list[KeyboardInterrupt] = []
"""What the first signal raised, once there was one: whatever fails after it does because of it."""


def failure_of(error: BaseException) -> Failure:
    """What to tell of an error, and the exit code."""
    error = SIGNALLED[0] if SIGNALLED else error
    if isinstance(error, KeyboardInterrupt):
        kind, code = ("Terminated", TERMINATED) if isinstance(error, Terminated) else ("Interrupted", INTERRUPTED)
        return Failure(kind, kind.lower(), "run it again: what was not finished is not to be seen anywhere", code)
    found = _ours(error)
    if found is not None:
        return Failure(found.kind, found.message, found.hint or _hint(found), found.exit_code)
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        hint = "look at the path, its permissions and the room there, then run it again"
        return Failure(type(error).__name__, f"{where}{error.strerror or error}", hint, FAILED)
    message = redacted(f"{type(error).__name__}: {error}").strip().partition("\n")[0]
    return Failure(type(error).__name__, message, "run it again with -v for the traceback", FAILED)


def usage_failure(message: str, command: str) -> Failure:
    """What to tell of a command line that can't be understood."""
    return Failure("UsageError", message, f"see: {command} --help", BAD_USAGE)


def _ours(error: BaseException) -> CkptStoreError | None:
    """The error as one of ours: itself, or what the commit protocol's means, or what ranks met in a save."""
    from manifests import ManifestError

    if isinstance(error, CkptStoreError):
        return error
    if isinstance(error, ManifestError):
        return _protocol_error(error)
    ranks = getattr(error, "failures", None)  # torch.distributed.checkpoint.CheckpointException: {rank: (error, trace)}
    if isinstance(ranks, dict):
        return next((found for each in ranks.values() if (found := _ours(each[0]))), None)
    return None


def _protocol_error(error: Exception) -> CkptStoreError | None:
    from ckptstore.protocolerrors import protocol_errors

    try:
        with protocol_errors():
            raise error
    except CkptStoreError as ours:
        return ours


def _hint(error: CkptStoreError) -> str:
    return next((hint for kind, hint in _HINTS.items() if isinstance(error, kind)), "see what there is: ckpt ls")
