"""Which part of the data a pass reads, or of the work it does: an arc of the space of hashes.

Every stripe (and every shard) has its place on a circle, by the SHA-256 of its name. A share of it is an arc that moves
on by its own width from day to day: 1/share consecutive days, rounded up, leave nothing out. It is reckoned in whole
numbers: a float's rounding would leave gaps.
"""

import hashlib
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction

from ckptstore.arguments import is_number
from ckptstore.config import parse_size
from ckptstore.errors import ConfigError, UsageError

SPACE = 1 << 64
PERCENT = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,18})?)%")
PART = re.compile(r"([0-9]{1,9})/([0-9]{1,9})")
SIZE = re.compile(r".*[A-Za-z]")  # a bare number says neither bytes nor percent

__all__ = ["ALL", "NOTHING", "Part", "Subset", "Window", "today", "turn"]


@dataclass(frozen=True, slots=True)
class Window:
    """An arc: `width` of 2^64 places from `start` on, round the end of the circle."""

    start: int
    width: int

    def holds(self, name: str) -> bool:
        """Whether the place of `name` is in it."""
        if self.width in {0, SPACE}:
            return bool(self.width)
        place = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big")
        return (place - self.start) % SPACE < self.width

    def stripes(self, shard_id: str, count: int) -> Iterator[int]:
        """Which of the `count` stripes of a shard are in it."""
        return (stripe for stripe in range(count) if self.holds(f"{shard_id}/{stripe}"))


ALL = Window(0, SPACE)
NOTHING = Window(0, 0)


def turn(share: Fraction, number: int) -> Window:
    """The arc of one turn; that of turn `number + 1` begins where it ends."""
    begin, end = (math.floor(share * SPACE * each) for each in (number, number + 1))
    return Window(begin % SPACE, end - begin)


def today() -> int:
    """The number of this day (UTC), by this machine's clock: it decides what is read, and nothing else."""
    return datetime.now(UTC).date().toordinal()


@dataclass(frozen=True, slots=True)
class Subset:
    """A part of the data: a `share` that moves on by the day, or one `part` of 1/share parts; or so many bytes.

    `text`: as it was given.
    """

    text: str
    share: Fraction = Fraction(1)
    part: int | None = None
    size: int | None = None

    @classmethod
    def of(cls, given: object, name: str = "subset") -> "Subset":
        """Of a number above 0 and at most 1, `10%`, `3/7` or `200GiB`. Raises `UsageError` that begins with `name`."""
        found = _of_text(given.strip()) if isinstance(given, str) else _of_number(given)
        if found is None:
            wanted = "above 0% and at most 100% as in 10%, a part as in 3/7, or bytes with their unit as in 200GiB"
            number = "a number above 0 and at most 1, " if not isinstance(given, str) else ""
            raise UsageError(f"{name} = {given!r:.80}: {number}{wanted}, is wanted", hint=f"{name} 10% reads a tenth")
        return found

    def window(self, stored: int, day: int) -> Window:
        """The arc to read on a day, of `stored` bytes that all of it would be.

        So many bytes are a whole number of parts, one a day: those stay where they are while the store grows a little.
        """
        if self.size is not None:
            return turn(Fraction(1, max(-(-stored // self.size), 1)), day)
        return turn(self.share, day if self.part is None else self.part - 1)


def _of_number(given: object) -> Subset | None:
    if not (is_number(given) and 0 < given <= 1):  # type: ignore[operator]
        return None
    share = Fraction(float(given))  # type: ignore[arg-type]
    return Subset(str(share), share)


def _of_text(text: str) -> Subset | None:
    if match := PERCENT.fullmatch(text):
        share = Fraction(match[1]) / 100
        return Subset(text, share) if 0 < share <= 1 else None
    if match := PART.fullmatch(text):
        number, parts = int(match[1]), int(match[2])
        return Subset(text, Fraction(1, parts), part=number) if 1 <= number <= parts else None
    if not SIZE.fullmatch(text):
        return None
    try:
        size = parse_size(text, "subset")
    except ConfigError:
        return None
    return Subset(text, size=size) if size > 0 else None


@dataclass(frozen=True, slots=True)
class Part:
    """Part `number` of `of` of a piece of work: the shards that it has. The first also does what is nobody's shard."""

    number: int = 1
    of: int = 1

    @classmethod
    def parse(cls, given: object, name: str = "shard") -> "Part":
        """`i/N`. Raises `UsageError` that begins with `name`."""
        match = PART.fullmatch(given.strip()) if isinstance(given, str) else None
        if match is None or not 1 <= int(match[1]) <= int(match[2]):
            raise UsageError(f"{name} = {given!r:.80}: part i of N, from 1/N to N/N, is wanted", hint=f"{name} 1/4")
        return cls(int(match[1]), int(match[2]))

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"

    @property
    def whole(self) -> bool:
        """Whether there is no other part."""
        return self.of == 1

    @property
    def leads(self) -> bool:
        """Whether it is the first."""
        return self.number == 1

    @property
    def shards(self) -> Window:
        """The arc of the shards that it has, by their ids."""
        return turn(Fraction(1, self.of), self.number - 1)
