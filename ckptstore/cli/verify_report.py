"""What `ckpt verify` found of a run, told: in words what is amiss, in JSON everything."""

from typing import TYPE_CHECKING, Any

from ckptstore.cli.call import Call
from ckptstore.cli.wording import FALL_BACK, count, joined, verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ckptstore.operations.findings import Finding
    from ckptstore.operations.health import CheckpointHealth, VerifyReport
    from ckptstore.operations.repair_report import RepairResult

SHOWN = 20
"""Findings of one checkpoint that are shown to people; --json tells all."""
EACH = 5
"""Of one kind on one target, so many are shown one by one."""

STEPS = {
    "": "",
    "look": "ckpt ls",
    "repair": "ckpt repair",
    "doctor": "ckpt doctor",
    "name": "name {targets} in store.toml again, then: ckpt repair",
    "fall back": f"ckpt repair for what can be saved, then: {FALL_BACK}",
}
"""The words for each `Remedy`."""

__all__ = ["STEPS", "how_read", "in_words", "states_of", "sum_up", "tell_run", "tolerance_of"]


def tell_run(call: Call, report: "VerifyReport", run: str, *, all_runs: bool = False) -> None:
    """Tell of each checkpoint, and of what is beside them; in words, where all runs are told of, only what is amiss."""
    from ckptstore.operations.health import VerifyReport

    for health in report.checkpoints:
        if not (all_runs and health.state == "good"):
            _tell(call, health, f"{run} " if all_runs else "")
        call.output.record("checkpoint", **_fields(health))
    _tell_deleted(call, report, f"{run} " if all_runs else "")
    if report.history:
        call.output.say(f"run {run}, beside its live checkpoints: degraded")
        _list(call, report.history)
        call.output.record("history", run=run, findings=report.history, code=VerifyReport.CODES["degraded"])
    for finding in report.strange:
        call.output.note(
            f"{finding.target}: {finding.detail}; it does no harm: remove it, unless a newer release did it"
        )


def _fields(health: "CheckpointHealth") -> dict[str, Any]:
    from ckptstore.operations.health import VerifyReport

    names = ("run", "key", "name", "step", "state", "findings", "tolerance")
    return {
        **{name: getattr(health, name) for name in names},
        "expected": health.counts.expected,
        "checked": health.counts.checked,
        "code": VerifyReport.CODES[health.state],
    }


def _tell(call: Call, health: "CheckpointHealth", before: str) -> None:
    checked = f"{health.counts.checked} of {count(health.counts.expected, 'object')} checked"
    call.output.say(f"{before}{health.name}: {verdict(health.state, *health.tolerance)}, {checked}")
    _list(call, health.findings)


def _tell_deleted(call: Call, report: "VerifyReport", before: str) -> None:
    """In words only those that are amiss, and how many there are."""
    for health in report.deleted:
        if health.state != "good":
            call.output.say(f"deleted, can be undeleted by {health.key}:")
            _tell(call, health, before)
        call.output.record("deleted", **_fields(health))
    if report.deleted:
        number = count(len(report.deleted), "deleted checkpoint")
        call.output.say(f"{before}{number}, not removed yet: {in_words(states_of(report.deleted))}")


def states_of(checkpoints: "Sequence[CheckpointHealth]") -> dict[str, int]:
    """How many are in each state, from good to bad."""
    from ckptstore.operations.health import VerifyReport

    states = [health.state for health in checkpoints]
    return {state: states.count(state) for state in VerifyReport.CODES}


def in_words(states: dict[str, int]) -> str:
    """`3 good, 1 lost`."""
    return ", ".join(f"{number} {state}" for state, number in states.items() if number)


def _list(call: Call, findings: "Sequence[Finding]") -> None:
    """One line a finding; one for all of a kind on one target that are more than a person reads."""
    groups: dict[tuple[str, str], list[Finding]] = {}
    for finding in findings:
        groups.setdefault((finding.kind, finding.target), []).append(finding)
    lines = [line for group in groups.values() for line in _lines(group)]
    for line in lines[:SHOWN]:
        call.output.say(f"  {line}")
    if len(lines) > SHOWN:
        call.output.say(f"  … {len(lines) - SHOWN} more; all of them with --json")


def _lines(group: "Sequence[Finding]") -> list[str]:
    """What is found of one kind on one target."""
    first = group[0]
    if first.target and len(group) > (1 if first.kind == "unreachable" else EACH):
        detail = f": {first.detail}" if first.detail else ""
        return [f"{count(len(group), 'object')} {first.kind} on {first.target}{detail}; each of them with --json"]
    return [
        f"{each.kind} {each.what}{f' on {each.target}' if each.target else ''}: {each.path}"
        f"{f' ({each.detail})' if each.detail else ''}"
        for each in group
    ]


def how_read(*, read: bool) -> str:
    """How the checkpoints were looked at."""
    return "every byte of what was chosen read" if read else "structure only: --read-data reads the bytes"


def tolerance_of(each: "Sequence[CheckpointHealth | RepairResult]") -> dict[str, int]:
    """What all of them survive: the fewest targets and the fewest domains, which may be those of two."""
    tolerances = [one.tolerance for one in each]
    return {
        "targets": min((tolerance.targets for tolerance in tolerances), default=-1),
        "domains": min((tolerance.domains for tolerance in tolerances), default=-1),
    }


def sum_up(call: Call, report: "VerifyReport", *, read: bool) -> int:
    """The last lines, and the exit code."""
    from ckptstore.operations.remedy import remedy_for

    counts = states_of(report.checkpoints)
    total = len(report.checkpoints)
    found = f"{count(total, 'checkpoint')}: {in_words(counts)}" if total else "no live checkpoint"
    call.output.say(f"{found}; {how_read(read=read)}")
    earlier = sum(health.earlier for health in [*report.checkpoints, *report.deleted])
    if earlier:
        call.output.say(f"{earlier} of them were found good by an earlier part of this pass, and not looked at again")
    remedy = remedy_for(call.opened, report)
    hint = STEPS[remedy.what].format(targets=joined(remedy.targets))
    if hint:
        call.output.note(f"next: {hint}")
    return call.output.summary(
        report.exit_code,
        store=call.config.name,
        run=call.run,
        checkpoints=total,
        states=counts,
        deleted=states_of(report.deleted),
        tolerance=tolerance_of(report.checkpoints),
        expected=report.counts.expected,
        checked=report.counts.checked,
        findings=len(report.findings),
        strange=report.strange,
        earlier=earlier,
        hint=hint,
    )
