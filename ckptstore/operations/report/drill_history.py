"""Earlier drills: what was lost, what came of it, and how long it took beside what was predicted."""

from collections.abc import Sequence
from datetime import UTC, datetime

from ckptstore.operations.drill.report import DrillReport
from ckptstore.operations.drill.words import against_prediction, verdict_text, what_was_done
from ckptstore.operations.pages import bars, command, table, tag, text
from ckptstore.operations.report.charts import Line, line_chart
from ckptstore.operations.report.content import Drills
from ckptstore.wording import count, time_text

__all__ = ["drill_section"]


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
    times = [(datetime.fromisoformat(drill.began).astimezone(UTC), *slowest(drill)) for drill in found]
    taken = [(when, seconds) for when, seconds, _ in times if seconds]
    predicted = [(when, seconds) for when, _, seconds in times if seconds]
    lines = [Line("measured", "first", taken), Line("predicted", "before", predicted)]
    lines = [line for line in lines if line.points]
    return line_chart("Seconds that the slowest restore of each drill took", lines, time_text) if lines else ""


def slowest(drill: DrillReport) -> tuple[float, float | None]:
    """Seconds of the slowest restore that came back, and those predicted for it."""
    back = [result for result in drill.results if result.state == "restored"]
    worst = max(back, key=lambda result: result.seconds, default=None)
    return (max(worst.seconds, 0.0), worst.predicted) if worst else (0.0, None)


def _drill_table(found: Sequence[DrillReport]) -> str:
    headings = [("when (UTC)", "short"), ("what was done", "wide"), ("came out", "wide"), ("objectives", "")]
    headings.append(("slowest took, predicted", "bars"))
    longest = max(max(seconds, predicted or 0.0) for seconds, predicted in map(slowest, found))
    return table(headings, [_drill_row(drill, longest) for drill in reversed(found)])


def _drill_row(drill: DrillReport, longest: float) -> list[str]:
    seconds, predicted = slowest(drill)
    objectives = " ".join(tag(f"{each.objective}: {each.verdict}", each.verdict) for each in drill.verdicts)
    verdict = verdict_text(drill)
    when = f"{datetime.fromisoformat(drill.began).astimezone(UTC):%Y-%m-%d %H:%M}"
    told = f"{time_text(seconds)}, {time_text(predicted)}" if predicted is not None else time_text(seconds)
    ratio = against_prediction(seconds, predicted)
    return [
        f'<div>{text(when)}<br><span class="faint">{text(drill.run)}</span></div>',
        f"<div>{'<br>'.join(text(what_was_done(each.faults)) for each in drill.rounds)}</div>",
        f"<div>{tag(*_outcome(drill))} {text(verdict.partition(': ')[2] or verdict)}</div>",
        f"<div>{objectives or 'none set'}</div>",
        bars(seconds, predicted, longest, f"{told}{f' ({ratio})' if ratio else ''}") if seconds else "",
    ]


def _outcome(drill: DrillReport) -> tuple[str, str]:
    word = verdict_text(drill).partition(":")[0]
    return word, {"passed": "pass", "failed": "fail"}.get(word, "unknown")


def _skipped(drills: Drills) -> str:
    if not drills.skipped:
        return ""
    items = "".join(f"<li><code>{text(name)}</code>: {text(why)}</li>" for name, why in drills.skipped.items())
    return f"<details><summary>{count(len(drills.skipped), 'file')} skipped</summary><ul>{items}</ul></details>"
