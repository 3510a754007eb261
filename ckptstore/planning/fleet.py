"""How often a job is interrupted, how often it is to save, and how much of its time is training.

Interruptions are a Poisson process. The useful share of time is that of J. T. Daly, "A higher order estimate of the
optimum checkpoint interval for restart dumps", Future Generation Computer Systems 22 (2006), his complete model, with
what an asynchronous save adds: what was trained while it was under way is lost as well.
"""

import math
from collections.abc import Callable

from ckptstore.errors import UsageError

FAILURES_PER_NODE_DAY = 6.50e-3
"""Of the larger of two clusters in Kokolis et al., "Revisiting Reliability in Large-Scale Machine Learning Research
Clusters", HPCA 2025, arXiv 2410.21680."""

GPUS_PER_NODE = 8
MOST_GPUS, LEAST_FAILURES = 1e9, 1e-9
_GOLDEN = (math.sqrt(5) - 1) / 2

__all__ = [
    "FAILURES_PER_NODE_DAY",
    "GPUS_PER_NODE",
    "best_interval",
    "daly_interval",
    "goodput",
    "mttf_hours",
    "young_interval",
]


def mttf_hours(gpus: int, failures_per_node_day: float = FAILURES_PER_NODE_DAY) -> float:
    """Mean hours between interruptions of a job on so many GPUs, any of whose nodes interrupts it."""
    if not (1 <= gpus <= MOST_GPUS and LEAST_FAILURES <= failures_per_node_day <= 1 / LEAST_FAILURES):
        told = f"{gpus!s:.40} GPUs, {failures_per_node_day!s:.40} failures a node and day"
        message = f"{told}: from 1 to {MOST_GPUS:g}, and from {LEAST_FAILURES:g} to {1 / LEAST_FAILURES:g}, are wanted"
        raise UsageError(message, key="failures_per_node_day" if 1 <= gpus <= MOST_GPUS else "gpus")
    nodes = math.ceil(gpus / GPUS_PER_NODE)
    return 24 / (nodes * failures_per_node_day)


def young_interval(stall: float, mttf: float) -> float:
    """sqrt(2 stall mttf): J. W. Young, "A first order approximation to the optimum checkpoint interval", CACM 1974."""
    return math.sqrt(2 * stall * mttf)


def daly_interval(stall: float, mttf: float) -> float:
    """Daly's higher order estimate; the mean time between interruptions itself where a save stalls for half of it."""
    if stall >= 2 * mttf:
        return mttf
    part = stall / (2 * mttf)
    return math.sqrt(2 * stall * mttf) * (1 + math.sqrt(part) / 3 + part / 9) - stall


def goodput(interval: float, *, stall: float, lag: float, restart: float, mttf: float) -> float:
    """The share of time that is training, all in seconds.

    Every `interval` of training a save stalls it for `stall`, and is committed `lag` later; an interruption costs
    `restart` until training goes on. tau / (M exp((R + lag) / M) (exp((tau + stall) / M) - 1)).
    """
    exponent = (restart + lag) / mttf
    if exponent + (interval + stall) / mttf > 700:  # noqa: PLR2004 - the largest double is e^709
        return 0.0
    return interval / (mttf * math.exp(exponent) * math.expm1((interval + stall) / mttf))


def best_interval(*, stall: float, mttf: float, least: float = 0.0) -> float:
    """The interval of the highest goodput, seconds, to a thousandth: `lag` and `restart` don't move it.

    `least`: a save must have ended before the next one begins.
    """
    found = _highest(lambda tau: goodput(tau, stall=stall, lag=0.0, restart=0.0, mttf=mttf), 1e-3, 10 * mttf)
    return max(found, least)


def _highest(value: Callable[[float], float], low: float, high: float) -> float:
    """Golden-section search of a function with one maximum, over the logarithm of its argument."""
    a, b = math.log(low), math.log(high)
    while b - a > 1e-3:  # noqa: PLR2004 - a thousandth of the interval
        left, right = b - _GOLDEN * (b - a), a + _GOLDEN * (b - a)
        if value(math.exp(left)) < value(math.exp(right)):
            a = left
        else:
            b = right
    return math.exp((a + b) / 2)
