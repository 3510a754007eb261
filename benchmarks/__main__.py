"""`python -m benchmarks [NAME …]`: measure, each in a process of its own, then write docs/performance.md."""

import subprocess
import sys
from importlib import import_module
from pathlib import Path

from benchmarks.sections import Section, keep, kept

NAMES = ("directories", "s3", "stall", "tail", "reads", "memory", "scale")
PAGE = Path(__file__).parents[1] / "docs" / "performance.md"


def main(arguments: list[str]) -> int:
    """Exit status 1 where a line isn't reached."""
    if arguments[:1] == ["--one"]:
        keep(arguments[1], measured(arguments[1]))
        return 0
    unknown = set(arguments) - set(NAMES)
    if unknown:
        sys.exit(f"no such benchmark: {', '.join(sorted(unknown))}; there are {', '.join(NAMES)}")
    for name in arguments or NAMES:
        print(f"{name} …", flush=True)
        subprocess.run([sys.executable, "-m", "benchmarks", "--one", name], check=True)
    return report()


def measured(name: str) -> Section:
    """Run one benchmark here."""
    found = import_module(f"benchmarks.{name}").measure()
    assert isinstance(found, Section)
    return found


def report() -> int:
    """Write the page, print every line."""
    from benchmarks.report import write

    sections = list(kept(NAMES))
    write(sections, PAGE)
    lines = [line for _, section in sections for line in section.lines]
    for line in lines:
        sign = "at least" if line.at_least else "at most"
        print(f"{'holds' if line.holds else 'MISSED'}  {line.text}: {line.value:.3g}, {sign} {line.bound:.3g}")
    return 0 if all(line.holds for line in lines) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
