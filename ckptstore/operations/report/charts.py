"""A line chart over time as inline SVG. Only lines are stretched to the width of the page; all words are HTML beside.

The plot's own units are per cent of its width and height; strokes keep their width (`vector-effect`), and a dot is a
line of no length with a round end.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from ckptstore.operations.pages import text

FEW = 60
"""Points up to which each is a dot."""

STEPS = (1, 1.5, 2, 3, 4, 5, 6, 8, 10)
"""Where an axis may end, times a power of ten: its half can be read too."""

__all__ = ["Line", "line_chart"]


@dataclass(frozen=True)
class Line:
    """One line: its name, its class (that of its colour) and its points. `stepped`: a value stays until the next."""

    name: str
    kind: str
    points: Sequence[tuple[datetime, float]]
    stepped: bool = False


def line_chart(label: str, lines: Sequence[Line], words: Callable[[float], str], unit: float = 1.0) -> str:
    """`words` puts a value with its unit; the axis ends at a round number of `unit`."""
    times = [when for line in lines for when, _ in line.points]
    first, last = min(times), max(times)
    top = _round_up(max((value for line in lines for _, value in line.points), default=0.0), unit)
    span = (last - first).total_seconds()

    def place(when: datetime, value: float) -> tuple[float, float]:
        across = 100 * (when - first).total_seconds() / span if span else 50.0
        return across, 100 - 100 * value / top

    drawn = "".join(_drawn(line, [place(*point) for point in line.points]) for line in lines)
    guides = "".join(f'<line class="guide" x1="0" x2="100" y1="{y}" y2="{y}"/>' for y in (0, 50, 100))
    scale = "".join(f"<span>{text(words(top * part))}</span>" for part in (1, 0.5, 0))
    dates = [_day(first, span), _day(last, span)] if span else [_day(first, span)]
    legend = "".join(f'<li class="{line.kind}">{text(line.name)}</li>' for line in lines)
    return (
        f'<figure class="chart"><ul class="legend">{legend}</ul><div class="plot">'
        f'<div class="scale" aria-hidden="true">{scale}</div>'
        f'<svg viewBox="0 0 100 100" preserveAspectRatio="none" role="img" aria-label="{text(label)}">'
        f"{guides}{drawn}</svg>"
        f'<div class="dates" aria-hidden="true">{"".join(f"<span>{text(day)}</span>" for day in dates)}</div>'
        f"</div><figcaption>{text(label)}</figcaption></figure>"
    )


def _drawn(line: Line, spots: Sequence[tuple[float, float]]) -> str:
    path: list[tuple[float, float]] = []
    for across, up in spots:
        if line.stepped and path:
            path.append((across, path[-1][1]))
        path.append((across, up))
    joined = " ".join(f"{x:.2f},{y:.2f}" for x, y in path)
    dots = "".join(f'<line class="dot" x1="{x:.2f}" x2="{x:.2f}" y1="{y:.2f}" y2="{y:.2f}"/>' for x, y in spots[:FEW])
    return f'<g class="{line.kind}"><polyline points="{joined}"/>{dots if len(spots) <= FEW else ""}</g>'


def _day(when: datetime, span: float) -> str:
    """The date; with the time where the whole chart is a few days."""
    return f"{when:%Y-%m-%d %H:%M}" if span < 3 * 86400 else f"{when:%Y-%m-%d}"


def _round_up(value: float, unit: float) -> float:
    if not value > 0 or not math.isfinite(value):
        return unit
    power = 10.0 ** math.floor(math.log10(value / unit))
    return next(step * power * unit for step in STEPS if step * power * unit >= value * (1 - 1e-9))
