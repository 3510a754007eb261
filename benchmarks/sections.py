"""What a benchmark found, as data: tables, lines with bounds, bars to plot. One JSON file each below `.bench/`."""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

FOLDER = Path(__file__).parents[1] / ".bench"


@dataclass(frozen=True)
class Line:
    """One thing to reach: `value` at most `bound`, or at least it. `note`: why it can't be reached, where it can't."""

    text: str
    value: float
    bound: float
    at_least: bool = False

    @property
    def holds(self) -> bool:
        """Whether it is reached."""
        return self.value >= self.bound if self.at_least else self.value <= self.bound


@dataclass(frozen=True)
class Table:
    """A header row, then further rows."""

    title: str
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Bars:
    """One plot: groups of bars, each bar named."""

    title: str
    unit: str
    groups: Mapping[str, Mapping[str, float]]


@dataclass
class Section:
    """One benchmark's findings."""

    title: str
    text: str
    command: str
    tables: list[Table] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    bars: list[Bars] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    ran: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="minutes"))


def keep(name: str, section: Section, folder: Path = FOLDER) -> None:
    """Write it down in the place of what was found before."""
    folder.mkdir(exist_ok=True)
    scratch = folder / f".{name}.{os.getpid()}"
    scratch.write_text(json.dumps(asdict(section), indent=1), encoding="utf-8")
    scratch.replace(folder / f"{name}.json")


def kept(names: Sequence[str], folder: Path = FOLDER) -> Iterator[tuple[str, Section]]:
    """What was found, in the order of `names`."""
    for name in names:
        file = folder / f"{name}.json"
        if file.exists():
            found = json.loads(file.read_text(encoding="utf-8"))
            found["tables"] = [Table(**each) for each in found["tables"]]
            found["lines"] = [Line(**each) for each in found["lines"]]
            found["bars"] = [Bars(**each) for each in found["bars"]]
            yield name, Section(**found)
