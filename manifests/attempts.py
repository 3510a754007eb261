"""Trying again: on a fresh view, when targets come, go or change under an operation."""

from collections.abc import Callable, Iterator, Mapping

from manifests.errors import NoQuorum, Unavailable
from manifests.quorum import Scope, View, read_view, readings_needed
from manifests.registers import ATTEMPTS, PAUSE, Batch, Steps, T


def attempts() -> Iterator[float]:
    """Yield for each attempt the seconds to wait before it."""
    yield 0.0
    for attempt in range(ATTEMPTS - 1):
        yield PAUSE * 2**attempt


def with_view(
    scope: Scope,
    view: View | None,
    body: Callable[[View], Steps[T | None]],
    read: Callable[[Scope], Steps[View]] = read_view,
) -> Steps[T]:
    """Run `body` on a view until it gives a result; None means that targets came, went or changed under it.

    `view`: the one to try first. Raises NoQuorum after the last attempt, or as soon as so many targets that count by a
    fresh view fail for good that the others are too few; and whatever `read` raises.
    """
    for pause in attempts():
        fresh = view is None
        if view is None:
            if pause:
                yield Batch((), pause)
            view = yield from read(scope)
        failures: dict[str, Unavailable] = {}
        result = yield from _noting(body(view), failures)
        if result is not None:
            return result
        last, view = view, None
        final = {name for name, error in failures.items() if error.is_final}
        if fresh and final and not last.can_read(set(last.valid) - final):
            break
    raise _unsettled(last, failures)


def _noting(steps: Steps[T], failures: dict[str, Unavailable]) -> Steps[T]:
    """Do `steps`, and note of each target how it failed."""
    try:
        batch = next(steps)
        while True:
            replies = yield batch
            for lane, answers in zip(batch.lanes, replies, strict=True):
                failed = zip(lane, answers, strict=True)
                failures |= {request.target: reply for request, reply in failed if isinstance(reply, Unavailable)}
            batch = steps.send(replies)
    except StopIteration as stop:
        result: T = stop.value
        return result


def _unsettled(view: View, failures: Mapping[str, Unavailable]) -> NoQuorum:
    """The error that says which targets failed where they count, or that they changed too often."""
    reasons = view.reasons() | {name: error.message for name, error in failures.items()}
    refusing = {name for name, error in failures.items() if error.is_refused}
    if failures:
        told = "; ".join(f"{name}: {reason}" for name, reason in sorted(reasons.items()))
        message = f"not all could be read that {len(view.valid)} of {len(view.targets)} commit targets hold ({told})"
    else:
        message = f"targets came, went or changed in each of {ATTEMPTS} attempts; try again"
    refused = {"refused": True} if refusing and not view.can_read(set(view.valid) - refusing) else {}
    counts = {"valid": len(view.valid), "needed": max(readings_needed(members) for members in view.sets)}
    return NoQuorum(message, **counts, members=len(view.targets), reasons=reasons, **refused)
