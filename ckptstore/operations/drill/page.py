"""One page for people of one drill."""

from string import Template

from ckptstore.operations.drill.faults import Faults
from ckptstore.operations.drill.report import DIGEST, LOST, OBJECTIVE_MISSED, DrilledRound, DrillReport, Restored
from ckptstore.operations.drill.words import (
    STATES,
    against_prediction,
    how_predicted,
    title,
    verdict_text,
    what_was_done,
)
from ckptstore.operations.pages import TONES, bars, command, frame, resource, sentence, table, tag, text
from ckptstore.tolerance import weakest
from ckptstore.wording import size, time_text

__all__ = ["page"]


def page(report: DrillReport) -> bytes:
    """The page of a drill, as UTF-8."""
    tone = "pass" if not report.exit_code else "odd" if report.exit_code not in (LOST, OBJECTIVE_MISSED) else "fail"
    verdict = verdict_text(report)
    main = Template(resource(__package__, "page.html")).substitute(
        tone=tone,
        verdict=sentence(verdict),
        next=command(report.next),
        objectives=_objectives(report),
        rounds="\n".join(_round(number, each, report) for number, each in enumerate(report.rounds, 1)),
        facts="\n".join(f"<dt>{text(what)}</dt><dd>{text(fact)}</dd>" for what, fact in _facts(report)),
    )
    return frame(
        f"Drill of run {report.run}, store {report.store}",
        about=verdict.partition(":")[0],
        when=f"{report.began}, in {time_text(report.seconds)}",
        main=main,
    )


def _objectives(report: DrillReport) -> str:
    notes = "".join(f'<p class="fail">{text(told)}</p>' for told in report.beyond_layout)
    if not report.verdicts:
        return f'{notes}<p class="faint">store.toml has no [objectives]: nothing is promised.</p>'
    rows = [
        [text(each.objective), text(each.wanted), text(each.found), tag(each.verdict, each.verdict)]
        for each in report.verdicts
    ]
    return notes + table([("objective", ""), ("wanted", ""), ("found", ""), ("verdict", "")], rows)


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
            f"<h2>{sentence(heading)}</h2>",
            f"<p>{text(what_was_done(each.faults))}</p>",
            _chips(each.faults, report),
            table(headings, [_result(result, longest) for result in each.results]),
            *(
                f'<p class="faint">{text(result.name)}: {text(result.message)}</p>'
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
    items = "".join(f'<li class="{TONES[tone]}">{text(name)}: {text(word)}</li>' for name, word, tone in found)
    return f'<ul class="chips">{items}</ul>' if items else ""


def _result(result: Restored, longest: float) -> list[str]:
    ratio = against_prediction(result.seconds, result.predicted) if result.state == "restored" else ""
    return [
        text(result.name),
        tag(STATES[result.state], result.state),
        text(size(result.bytes)),
        text(f"{result.blocks:,}"),
        text(f"{size(result.read)} / {size(result.predicted_read)}"),
        text(time_text(result.seconds)),
        text("" if result.predicted is None else time_text(result.predicted)),
        bars(result.seconds, result.predicted, longest, ratio),
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
        ("survives by what is there", _survives(report)),
        ("changed in the store", "nothing: it was opened a second time, read only, with targets made to fail"),
        ("what a lost target is", "one that refuses at once; one that stays silent costs a time-out more"),
    ]
    if report.out_of_reach:
        told = "; ".join(f"{name}: {reason}" for name, reason in report.out_of_reach.items())
        facts.insert(0, ("out of reach before the drill", told))
    return [(what, fact) for what, fact in facts if fact]


def _survives(report: DrillReport) -> str:
    if not report.survive:
        return ""
    least = weakest(report.survive.values())
    return f"{least.targets} targets, {least.domains} domains"
