"""How long a read may take before another fragment is asked for in its place (hedging).

After Dean and Barroso, "The Tail at Scale" (CACM 56, 2013): wait for most of what is usual, then ask elsewhere too. The
extra requests are bounded by the quantile: about one in twenty reads is slower than it, and only those that are much
slower are hedged.
"""

import threading
from collections import defaultdict, deque
from statistics import quantiles

__all__ = ["Patience"]

_SAMPLES = 128
"""Reads of one size that are remembered."""
_LEAST = 16
"""Fewer than so many say little about a quantile: until then nobody is hurried."""
_FACTOR = 3.0
"""Times the 95th percentile: threads that share two cores, or one link, differ by that much without any fault."""
_FLOOR = 0.05
"""Seconds. What is faster is not worth a request."""


class Patience:
    """Learns from the reads of a load, by size: those within a factor of two count as one. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: dict[int, deque[float]] = defaultdict(lambda: deque(maxlen=_SAMPLES))

    def learn(self, nbytes: int, seconds: float) -> None:
        """Count a read that has ended."""
        with self._lock:
            self._seen[nbytes.bit_length()].append(seconds)

    def seconds(self, nbytes: int) -> float | None:
        """How long a read of so many bytes may take; None where too few are known."""
        with self._lock:
            seen = list(self._seen[nbytes.bit_length()])
        if len(seen) < _LEAST:
            return None
        return max(_FLOOR, _FACTOR * quantiles(seen, n=20)[-1])
