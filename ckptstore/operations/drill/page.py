"""One page for people, complete in itself: nothing is fetched from anywhere, no script runs. Every value is escaped."""

import html
from collections.abc import Iterable, Sequence
from importlib.resources import files
from string import Template

from ckptstore.operations.drill.faults import Faults
from ckptstore.operations.drill.report import DIGEST, LOST, OBJECTIVE_MISSED, DrilledRound, DrillReport, Restored
from ckptstore.operations.drill.words import (
    STATES,
    against_prediction,
    how_predicted,
    size_text,
    time_text,
    title,
    verdict_text,
    what_was_done,
)

TONES = {
    "pass": "pass",
    "restored": "pass",
    "fail": "fail",
    "lost": "fail",
    "unknown": "odd",
    "untested": "odd",
    "changed": "odd",
}
"""The colours of verdicts and states; the words stand beside them always."""

__all__ = ["page"]


def page(report: DrillReport) -> bytes:
    """The page of a drill, as UTF-8."""
    template = Template(files(__package__).joinpath("page.html").read_text(encoding="utf-8"))
    tone = "pass" if not report.exit_code else "odd" if report.exit_code not in (LOST, OBJECTIVE_MISSED) else "fail"
    heading = f"Drill of run {report.run}, store {report.store}"
    verdict = verdict_text(report)
    filled = template.substitute(
        title=_text(f"{heading}: {verdict.partition(':')[0]}"),
        heading=_text(heading),
        when=_text(f"{report.began}, in {time_text(report.seconds)}"),
        tone=tone,
        verdict=_text(f"{verdict[0].upper()}{verdict[1:]}"),
        next=f"<code>{_text(report.next)}</code>" if report.next.startswith("ckpt ") else _text(report.next),
        objectives=_objectives(report),
        rounds="\n".join(_round(number, each, report) for number, each in enumerate(report.rounds, 1)),
        facts="\n".join(f"<dt>{_text(what)}</dt><dd>{_text(fact)}</dd>" for what, fact in _facts(report)),
    )
    return filled.encode("utf-8", "backslashreplace")


def _text(value: object) -> str:
    return html.escape(str(value))


def _tag(word: str, tone: str) -> str:
    return f'<span class="tag {TONES.get(tone, "plain")}">{_text(word)}</span>'


def _table(headings: Sequence[tuple[str, str]], rows: Iterable[Sequence[str]]) -> str:
    """Of cells that are HTML already; (heading, class) of each column. On a phone each cell tells its heading."""
    head = "".join(f'<th scope="col" class="{kind}">{_text(text)}</th>' for text, kind in headings)
    body = "\n".join(
        "<tr>"
        + "".join(
            f'<td class="{kind}" data-label="{_text(text)}">{cell}</td>'
            for (text, kind), cell in zip(headings, row, strict=True)
        )
        + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody></table>"


def _objectives(report: DrillReport) -> str:
    notes = "".join(f'<p class="fail">{_text(told)}</p>' for told in report.beyond_layout)
    if not report.verdicts:
        return f'{notes}<p class="faint">store.toml has no [objectives]: nothing is promised.</p>'
    rows = [
        [_text(each.objective), _text(each.wanted), _text(each.found), _tag(each.verdict, each.verdict)]
        for each in report.verdicts
    ]
    return notes + _table([("objective", ""), ("wanted", ""), ("found", ""), ("verdict", "")], rows)


def _round(number: int, each: DrilledRound, report: DrillReport) -> str:
    longest = max((max(r.seconds, r.predicted or 0.0) for r in each.results), default=0.0)
    heading = title(number, each) if each.name else f"round {number}"
    headings = [
        ("checkpoint", ""),
        ("state", ""),
        ("restored", "number"),
        ("digests compared", "number"),
        ("read / predicted", "number"),
        ("took", "number"),
        ("predicted", "number"),
        ("took over predicted", "bars"),
    ]
    return "\n".join(
        [
            f"<h2>{_text(heading[0].upper() + heading[1:])}</h2>",
            f"<p>{_text(what_was_done(each.faults))}</p>",
            _chips(each.faults, report),
            _table(headings, [_result(result, longest) for result in each.results]),
            *(
                f'<p class="faint">{_text(result.name)}: {_text(result.message)}</p>'
                for result in each.results
                if result.message
            ),
        ]
    )


def _chips(faults: Faults, report: DrillReport) -> str:
    """What became of each target that something was done to, or that was gone before."""
    found = [(name, "lost", "fail") for name in faults.lost]
    found += [(name, "empty", "fail") for name in faults.empty]
    found += [(name, "corrupt", "fail") for name in faults.corrupt]
    found += [(name, "slow", "unknown") for name in faults.slow]
    found += [(name, "throttled", "unknown") for name in faults.throttle]
    found += [(name, "out of reach before the drill", "unknown") for name in report.out_of_reach]
    items = "".join(f'<li class="{TONES[tone]}">{_text(name)}: {_text(word)}</li>' for name, word, tone in found)
    return f'<ul class="chips">{items}</ul>' if items else ""


def _result(result: Restored, longest: float) -> list[str]:
    bars = "".join(
        f'<div class="bar {kind}" style="width:{100 * seconds / longest:.1f}%"></div>'
        for kind, seconds in (("", result.seconds), ("before", result.predicted or 0.0))
        if longest and seconds
    )
    ratio = against_prediction(result.seconds, result.predicted) if result.state == "restored" else ""
    return [
        _text(result.name),
        _tag(STATES[result.state], result.state),
        _text(size_text(result.bytes)),
        _text(f"{result.blocks:,}"),
        _text(f"{size_text(result.read)} / {size_text(result.predicted_read)}"),
        _text(time_text(result.seconds)),
        _text("" if result.predicted is None else time_text(result.predicted)),
        f"<div>{bars}{_text(ratio)}</div>",
    ]


def _facts(report: DrillReport) -> list[tuple[str, str]]:
    sample = (
        "all bytes" if report.sample >= 1 else f"a sample of {report.sample:.3g} of the bytes; whole times are scaled"
    )
    facts = [
        ("restored", f"{sample}, by one process on one machine"),
        ("compared with", DIGEST),
        ("times predicted", how_predicted(report.prediction)),
        ("seed", report.seed),
        ("code of the store", report.code),
        ("survives by its records", _survives(report)),
        ("changed in the store", "nothing: it was opened a second time, read only, with targets made to fail"),
        ("what a lost target is", "one that refuses at once; one that stays silent costs a time-out more"),
    ]
    if report.out_of_reach:
        told = "; ".join(f"{name}: {reason}" for name, reason in report.out_of_reach.items())
        facts.insert(0, ("out of reach before the drill", told))
    return [(what, fact) for what, fact in facts if fact]


def _survives(report: DrillReport) -> str:
    least = sorted({(each.targets, each.domains) for each in report.survive.values()})
    return f"{least[0][0]} targets, {least[0][1]} domains" if least else ""
