"""The sections below the heat map: margin, growth and cost, drills. Every chart has its numbers as a table."""

from collections.abc import Iterator, Sequence
from datetime import datetime

from ckptstore.operations.drill.report import DrillReport
from ckptstore.operations.drill.words import against_prediction, size_text, time_text, verdict_text, what_was_done
from ckptstore.operations.pages import bars, command, sentence, table, tag, text
from ckptstore.operations.report.charts import Line, line_chart
from ckptstore.operations.report.content import Costs, Drills, Row, StoreReport
from ckptstore.planning.cost import Prices

CENT = 0.01

__all__ = ["drill_section", "growth_section", "margin_section"]


# -- margin ----------------------------------------


def margin_section(report: StoreReport) -> str:
    """How much more each checkpoint survives, beside what is promised."""
    rows = [row for part in report.runs for row in reversed(part.live)]
    notes = "".join(f'<p class="note fail">{sentence(told)}.</p>' for told in report.beyond_layout)
    if not rows:
        return f'{notes}<p class="faint">No checkpoint to tell of.</p>'
    targets, domains = report.wanted
    headings = [
        ("run", ""),
        ("checkpoint", ""),
        ("more targets", "number"),
        ("more domains", "number"),
        ("promised", ""),
    ]
    told = (
        f"Promised in store.toml: {_promise(targets, 'target')}, {_promise(domains, 'domain')}."
        if report.wanted != (None, None)
        else "store.toml has no [objectives] survive or survive_domains, so nothing is promised."
    )
    lost = "A checkpoint with 0 still loads, and does not survive the next loss."
    return (
        f"{notes}<p>{text(told)} {lost}</p>{table(headings, [_margin(row, report) for row in rows])}{_newest(report)}"
    )


def _promise(wanted: int | None, what: str) -> str:
    return f"no number of {what}s" if wanted is None else f"any {wanted} {what}{'s' * (wanted != 1)}"


def _margin(row: Row, report: StoreReport) -> list[str]:
    known = row.tolerance.targets >= 0
    numbers = [str(max(count, 0)) if known else "none: it does not load" for count in row.tolerance]
    if row.state in {"unknown", "changed"}:
        numbers = ["not known"] * 2
    if report.wanted == (None, None):
        kept = tag("nothing promised", "")
    else:
        kept = tag("less than promised", "fail") if report.misses(row) else tag("kept", "pass")
    return [text(row.run), text(row.name), *numbers, kept]


def _newest(report: StoreReport) -> str:
    """How old the newest that loads is, beside the rpo."""
    lines = []
    for run, age in report.ages.items():
        told = f"The newest checkpoint of {run} that loads is {time_text(age)} old"
        late = report.rpo is not None and age > report.rpo
        told += f"; no more than {time_text(report.rpo)} is promised (rpo)" if report.rpo is not None else ""
        lines.append(f"<p{' class=' + chr(34) + 'note fail' + chr(34) if late else ''}>{text(told)}.</p>")
    return "".join(lines)


