"""What `ckpt verify --all-runs` found, told: a row a run."""

from typing import TYPE_CHECKING, Any

from ckptstore.cli.call import Call
from ckptstore.cli.failures import failure_of
from ckptstore.cli.verify_report import STEPS, how_read, in_words, states_of, tell_run, tolerance_of
from ckptstore.cli.wording import FALL_BACK, count, survival

if TYPE_CHECKING:
    from ckptstore.errors import CkptStoreError
    from ckptstore.operations.health import VerifyReport
    from ckptstore.operations.verify_runs import RunsReport

NAMED = 5
"""Runs that are named in what to do next."""

__all__ = ["tell_runs"]


def tell_runs(call: Call, report: "RunsReport", *, read: bool) -> int:
    """Tell of every run, and return the exit code."""
    for run, found in report.runs.items():
        tell_run(call, found, run, all_runs=True)
    rows = [_row(run, found) for run, found in report.runs.items()]
    rows += [[run, "", f"can't be read: {error.message}", "", ""] for run, error in report.failed.items()]
    rows += [[run, "0", "nothing to check", "", ""] for run in report.empty]
    call.output.table(["run", "checkpoints", "state", "survives", "objects checked"], sorted(rows))
    for run, found in report.runs.items():
        call.output.record("run", **_fields(run, found))
    for run, error in report.failed.items():
        failure = failure_of(error)
        told = {"code": failure.code, "kind": failure.kind, "message": failure.message, "hint": failure.hint}
        call.output.record("run", run=run, **told)
    return _sum_up(call, report, read=read)


def _row(run: str, found: "VerifyReport") -> list[str]:
    states = in_words(states_of(found.checkpoints)) or "no live checkpoint"
    beside = ", more beside them amiss" if found.amiss_beside else ""
    reached = tolerance_of(found.checkpoints)
    survived = survival(reached["targets"], reached["domains"]).removeprefix("survives ") if found.checkpoints else ""
    checked = f"{found.counts.checked} of {found.counts.expected}"
    return [run, str(len(found.checkpoints)), states + beside, survived, checked]


def _fields(run: str, found: "VerifyReport") -> dict[str, Any]:
    return {
        "run": run,
        "code": found.exit_code,
        "checkpoints": len(found.checkpoints),
        "states": states_of(found.checkpoints),
        "deleted": states_of(found.deleted),
        "tolerance": tolerance_of(found.checkpoints),
        "expected": found.counts.expected,
        "checked": found.counts.checked,
        "findings": len(found.findings),
    }


def _sum_up(call: Call, report: "RunsReport", *, read: bool) -> int:
    each = [health for found in report.runs.values() for health in found.checkpoints]
    runs = len(report.runs) + len(report.failed) + len(report.empty)
    states = in_words(states_of(each)) or "no live checkpoint"
    unread = f"; {count(len(report.failed), 'run')} can't be read" if report.failed else ""
    call.output.say(f"{count(runs, 'run')}, {count(len(each), 'checkpoint')}: {states}{unread}; {how_read(read=read)}")
    hint = _next(report)
    if hint:
        call.output.note(f"next: {hint}")
    return call.output.summary(
        report.exit_code,
        store=call.config.name,
        runs=runs,
        failed={run: error.message for run, error in report.failed.items()},
        empty=report.empty,
        checkpoints=len(each),
        states=states_of(each),
        tolerance=tolerance_of(each),
        expected=report.counts.expected,
        checked=report.counts.checked,
        findings=sum(len(found.findings) for found in report.runs.values()),
        hint=hint,
    )


def _next(report: "RunsReport") -> str:
    """What to do about the worst."""
    from ckptstore.operations.remedy import BY_STATE

    worst = report.exit_code
    names = [run for run, found in report.runs.items() if found.exit_code == worst]
    failed: list[CkptStoreError] = [error for error in report.failed.values() if error.exit_code == worst]
    if failed:
        return failure_of(failed[0]).next
    if not names or not worst:
        return "" if report.runs else "see what there is: ckpt ls --all-runs"
    state = report.runs[names[0]].state
    if state not in {"degraded", "lost"}:
        return STEPS[BY_STATE[state]]
    repairs = "; ".join(f"ckpt repair --run {run}" for run in names[:NAMED]) + ("; …" if len(names) > NAMED else "")
    return repairs if state == "degraded" else f"{repairs}: for what can be saved, then: {FALL_BACK}"
