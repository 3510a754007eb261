"""The words that all commands use: those of `ckptstore.wording`, and for states, ages and what may be lost."""

from collections.abc import Sequence
from datetime import UTC, datetime

from ckptstore.durations import age_of
from ckptstore.wording import count, joined, shape_text, size

FALL_BACK = "ckpt restore from an older checkpoint, or from what ckpt undelete brings back: ckpt ls --deleted"
"""What to do where a checkpoint is lost."""

__all__ = [
    "FALL_BACK",
    "age",
    "count",
    "data_stays",
    "duration",
    "joined",
    "shape_text",
    "size",
    "survival",
    "time_left",
    "verdict",
]

MINUTE, HOUR, DAY = 60, 3600, 86400


def age(created: str, now: datetime | None = None) -> str:
    """`5 min` since an ISO 8601 time; empty where it is none. By this machine's clock: for people only."""
    seconds = age_of(created, now or datetime.now(UTC))
    return "" if seconds is None else duration(seconds)


def duration(seconds: float) -> str:
    """`5 min`: in the largest unit that fits, cut."""
    for length, unit in ((DAY, "d"), (HOUR, "h"), (MINUTE, "min")):
        if seconds >= length:
            return f"{int(seconds // length)} {unit}"
    return f"{max(int(seconds), 0)} s"


def time_left(seconds: float) -> str:
    """`23 h 59 min`, `6 d 2 h`: cut, but not to one unit, for a second less than `24 h` is no `23 h`."""
    for length, unit, smaller in ((2 * DAY, DAY, HOUR), (HOUR, HOUR, MINUTE)):
        if seconds >= length:
            rest = seconds % unit
            whole = f"{int(seconds // unit)} {'d' if unit == DAY else 'h'}"
            return f"{whole} {duration(rest)}" if rest >= smaller else whole
    return duration(seconds)


def data_stays(seconds: float | None, *, used: bool, tags: Sequence[str] = ()) -> str:
    """For how long a deleted checkpoint keeps its data: `for 23 h 59 min`."""
    if used:
        return "while another checkpoint uses it"
    if tags:
        return f"while it has the tag {' and '.join(tags)}"
    if seconds is None:
        return "for how long can't be told"
    return f"for {time_left(seconds)}" if seconds else "till the next prune"


def survival(targets: int, domains: int) -> str:
    """What may be lost, in words; never rounded up."""
    if targets < 0:
        return "lost"
    if targets == 0:
        return "survives no loss"
    return f"survives {count(targets, 'target')}, {count(max(domains, 0), 'domain')}"


def verdict(state: str, targets: int, domains: int) -> str:
    """What a look at a checkpoint found, and where it loads, what may still be lost."""
    words = {
        "good": "good",
        "degraded": "degraded, loadable",
        "lost": "LOST",
        "unknown": "unknown: targets out of reach decide",
        "changed": "deleted meanwhile",
    }
    loads = state in {"good", "degraded"}
    return f"{words[state]}, {survival(targets, domains)}" if loads else words[state]
