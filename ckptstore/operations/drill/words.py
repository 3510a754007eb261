"""What a drill found, in the words of the page and of the command."""

from ckptstore.operations.drill.faults import Faults
from ckptstore.operations.drill.report import LOST, OBJECTIVE_MISSED, UNKNOWN, DrilledRound, DrillReport, Prediction
from ckptstore.wording import joined, size, time_text

STATES = {
    "restored": "came back",
    "lost": "did NOT come back",
    "unknown": "unknown: targets out of reach decide",
    "changed": "changed meanwhile",
}

__all__ = [
    "STATES",
    "against_prediction",
    "how_predicted",
    "title",
    "verdict_text",
    "what_was_done",
]


def verdict_text(report: DrillReport) -> str:
    """All of it in one sentence."""
    back = sum(result.state == "restored" for result in report.results)
    counted = f"{back} of {len(report.results)} restores came back"
    missed = [each.objective for each in report.verdicts if each.verdict == "fail"]
    if report.exit_code == LOST:
        return f"failed: {counted}"
    if report.exit_code == UNKNOWN:
        return f"not decided: {counted}, and targets are out of reach without the drill's doing"
    if report.exit_code == OBJECTIVE_MISSED:
        return f"failed: {counted}, every digest as recorded, but {' and '.join(missed)} missed"
    if report.exit_code:
        return "nothing to say: all that was drilled was deleted or repaired meanwhile"
    return f"passed: {counted}, every digest as recorded"


def title(number: int, each: DrilledRound) -> str:
    """`Round 2: a region is gone`."""
    return f"round {number}: {each.name or what_was_done(each.faults)}"


def what_was_done(faults: Faults) -> str:
    """`lost a and b (2 of 6 targets, the worst set of all 15); corrupt c; slow d by 0.5 s a request`."""
    lost = f"lost {joined(faults.lost)}" if faults.lost else ""
    parts = [f"{lost} ({faults.how})" if lost and faults.how else lost]
    parts += [
        f"{word} {joined(names)}" for word, names in (("empty", faults.empty), ("corrupt", faults.corrupt)) if names
    ]
    parts += [f"slow {name} by {time_text(seconds)} a request" for name, seconds in faults.slow.items()]
    parts += [f"throttled {name} to {size(rate)} a second" for name, rate in faults.throttle.items()]
    return "; ".join(part for part in parts if part) or "nothing was taken away"


def how_predicted(prediction: Prediction) -> str:
    """Where the predicted times come from."""
    if prediction.source == "measured":
        pace = f"{size(prediction.rate)} a second, opening {time_text(prediction.opening + prediction.documents)}"
        return f"by reading {size(prediction.bytes)} of the same targets without faults just before: {pace}"
    if prediction.source == "history":
        pace = f"{size(prediction.rate)} a second"
        return f"by what earlier drills restored: {pace} (nothing could be measured now: {prediction.why})"
    return f"not at all: {prediction.why}"


def against_prediction(seconds: float, predicted: float | None) -> str:
    """`1.3 x`: how many times what was predicted."""
    return f"{seconds / predicted:.2g} x" if predicted else ""
