"""Small objects that must not be lost: the same bytes on several targets, distinct domains first."""

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor

from ckptstore.errors import (
    CkptStoreError,
    ConflictError,
    NoSpace,
    ObjectNotFound,
    TargetError,
    TargetsFull,
    TargetUnavailable,
    TargetUnusable,
    ToleranceError,
)
from ckptstore.placement import Place, choose_copies
from ckptstore.refusals import denied
from ckptstore.targets.base import Target

__all__ = ["check_size", "copies_wanted", "put_copies", "too_few_took"]


def copies_wanted(tolerance: int, places: Sequence[Place]) -> int:
    """One more than may be lost, and two at least where there are two targets."""
    return min(max(tolerance + 1, 2), len(places))


def put_copies(
    path: str,
    data: bytes,
    count: int,
    places: Sequence[Place],
    targets: Mapping[str, Target],
    executor: Executor,
    *,
    least: int = 1,
    timeout: float | None = None,
) -> tuple[list[str], dict[str, TargetError]]:
    """Put `data` on `count` of the targets, going on to others where one fails.

    Returns the targets that hold it and the errors of those that don't. `ToleranceError` where fewer than `least` took
    it: what is needed to read anything must survive what the data does. `TimeoutError` where they are not through
    within `timeout` seconds.
    """
    waiting = choose_copies(path, len(places), places)
    holding: list[str] = []
    failed: dict[str, TargetError] = {}
    while waiting and len(holding) < count:
        batch, waiting = waiting[: count - len(holding)], waiting[count - len(holding) :]
        errors = executor.map(lambda name: _try_put(targets[name], path, data), batch, timeout=timeout)
        for name, error in zip(batch, errors, strict=True):
            if error is None:
                holding.append(name)
            else:
                failed[name] = error
    if len(holding) < least:
        raise too_few_took(f"{len(holding)} targets took {path}, {least} must", failed, len(holding) - 1, least - 1)
    return holding, failed


def _try_put(target: Target, path: str, data: bytes) -> TargetError | None:
    try:
        target.put(path, data)
        check_size(target, path, len(data))
    except TargetError as error:
        return error
    return None


def check_size(target: Target, path: str, size: int) -> None:
    """Raise `TargetUnusable` where an object that was put isn't kept as it was sent: an S3 server may add a trailer.

    `ObjectNotFound` where it is gone. A target that doesn't answer now has taken it all the same.
    """
    try:
        kept = target.head(path).size
    except ObjectNotFound as error:
        message = f"{target.name}: {path}: it was put and taken, and is gone"
        raise ObjectNotFound(message, target=target.name, path=path) from error
    except TargetUnavailable:
        return
    if kept != size:
        message = f"{target.name}: {path}: {size} bytes were put and taken, {kept} are kept"
        hint = "what is between here and the service changes what is put: look for a proxy, or for checksum settings"
        raise TargetUnusable(message, target=target.name, path=path, hint=hint)


def too_few_took(message: str, failed: Mapping[str, TargetError], reached: int, required: int) -> CkptStoreError:
    """The error for what can't be stored safely enough: `TargetsFull` where all that failed are, or `AccessDenied`.

    `ConflictError` where what was put has been removed: a prune does so to a save that was given up as dead.
    """
    text = f"{message} ({'; '.join(error.message for error in failed.values())})"
    if refusal := denied(text, failed.values()):
        return refusal
    if failed and all(isinstance(error, NoSpace) for error in failed.values()):
        names = ", ".join(failed)
        hint = "free some space there: ckpt prune; or add a target"
        return TargetsFull(text, target=names, hint=hint, reached=reached, required=required)
    if any(isinstance(error, ObjectNotFound) for error in failed.values()):
        hint = "a prune or somebody else removed it: save again; if that lasts, run: ckpt doctor"
        return ConflictError(text, hint=hint, reached=reached, required=required)
    return ToleranceError(text, hint="run: ckpt doctor", reached=reached, required=required)
