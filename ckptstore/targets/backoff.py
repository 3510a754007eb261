"""The backoff policy, in tenacity's terms. Imported by `retry` when something failed for the first time."""

import random

from tenacity import RetryCallState, Retrying, retry_if_exception, stop_before_delay, wait_exponential

from ckptstore.errors import TargetError
from ckptstore.targets.base import Reason
from ckptstore.targets.retry import worth_another_try

__all__ = ["retrying"]

FIRST_SECONDS = 0.1  # the range of the first wait; doubled for each next one
LONGEST_SECONDS = 5.0
LONGEST_UNREACHABLE_SECONDS = 0.5  # a refusal is cheap, and `health` makes up its mind within a second or so

_bound = wait_exponential(multiplier=FIRST_SECONDS, max=LONGEST_SECONDS)
_soon_bound = wait_exponential(multiplier=FIRST_SECONDS, max=LONGEST_UNREACHABLE_SECONDS)
_random = random.SystemRandom()  # a background save draws nothing of what training draws from: `random` is its state


def retrying(deadline: float) -> Retrying:
    """Calls a function until it succeeds, fails for good, or the next try would come `deadline` seconds from now.

    Waits are random between zero and a doubling bound ("full jitter"), so clients that failed together don't
    come back together: M. Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015.
    """
    return Retrying(
        retry=retry_if_exception(worth_another_try),
        wait=_wait,
        stop=stop_before_delay(deadline),
        reraise=True,
    )


def _wait(state: RetryCallState) -> float:
    error = state.outcome.exception() if state.outcome else None
    fields = error.fields if isinstance(error, TargetError) else {}
    if fields.get("reason") == Reason.UNREACHABLE:
        return _random.uniform(0, _soon_bound(state))
    return _random.uniform(0, _bound(state)) + (fields.get("retry_after") or 0.0)
