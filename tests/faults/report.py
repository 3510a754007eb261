"""docs/reliability.md: what the slow proofs counted the last time each ran.

A soak test calls `keep`, which writes one JSON file below `.soak/`. `python -m tests.faults.report PATH` makes the
page of all of them and prints it.
"""

import json
import os
import platform
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

FOLDER = Path(__file__).parents[2] / ".soak"

INTRODUCTION = """# Reliability

What `make soak` counted the last time each of its proofs ran. `make soak` runs them all and writes this page anew;
the command beside a section runs that one alone.
"""


@dataclass(frozen=True)
class Proof:
    """One slow proof that was run. `tables`: each a header row and further rows."""

    title: str
    command: str
    text: str
    counts: Mapping[str, int]
    seconds: float
    tables: Sequence[Sequence[Sequence[object]]] = ()
    ran: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="minutes"))
    machine: str = field(
        default_factory=lambda: (
            f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}, Python {platform.python_version()}"
        )
    )


def keep(name: str, proof: Proof, folder: Path = FOLDER) -> None:
    """Write it down in the place of what it counted before, and print it."""
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps(asdict(proof), indent=1), encoding="utf-8")
    sys.stdout.write(section(proof))


def page(folder: Path = FOLDER) -> str:
    """The page, in the order of the records' names."""
    proofs = [Proof(**json.loads(path.read_text(encoding="utf-8"))) for path in sorted(folder.glob("*.json"))]
    return "\n".join([INTRODUCTION, *map(section, proofs)])


def section(proof: Proof) -> str:
    """One proof in Markdown."""
    ran = f"{proof.ran}, {proof.seconds / 60:.1f} minutes on {proof.machine}"
    counts = table([["", "count"], *proof.counts.items()])
    parts = [f"## {proof.title}", proof.text, f"    {proof.command}", f"Ran {ran}.", counts, *map(table, proof.tables)]
    return "\n\n".join(parts) + "\n"


def table(rows: Sequence[Sequence[object]]) -> str:
    """Rows in Markdown, numbers grouped by thousands."""
    header, *rest = [[f"{cell:,}" if isinstance(cell, int) else str(cell) for cell in row] for row in rows]
    rule = ["---", *["---:"] * (len(header) - 1)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (header, rule, *rest))


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(), encoding="utf-8")
    sys.stdout.write(page())