# -- growth and cost ----------------------------------------


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
    chart = line_chart("Bytes of what is there now, by the time it was saved", lines, size_text, _unit(stored))
    headings = [
        ("saved", ""),
        ("run", ""),
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
            size_text(row.bytes),
            size_text(row.stored or 0),
            size_text(total),
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
                when = datetime.fromisoformat(row.created).astimezone(None)
            except (ValueError, OverflowError):
                continue
            if row.stored is not None:
                found.append((when, row))
    return sorted(found, key=lambda pair: pair[0])


def _named(row: Row) -> str:
    return f"{row.name} (deleted)" if row.deleted else row.name


def _unit(count: float) -> float:
    unit = 1
    while count >= 1000 * unit:
        unit *= 1024
    return unit


def _costs(costs: Costs) -> str:
    facts = [
        ("stored", f"{size_text(costs.stored)} for {size_text(costs.logical)} of state"),
        ("overhead", f"{costs.overhead:.2f} times the state" if costs.overhead else ""),
        ("cost", f"{_dollars(costs.monthly)} a month at ${costs.price:g} a GB and month (--price gives another)"),
        ("of that deleted", f"{size_text(costs.deleted)}, until a prune removes it" if costs.deleted else ""),
        ("one restore", _restore_text(costs)),
    ]
    listed = "".join(f"<dt>{text(what)}</dt><dd>{text(fact)}</dd>" for what, fact in facts if fact)
    return f"<dl>{listed}</dl>"


def _restore_text(costs: Costs) -> str:
    if costs.restore is None:
        return ""
    prices = Prices()
    at = f"${prices.gets:g} for a thousand GETs and ${prices.transfer:g} for a GB across regions"
    return f"{_dollars(costs.restore)} for the largest checkpoint, at {at}; a domain is taken for a region"


def _dollars(amount: float) -> str:
    return f"${amount:,.2f}" if amount >= CENT or not amount else f"${amount:.2g}"


def _uncounted(report: StoreReport) -> str:
    missing = sum(row.stored is None for part in report.runs for row in part.rows)
    told = f"{missing} checkpoint{'s' * (missing != 1)} not counted: not every record can be read."
    return f'<p class="faint">{told}</p>' if missing else ""


# -- drills ----------------------------------------


def drill_section(drills: Drills, steps: Sequence[str]) -> str:
    """Earlier drills; `steps`: the commands that would do one."""
    skipped = _skipped(drills)
    if not drills.found:
        why = (
            f"{drills.folder} holds no drill of these runs"
            if drills.folder
            else "no folder of drills was given (--reports)"
        )
        typed = "".join(f"<p>{command(step)}</p>" for step in steps)
        told = f"<strong>No drill was ever done</strong>, as far as is known here: {text(why)}."
        what = "A drill restores a checkpoint with targets taken away, and changes nothing."
        return f"<p>{told} {what}{' Type:' if typed else ''}</p>{typed}{skipped}"
    return f"{_drill_chart(drills.found)}{_drill_table(drills.found)}{skipped}"


def _drill_chart(found: Sequence[DrillReport]) -> str:
    times = [(datetime.fromisoformat(drill.began), *slowest(drill)) for drill in found]
    taken = [(when, seconds) for when, seconds, _ in times if seconds]
    predicted = [(when, seconds) for when, _, seconds in times if seconds]
    lines = [Line("measured", "first", taken), Line("predicted", "second", predicted)]
    lines = [line for line in lines if line.points]
    return line_chart("Seconds that the slowest restore of each drill took", lines, time_text) if lines else ""


def slowest(drill: DrillReport) -> tuple[float, float | None]:
    """Seconds of the slowest restore that came back, and those predicted for it."""
    back = [result for result in drill.results if result.state == "restored"]
    worst = max(back, key=lambda result: result.seconds, default=None)
    return (max(worst.seconds, 0.0), worst.predicted) if worst else (0.0, None)


def _drill_table(found: Sequence[DrillReport]) -> str:
    headings = [
        ("date", ""),
        ("run", ""),
        ("what was done", ""),
        ("came out", ""),
        ("objectives", ""),
        ("slowest took", "number"),
    ]
    headings += [("predicted", "number"), ("took over predicted", "bars")]
    longest = max(max(seconds, predicted or 0.0) for seconds, predicted in map(slowest, found))
    return table(headings, _drill_rows(found, longest))


def _drill_rows(found: Sequence[DrillReport], longest: float) -> Iterator[list[str]]:
    for drill in reversed(found):
        seconds, predicted = slowest(drill)
        objectives = " ".join(tag(f"{each.objective}: {each.verdict}", each.verdict) for each in drill.verdicts)
        verdict = verdict_text(drill)
        yield [
            text(f"{datetime.fromisoformat(drill.began):%Y-%m-%d %H:%M}"),
            text(drill.run),
            "<br>".join(text(what_was_done(each.faults)) for each in drill.rounds),
            f"<div>{tag(*_outcome(drill))} {text(verdict.partition(': ')[2] or verdict)}</div>",
            f"<div>{objectives or 'none set'}</div>",
            time_text(seconds) if seconds else "",
            "" if predicted is None else time_text(predicted),
            bars(seconds, predicted, longest, against_prediction(seconds, predicted)),
        ]


def _outcome(drill: DrillReport) -> tuple[str, str]:
    word = verdict_text(drill).partition(":")[0]
    return word, {"passed": "pass", "failed": "fail"}.get(word, "unknown")


def _skipped(drills: Drills) -> str:
    if not drills.skipped:
        return ""
    items = "".join(f"<li><code>{text(name)}</code>: {text(why)}</li>" for name, why in drills.skipped.items())
    count = len(drills.skipped)
    return f"<details><summary>{count} file{'s' * (count != 1)} skipped</summary><ul>{items}</ul></details>"
