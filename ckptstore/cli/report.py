"""`ckpt report`: one page on a whole store, for whoever runs it."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ckptstore.cli.call import Call
from ckptstore.cli.ls import AllRuns
from ckptstore.cli.typed import as_typed
from ckptstore.cli.verify import ReadData
from ckptstore.cli.wording import count, joined, survival

if TYPE_CHECKING:
    from ckptstore.operations.report import Row, StoreReport

Out = Annotated[
    Path | None,
    typer.Option(
        "--out", metavar="FILE", help="Where the page goes; report.html, or nowhere with --json.", show_default=False
    ),
]
Reports = Annotated[
    Path | None,
    typer.Option("--reports", metavar="DIR", help="Where `ckpt drill --report-dir` writes.", show_default=False),
]
Price = Annotated[
    float | None,
    typer.Option(
        "--price",
        metavar="USD",
        help="Of a GB stored for a month; else as [prices] says, or 0.023.",
        show_default=False,
    ),
]
PAGE = Path("report.html")
OPTIONS = {"out": "--out", "reports": "--reports", "price": "--price"}

__all__ = ["report"]


def report(
    call: Call,
    out: Out = None,
    reports: Reports = None,
    all_runs: AllRuns = False,
    read_data: ReadData = False,
    price: Price = None,
) -> int:
    """Write one HTML page: every checkpoint on every target, the margin left, cost, drills, and what to do next.

    Looks as `ckpt verify` does, and exits as it does, with the worst of all runs. The page is complete in itself, no
    script runs in it, and it takes the place of an older one at once. With --json the same is told as one document.
    """
    from ckptstore.operations.report import report as look

    call.check_run()
    page = out or (None if call.output.as_json else PAGE)
    with as_typed(OPTIONS), call.watching() as observer:
        found = look(
            call.config,
            None if all_runs else call.run,
            page,
            reports=reports,
            read_data=read_data,
            price=price,
            settings=os.path.abspath(call.path),  # noqa: PTH100 - a link stays as it was typed
            observer=observer,
        )
    return _tell(call, found, page)


def _tell(call: Call, found: "StoreReport", page: Path | None) -> int:
    from ckptstore.operations.report.content import FORMAT
    from ckptstore.prices import dollars

    rows = [row for part in found.runs for row in part.live]
    headings = ["run", "checkpoint", "state", "tolerance", "targets amiss"]
    if rows:
        call.output.table(headings, [_cells(row) for row in rows], right=headings[4:])
    monthly = found.costs.monthly
    cost = f"cost unknown, prices missing: {joined(found.costs.missing)}"
    cost = cost if monthly is None else f"{dollars(monthly)} a month"
    call.output.say(f"{found.verdict}; {count(len(found.drills.found), 'drill')} on record, {cost}")
    for name, why in found.drills.skipped.items():
        call.output.note(f"skipped {name}: {why}")
    for part in found.runs:
        for step in part.next:
            call.output.note(f"next: {step.do}  ({step.why})")
    if page is not None:
        call.output.note(f"wrote {page}")
    fields = {**vars(found), "overhead": found.costs.overhead, "monthly": found.costs.monthly}
    return call.output.summary(found.exit_code, format=FORMAT, page=page, **fields)


def _cells(row: "Row") -> list[str]:
    survived = survival(*row.tolerance) if row.tolerance.targets >= 0 else ""
    amiss = sum(cell.state not in {"good", "nothing"} for cell in row.cells)
    return [row.run, row.name, row.state, survived, str(amiss)]
