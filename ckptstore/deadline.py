"""The instant at which a save's waiting ends, handed down to all that waits in it."""

import time

__all__ = ["Deadline"]


class Deadline:
    """`seconds` from now; never, where there are none."""

    def __init__(self, seconds: float | None = None) -> None:
        self.seconds = seconds
        self._at = None if seconds is None else time.monotonic() + seconds

    @property
    def left(self) -> float | None:
        """Seconds that are left, 0 once it is over, None where it never is: as `wait(timeout=…)` takes them."""
        return None if self._at is None else max(0.0, self._at - time.monotonic())
