"""`ckpt doctor`: is every target well."""

from typing import TYPE_CHECKING

from ckptstore.cli.call import Call
from ckptstore.cli.promises import tell_promises
from ckptstore.cli.wording import count, joined, size, survival

if TYPE_CHECKING:
    from ckptstore.operations.doctor import DoctorReport, TargetHealth

NOT_INITIALISED = 10
"""What the operation says where targets are there and no store is on them."""
BEYOND = (
    "bring back what is out of reach; if it is gone for good, what ckpt ls says is seen loads, and can be copied away, "
    "by its name: docs/operating.md, When more is lost than may be"
)

__all__ = ["doctor"]


def doctor(call: Call) -> int:
    """Try every target out: is it there, the right one, and well.

    Is it able to do what it must, how fast it answers, what its clock says, how much room it has. Says what may
    still be lost for loading and for saving. Leaves nothing behind on the targets.
    """
    from ckptstore.operations.doctor import examine

    report = examine(call.opened)
    rows = [_row(health) for health in report.targets]
    headings = ["target", "domain", "state", "standing", "latency", "clock", "free"]
    call.output.table(headings, rows, right=("latency", "clock", "free"))
    for health in report.targets:
        for problem in health.problems:
            call.output.say(f"{_place(health)}: {problem}")
    _tell(call, report)
    beyond = tell_promises(call)
    hint = _hint(report)
    if hint:
        call.output.note(f"next: {hint}")
    return call.output.summary(report.exit_code, store=call.config.name, hint=hint, report=report, beyond_layout=beyond)


def _hint(report: "DoctorReport") -> str:
    if not report.exit_code:
        return ""
    if report.exit_code == NOT_INITIALISED:
        return "ckpt init"
    if report.loading_survives < 0 and report.quorums is not None:
        return BEYOND
    names: dict[str, list[str]] = {}
    for health in report.targets:
        for advice in health.advice:
            names.setdefault(advice, []).append(health.name)
    if len(names) > 1:
        return "; ".join(f"{joined(each)}: {advice}" for advice, each in names.items())
    return next(iter(names), "ckpt repair")


def _place(health: "TargetHealth") -> str:
    """A target by its name and by where it is."""
    where = f"{health.url} at {health.endpoint}" if health.endpoint else health.url
    return f"{health.name} ({where})" if where else health.name


def _row(health: "TargetHealth") -> list[str]:
    return [
        health.name,
        health.domain,
        "good" if not health.problems else "bad" if health.reachable else "out of reach",
        health.standing,
        "" if health.latency is None else f"{health.latency * 1000:.1f} ms",
        "" if health.clock_offset is None else f"{health.clock_offset:+.1f} s",
        "" if health.free is None else size(health.free),
    ]


def _tell(call: Call, report: "DoctorReport") -> None:
    good = sum(not health.problems for health in report.targets)
    call.output.say(f"{good} of {count(len(report.targets), 'target')} good")
    if report.quorums is None:
        word = "there is no store here yet" if report.exit_code == NOT_INITIALISED else "too few targets answer"
        call.output.say(word)
        return
    if report.saving_survives >= 0:
        call.output.say(f"what is saved now onto the good ones {survival(*report.tolerance)}")
    for what, more in (("loading the latest", report.loading_survives), ("saving", report.saving_survives)):
        word = "is not possible now" if more < 0 else f"survives the loss of {count(more, 'more commit target')}"
        call.output.say(f"{what} {word}")
    if report.loading_survives > report.saving_survives >= 0:
        call.output.say("loading outlasts saving: more targets would let saving go on as well")
