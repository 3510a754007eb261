"""Numbers, sizes, times and names in words: the same in tables, on pages and in messages."""

from collections.abc import Sequence

STEP = 1024
FEW_SECONDS = 10
"""Below this, digits behind the point tell something."""
UNITS = (("d", 86400), ("h", 3600), ("min", 60), ("s", 1))

__all__ = ["count", "joined", "printable", "shape_text", "size", "time_text"]


def count(number: int, what: str) -> str:
    """`1 target`, `2 targets`."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def joined(names: Sequence[str]) -> str:
    """`a, b and c`."""
    return " and ".join(part for part in (", ".join(names[:-1]), *names[-1:]) if part)


def size(nbytes: float) -> str:
    """`1.4 GiB`: three digits, binary units."""
    value = float(nbytes)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if value < STEP or unit == "TiB":
            break
        value /= STEP
    digits = ".4g" if unit == "B" else ".3g" if value < 1000 else ".0f"  # noqa: PLR2004 - three digits
    return f"{value:{digits}} {unit}"


def time_text(seconds: float) -> str:
    """`1 h 30 min`, `42 s`, `0.031 s`: two units at most."""
    if seconds < FEW_SECONDS:
        return f"{seconds:.3g} s"
    parts = []
    for unit, length in UNITS:
        whole, seconds = divmod(seconds, length)
        if whole:
            parts.append(f"{int(whole)} {unit}")
    return " ".join(parts[:2])


def shape_text(shape: Sequence[int]) -> str:
    """`[1024, 16]`."""
    return f"[{', '.join(map(str, shape))}]"


def printable(text: str) -> str:
    """`text` on one line, control characters spelled out: names are data, not commands to a terminal, nor markup."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
