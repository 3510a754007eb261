"""What is stored, since when, and what a month of it costs; the chart's numbers as a table too."""

from datetime import UTC, datetime

from ckptstore.operations.pages import table, text
from ckptstore.operations.report.charts import Line, line_chart
from ckptstore.operations.report.content import Costs, Row, StoreReport
from ckptstore.operations.report.costs import dollars
from ckptstore.planning.cost import Prices
from ckptstore.wording import count, size

__all__ = ["growth_section"]


def growth_section(report: StoreReport) -> str:
    """What is stored by the time that it was saved, and what a month of it costs."""
    rows = _by_time(report)
    if not rows:
        return '<p class="faint">Nothing is stored yet, or no record of it can be read.</p>'
    points, stored, logical = [], 0, 0
    for when, row in rows:
        stored, logical = stored + (row.stored or 0), logical + row.bytes
        points.append((when, stored, logical))
    lines = [
        Line("stored on all targets", "first", [(when, stored) for when, stored, _ in points], stepped=True),
        Line("state saved", "second", [(when, logical) for when, _, logical in points], stepped=True),
    ]
    chart = line_chart("Bytes of what is there now, by the time it was saved", lines, size, _unit(stored))
    headings = [
        ("saved (UTC)", "short"),
        ("run", "short"),
        ("checkpoint", ""),
        ("state", "number"),
        ("stored", "number"),
        ("all stored", "number"),
    ]
    cells = [
        [
            text(f"{when:%Y-%m-%d %H:%M}"),
            text(row.run),
            text(_named(row)),
            size(row.bytes),
            size(row.stored or 0),
            size(total),
        ]
        for (when, row), (_, total, _) in zip(rows, points, strict=True)
    ]
    fold = f"<details><summary>The same as a table</summary>{table(headings, cells)}</details>"
    return f"{chart}{fold}{_costs(report.costs)}{_uncounted(report)}"


def _by_time(report: StoreReport) -> list[tuple[datetime, Row]]:
    found = []
    for part in report.runs:
        for row in part.rows:
            try:
                when = datetime.fromisoformat(row.created).astimezone(UTC)
            except (ValueError, OverflowError):
                continue
            if row.stored is not None:
                found.append((when, row))
    return sorted(found, key=lambda pair: pair[0])


def _named(row: Row) -> str:
    return f"{row.name} (deleted)" if row.deleted else row.name


def _unit(nbytes: float) -> float:
    unit = 1
    while nbytes >= 1000 * unit:
        unit *= 1024
    return unit


def _costs(costs: Costs) -> str:
    facts = [
        ("stored", f"{size(costs.stored)} for {size(costs.logical)} of state"),
        ("overhead", f"{costs.overhead:.2f} times the state" if costs.overhead else ""),
        ("cost", f"{dollars(costs.monthly)} a month at ${costs.price:g} a GB and month (--price gives another)"),
        ("of that deleted", f"{size(costs.deleted)}, until a prune removes it" if costs.deleted else ""),
        ("one restore", _restore_text(costs)),
    ]
    listed = "".join(f"<dt>{text(what)}</dt><dd>{text(fact)}</dd>" for what, fact in facts if fact)
    return f"<dl>{listed}</dl>"


def _restore_text(costs: Costs) -> str:
    if costs.restore is None:
        return ""
    prices = Prices()
    at = f"${prices.gets:g} for a thousand GETs and ${prices.transfer:g} for a GB across regions"
    return f"{dollars(costs.restore)} for the largest checkpoint, at {at}; a domain is taken for a region"


def _uncounted(report: StoreReport) -> str:
    missing = sum(row.stored is None for part in report.runs for row in part.rows)
    told = f"{count(missing, 'checkpoint')} not counted: not every record can be read."
    return f'<p class="faint">{told}</p>' if missing else ""
