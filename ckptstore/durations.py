"""Durations: as people write them (`90s`, `15m`, `1h30m`, `7d`, `2w`), and since a time that a manifest records."""

import re
from datetime import datetime

UNITS = {"w": 604800, "d": 86400, "h": 3600, "m": 60, "s": 1}
"""Seconds of each; a duration of several units has them in this order."""

LONGEST = 36500 * UNITS["d"]
"""Seconds of 100 years, beyond which no setting goes: what time it was so long ago must be in the calendar."""

_DURATION = re.compile("".join(rf"(?:([0-9]{{1,9}}(?:\.[0-9]{{1,3}})?)\s*{unit}\s*)?" for unit in UNITS))

__all__ = ["LONGEST", "age_of", "seconds_in"]


def seconds_in(text: object) -> float | None:
    """Seconds of a duration, however long; None where it is none. Every number needs its unit."""
    match = _DURATION.fullmatch(text.strip()) if isinstance(text, str) else None
    if match is None or not any(match.groups()):
        return None
    return sum(float(number) * unit for number, unit in zip(match.groups(), UNITS.values(), strict=True) if number)


def age_of(created: str, now: datetime) -> float | None:
    """Seconds since a time as manifests record it; None where it is none."""
    try:
        return max((now - datetime.fromisoformat(created)).total_seconds(), 0.0)
    except (ValueError, TypeError):
        return None
