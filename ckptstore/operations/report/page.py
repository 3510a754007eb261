"""The page of a store: how it is and what to type first, then why."""

from datetime import datetime
from string import Template

from ckptstore.operations.health import VerifyReport
from ckptstore.operations.pages import command, frame, resource, sentence, tag, text
from ckptstore.operations.report.content import RunPart, StoreReport
from ckptstore.operations.report.drill_history import drill_section
from ckptstore.operations.report.grid import heat_map, legend
from ckptstore.operations.report.growth import growth_section
from ckptstore.operations.report.margin import margin_section
from ckptstore.redaction import redacted
from ckptstore.wording import time_text

STATES = {code: state for state, code in VerifyReport.CODES.items()}
"""The word of each exit code; another is an error."""

__all__ = ["page"]


def page(report: StoreReport) -> bytes:
    """The page, as UTF-8. What quotes a client's words is told without what may be a secret in them."""
    missed = bool(report.late) or any(report.misses(row) for part in report.runs for row in part.live)
    tone = "fail" if report.exit_code not in {0, 3, 5, 11} else "odd" if report.exit_code or missed else "pass"
    drills = [step.do for part in report.runs for step in part.next if step.do.startswith("ckpt drill ")]
    main = Template(resource(__package__, "page.html")).substitute(
        tone=tone,
        verdict=sentence(report.verdict),
        runs="\n".join(_run(part) for part in report.runs) or '<p class="faint">No run was ever saved here.</p>',
        legend=legend(report),
        maps="\n".join(_map(part, report) for part in report.runs if not part.error),
        margin=margin_section(report),
        growth=growth_section(report),
        drills=drill_section(report.drills, drills),
    )
    return frame(
        f"Store {report.store}",
        about=report.verdict,
        when=f"{datetime.fromisoformat(report.made):%Y-%m-%d %H:%M} UTC, looked at in {time_text(report.seconds)}",
        main=redacted(main),
        style=resource(__package__, "page.css"),
    )


def _run(part: RunPart) -> str:
    word = STATES.get(part.code, "error")
    steps = "".join(
        f'<li>{command(step.do)}<span class="faint"> {sentence(step.why)}.</span></li>' for step in part.next
    )
    todo = f"<ol>{steps}</ol>" if steps else '<p class="faint">Nothing to do.</p>'
    error = f'<p class="note fail">{text(part.error)}</p>' if part.error else ""
    heading = f"<h3>Run {text(part.run)} {tag(word, 'fail' if word == 'error' else word)}</h3>"
    return f'<section class="next">{heading}<p>{sentence(part.verdict)}.</p>{error}{todo}</section>'


def _map(part: RunPart, report: StoreReport) -> str:
    heading = f"<h3>Run {text(part.run)}</h3>" if len(report.runs) > 1 else ""
    return f"{heading}{heat_map(part, report)}"
