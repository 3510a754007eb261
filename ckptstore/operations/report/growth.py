"""What is stored, since when, and what a month of it costs; the chart's numbers as a table too."""

from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import accumulate

from ckptstore.operations.pages import table, text
from ckptstore.operations.report.charts import Line, line_chart
from ckptstore.operations.report.content import Costs, Row, StoreReport
from ckptstore.prices import dollars
from ckptstore.wording import count, size

HEADINGS = [
    ("saved (UTC)", "short"),
    ("run", "short"),
    ("checkpoint", ""),
    ("state", "number"),
    ("stored", "number"),
    ("all stored", "number"),
    ("all a month", "number"),
]

__all__ = ["growth_section"]


def growth_section(report: StoreReport) -> str:
    """What is stored by the time that it was saved, and what a month of it costs."""
    rows = _by_time(report)
    if not rows:
        return '<p class="faint">Nothing is stored yet, or no record of it can be read.</p>'
    times = [when for when, _ in rows]
    stored = _summed([row.stored or 0 for _, row in rows])
    monthly = _monthly(report.costs, [row for _, row in rows])
    lines = [
        Line("stored on all targets", "first", list(zip(times, stored, strict=True)), stepped=True),
        Line(
            "state saved",
            "second",
            list(zip(times, _summed([row.bytes for _, row in rows]), strict=True)),
            stepped=True,
        ),
    ]
    chart = line_chart("Bytes of what is there now, by the time it was saved", lines, size, _unit(stored[-1]))
    if monthly:
        line = Line("a month of it", "first", list(zip(times, monthly, strict=True)), stepped=True)
        chart += line_chart("Dollars a month for what is there now, by the time it was saved", [line], _axis)
    cells = [
        [
            text(f"{when:%Y-%m-%d %H:%M}"),
            text(row.run),
            text(_named(row)),
            size(row.bytes),
            size(row.stored or 0),
            size(stored[n]),
            dollars(monthly[n]) if monthly else "unknown",
        ]
        for n, (when, row) in enumerate(rows)
    ]
    fold = f"<details><summary>The same as a table</summary>{table(HEADINGS, cells)}</details>"
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


def _summed(values: Sequence[float]) -> list[float]:
    return list(accumulate(values))


def _monthly(costs: Costs, rows: Sequence[Row]) -> list[float]:
    """Dollars a month of each and all before it; empty where a price is missing."""
    each = [costs.of_month(row) for row in rows]
    known = [amount for amount in each if amount is not None]
    return _summed(known) if len(known) == len(each) else []


def _named(row: Row) -> str:
    return f"{row.name} (deleted)" if row.deleted else row.name


def _unit(nbytes: float) -> float:
    unit = 1
    while nbytes >= 1000 * unit:
        unit *= 1024
    return unit


def _axis(amount: float) -> str:
    return f"${amount:,.2f}" if amount >= 1 else f"${amount:.2g}"


def _costs(costs: Costs) -> str:
    facts = [
        ("stored", f"{size(costs.stored)} for {size(costs.logical)} of state"),
        ("overhead", f"{costs.overhead:.2f} times the state" if costs.overhead else ""),
        ("cost", _monthly_text(costs)),
        ("of that deleted", f"{size(costs.deleted)}, until a prune removes it" if costs.deleted else ""),
        ("one restore", "" if costs.restore is None else f"{dollars(costs.restore)} for the largest checkpoint"),
        ("prices", _prices_text(costs)),
    ]
    listed = "".join(f"<dt>{text(what)}</dt><dd>{text(fact)}</dd>" for what, fact in facts if fact)
    return f"<dl>{listed}</dl>"


def _monthly_text(costs: Costs) -> str:
    if costs.monthly is None:
        return "unknown, for a price is missing"
    at = "" if costs.price is None else f" at ${costs.price:g} a GB and month"
    return f"{dollars(costs.monthly)} a month{at}"


def _prices_text(costs: Costs) -> str:
    if costs.missing:
        return f"prices missing below [prices] in store.toml: {', '.join(costs.missing)}"
    if costs.listed:
        return "those of the list in docs/durability.md, for store.toml has no [prices]; a domain is taken for a region"
    return "those below [prices] in store.toml; --price gives another for what is stored"


def _uncounted(report: StoreReport) -> str:
    missing = sum(row.stored is None for part in report.runs for row in part.rows)
    told = f"{count(missing, 'checkpoint')} not counted: not every record can be read."
    return f'<p class="faint">{told}</p>' if missing else ""
