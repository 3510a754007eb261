"""How much more may be lost, beside what is promised."""

from ckptstore.operations.pages import table, tag, text
from ckptstore.operations.report.content import Row, StoreReport
from ckptstore.wording import count, time_text

__all__ = ["margin_section"]


def margin_section(report: StoreReport) -> str:
    """How much more each checkpoint survives, beside what is promised."""
    rows = [row for part in report.runs for row in reversed(part.live)]
    notes = "".join(f'<p class="note fail">{text(told)}.</p>' for told in report.beyond_layout)
    if not rows:
        return f'{notes}<p class="faint">No checkpoint to tell of.</p>'
    targets, domains = report.wanted
    headings = [
        ("run", "short"),
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
    return f"no number of {what}s" if wanted is None else f"any {count(wanted, what)}"


def _margin(row: Row, report: StoreReport) -> list[str]:
    known = row.tolerance.targets >= 0
    numbers = [str(max(losses, 0)) if known else "none: it does not load" for losses in row.tolerance]
    if not row.known:
        numbers, kept = ["not known"] * 2, tag("not known", "unknown")
    elif report.wanted == (None, None):
        kept = tag("nothing promised", "")
    else:
        kept = tag("less than promised", "fail") if report.misses(row) else tag("kept", "pass")
    return [text(row.run), text(row.name), *numbers, kept]


def _newest(report: StoreReport) -> str:
    """How old the newest that loads is, beside the rpo."""
    lines = []
    for run, age in report.ages.items():
        told = f"The newest checkpoint of {run} that loads is {time_text(age)} old"
        told += f"; no more than {time_text(report.rpo)} is promised (rpo)" if report.rpo is not None else ""
        lines.append(f'<p class="{"note fail" if run in report.late else ""}">{text(told)}.</p>')
    return "".join(lines)
