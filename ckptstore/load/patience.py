"""How long a read may take before another fragment is asked for in its place (hedging).

After Dean and Barroso, "The Tail at Scale" (CACM 56, 2013): wait for most of what is usual, then ask elsewhere too. Two
things bound the extra requests: the quantile, past which one read in twenty lies, and a share of all reads that is
never exceeded, so that a store where everything has become slow isn't asked twice for everything.
"""

import threading
from collections import defaultdict, deque
from statistics import quantiles

__all__ = ["Patience"]

_SAMPLES = 128
"""Reads of one size that are remembered."""
_LEAST = 16
"""Fewer than so many say little about a quantile: until then nobody is hurried."""
_FACTOR = 1.1
"""Times the 95th percentile. A read ten times as long as usual then costs what two usual ones do, and a tenth."""
_FLOOR = 0.05
"""Seconds. What is faster is not worth a request."""
_SHARE = 0.05
"""Of the reads so far may be hedged."""
_SPARE = 8
"""Hedges allowed beyond that share: a first load has few reads behind it."""


class Patience:
    """Learns from the reads of a store, by size: those within a factor of two count as one. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: dict[int, deque[float]] = defaultdict(lambda: deque(maxlen=_SAMPLES))
        self._reads = 0
        self._hedged = 0

    def learn(self, nbytes: int, seconds: float) -> None:
        """Count a read that has ended."""
        with self._lock:
            self._reads += 1
            self._seen[nbytes.bit_length()].append(seconds)

    def seconds(self, nbytes: int) -> float | None:
        """How long a read of so many bytes may take; None where too few are known."""
        with self._lock:
            seen = list(self._seen[nbytes.bit_length()])
        if len(seen) < _LEAST:
            return None
        return max(_FLOOR, _FACTOR * quantiles(seen, n=20)[-1])

    def may_hedge(self, reads: int) -> bool:
        """Whether so many more reads may be hedged; counts them where they may."""
        with self._lock:
            allowed = self._hedged + reads <= _SPARE + _SHARE * self._reads
            self._hedged += reads if allowed else 0
            return allowed
