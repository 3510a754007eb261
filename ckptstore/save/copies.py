"""Small objects that must not be lost: the same bytes on several targets, distinct domains first."""

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor

from ckptstore.errors import TargetError, ToleranceError
from ckptstore.placement import Place, choose_copies
from ckptstore.targets.base import Target

__all__ = ["copies_wanted", "put_copies"]


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
        message = f"{len(holding)} targets took {path}, {least} must: {_reasons(failed)}"
        raise ToleranceError(message, hint="run: ckpt doctor", reached=len(holding) - 1, required=least - 1)
    return holding, failed


def _try_put(target: Target, path: str, data: bytes) -> TargetError | None:
    try:
        target.put(path, data)
    except TargetError as error:
        return error
    return None


def _reasons(failed: Mapping[str, TargetError]) -> str:
    return "; ".join(error.message for error in failed.values())
