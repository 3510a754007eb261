"""docs/performance.md and its plots, of what is below `.bench/`."""

import os
import platform
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt

from benchmarks.sections import Bars, Line, Section, Table

PACKAGES = ("ckptstore", "torch", "obstore", "s3fs", "s3torchconnector", "torchsnapshot", "numpy", "pyeclib")

INTRODUCTION = """# Performance

What `make bench` measured the last time each part of it ran: ckptstore beside what a user would pick instead, on the
same bytes in the same run. Runs take turns in an order drawn anew for each of at least five rounds, after one that
isn't counted; figures are medians, CPU-seconds are user and system time of all ranks. Compare rows of one table: times
of different tables were taken at different times.
"""


def write(sections: Sequence[tuple[str, Section]], page: Path) -> None:
    """The page, and one PNG for each plot in a folder of its name."""
    folder = page.with_suffix("")
    folder.mkdir(exist_ok=True)
    parts = [INTRODUCTION, _machine(), _lines(line for _, section in sections for line in section.lines)]
    for name, section in sections:
        parts += [f"## {section.title}", section.text, f"    {section.command}", f"Ran {section.ran}."]
        parts += [_table(table) for table in section.tables]
        parts += [_lines(section.lines)] if section.lines else []
        parts += section.notes
        for number, bars in enumerate(section.bars):
            file = folder / f"{name}-{number}.png"
            _plot(bars, file)
            parts.append(f"![{bars.title}]({folder.name}/{file.name})")
    page.write_text("\n\n".join(parts).replace("\n\n\n", "\n\n") + "\n", encoding="utf-8")


def _machine() -> str:
    versions = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    cores = f"{os.cpu_count()} cores, {platform.system()} {platform.release().split('-')[0]} {platform.machine()}"
    return f"{cores}, Python {platform.python_version()}, {versions}. No GPU."


def _lines(lines: Iterable[Line]) -> str:
    rows = [["what", "measured", "to reach", ""]]
    for line in lines:
        sign = "≥" if line.at_least else "≤"
        verdict = "holds" if line.holds else "**not reached**"
        rows.append([line.text, f"{line.value:.3g}", f"{sign} {line.bound:.3g}", verdict])
    return _rows(rows)


def _table(table: Table) -> str:
    return f"**{table.title}**\n\n{_rows(table.rows)}"


def _rows(rows: Sequence[Sequence[str]]) -> str:
    head, *body = ["| " + " | ".join(row) + " |" for row in rows]
    rule = "| --- |" + " ---: |" * (len(rows[0]) - 1)
    return "\n".join([head, rule, *body])


def _plot(bars: Bars, file: Path) -> None:
    names = list(dict.fromkeys(name for group in bars.groups.values() for name in group))
    figure, axes = plt.subplots(figsize=(9, 0.28 * len(names) * len(bars.groups) + 1.4))
    height = 0.8 / len(names)
    for index, name in enumerate(names):
        places = [row + index * height for row, group in enumerate(bars.groups.values()) if name in group]
        values = [group[name] for group in bars.groups.values() if name in group]
        drawn = axes.barh(places, values, height * 0.92, label=name)
        axes.bar_label(drawn, fmt="%.3g", padding=2, fontsize=7)
    axes.set_yticks([row + 0.4 - height / 2 for row in range(len(bars.groups))], list(bars.groups))
    axes.invert_yaxis()
    axes.set_xlabel(bars.unit)
    axes.set_title(bars.title)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(fontsize=7, frameon=False)
    figure.tight_layout()
    figure.savefig(file, dpi=110)
    plt.close(figure)
