"""`ckpt verify`: would every checkpoint come back."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from ckptstore.cli.call import Call
from ckptstore.cli.failures import failure_of
from ckptstore.cli.selecting import Name, Step, Tag, Which, selected
from ckptstore.cli.wording import FALL_BACK, count, joined, verdict
from ckptstore.errors import NotFoundError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ckptstore.operations.findings import Finding
    from ckptstore.operations.health import CheckpointHealth, VerifyReport

ReadData = Annotated[bool, typer.Option("--read-data", help="Read every byte and check its digest.")]
Subset = Annotated[
    str | None,
    typer.Option("--read-data-subset", metavar="P%", help="Read that part, another one each day.", show_default=False),
]
SHOWN = 20
"""Findings of one checkpoint that are shown to people; --json tells all."""
EACH = 5
"""Of one kind on one target, so many are shown one by one."""

__all__ = ["verify"]


def verify(
    call: Call,
    which: Which = None,
    step: Step = None,
    name: Name = None,
    tag: Tag = None,
    read_data: ReadData = False,
    read_data_subset: Subset = None,
) -> int:
    """Check that checkpoints would load, and what may still be lost.

    All of them unless one is named, and then also those deleted whose data is still there. By default every object
    that should be there is asked for; with --read-data every byte is read. Writes nothing. Exits 0 if all is well, 3
    if something is amiss but loadable, or with what is deleted, 4 if data is lost, 5 if that depends on targets that
    are out of reach, 10 if nothing is there to check, live or deleted, 11 if all of it was deleted meanwhile.
    """
    from ckptstore.operations.health import VerifyReport
    from ckptstore.operations.verify import verify as check

    subset = _fraction(read_data_subset)
    options: dict[str, Any] = {
        "read_data": read_data or subset is not None,
        "subset": 1.0 if subset is None else subset,
    }
    try:
        with call.watching() as observer:
            report = check(call.opened, call.run, selected(which, step, name, tag), observer=observer, **options)
    except NotFoundError as error:
        return call.output.failure(failure_of(error), expected=0, checked=0)
    for health in report.checkpoints:
        _tell(call, health)
        call.output.record("checkpoint", **_fields(health))
    _tell_deleted(call, report)
    if report.history:
        call.output.say(f"run {call.run}, beside its live checkpoints: degraded")
        _list(call, report.history)
        call.output.record("history", run=call.run, findings=report.history, code=VerifyReport.CODES["degraded"])
    for finding in report.strange:
        call.output.note(
            f"{finding.target}: {finding.detail}; it does no harm: remove it, unless a newer release did it"
        )
    return _sum_up(call, report, read=options["read_data"])


def _fraction(text: str | None) -> float | None:
    from ckptstore.operations.verify import check_subset

    if text is None:
        return None
    number, percent, rest = text.partition("%")
    try:
        if percent and not rest:
            return check_subset(float(number) / 100)
    except (ValueError, UsageError):
        pass
    raise UsageError(f"--read-data-subset {text}: more than 0% and at most 100% is wanted, as in 10%")


def _fields(health: "CheckpointHealth") -> dict[str, Any]:
    from ckptstore.operations.health import VerifyReport

    names = ("run", "key", "name", "step", "state", "findings")
    return {
        **{name: getattr(health, name) for name in names},
        "tolerance": {"targets": health.tolerance.targets, "domains": health.tolerance.domains},
        "expected": health.counts.expected,
        "checked": health.counts.checked,
        "code": VerifyReport.CODES[health.state],
    }


def _tell(call: Call, health: "CheckpointHealth") -> None:
    checked = f"{health.counts.checked} of {count(health.counts.expected, 'object')} checked"
    call.output.say(f"{health.name}: {verdict(health.state, *health.tolerance)}, {checked}")
    _list(call, health.findings)


def _tell_deleted(call: Call, report: "VerifyReport") -> None:
    """In words only those that are amiss, and how many there are."""
    for health in report.deleted:
        if health.state != "good":
            call.output.say(f"deleted, can be undeleted by {health.key}:")
            _tell(call, health)
        call.output.record("deleted", **_fields(health))
    if report.deleted:
        states = _states(report.deleted)
        call.output.say(f"{count(len(report.deleted), 'deleted checkpoint')}, not removed yet: {_in_words(states)}")


def _states(checkpoints: "Sequence[CheckpointHealth]") -> dict[str, int]:
    states = [health.state for health in checkpoints]
    return {state: states.count(state) for state in VERDICTS}


def _in_words(states: dict[str, int]) -> str:
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


def _sum_up(call: Call, report: "VerifyReport", *, read: bool) -> int:
    states = [health.state for health in report.checkpoints]
    counts = _states(report.checkpoints)
    how = "every byte of what was chosen read" if read else "structure only: --read-data reads the bytes"
    found = f"{count(len(states), 'checkpoint')}: {_in_words(counts)}" if states else "no live checkpoint"
    call.output.say(f"{found}; {how}")
    hint = VERDICTS[max(states + ["degraded"] * report.amiss_beside, key=list(VERDICTS).index, default="good")]
    findings = [
        finding for health in [*report.checkpoints, *report.deleted] for finding in health.findings
    ] + report.history
    worst = max(states, key=list(VERDICTS).index, default="good")
    hint = _unreachable_hint(call, findings, worst) or hint
    if hint:
        call.output.note(f"next: {hint}")
    tolerance = min(((h.tolerance.targets, h.tolerance.domains) for h in report.checkpoints), default=(-1, -1))
    return call.output.summary(
        report.exit_code,
        store=call.config.name,
        run=call.run,
        checkpoints=len(states),
        states=counts,
        deleted=_states(report.deleted),
        tolerance={"targets": tolerance[0], "domains": tolerance[1]},
        expected=report.counts.expected,
        checked=report.counts.checked,
        findings=len(findings),
        strange=report.strange,
        hint=hint,
    )


def _unreachable_hint(call: Call, findings: "Sequence[Finding]", worst: str) -> str:
    """What to do where some of it is on targets that nobody names any more, or all that is amiss is out of reach."""
    known = {*call.opened.targets, *call.opened.group.members.targets}
    dropped = sorted({finding.target for finding in findings} - known - {""})
    if dropped and worst == "unknown":
        return f"name {joined(dropped)} in store.toml again, then: ckpt repair"
    if not dropped and {finding.kind for finding in findings} == {"unreachable"}:
        return VERDICTS["unknown"]
    return ""


VERDICTS = {
    "changed": "ckpt ls",
    "good": "",
    "degraded": "ckpt repair",
    "unknown": "ckpt doctor",
    "lost": f"ckpt repair for what can be saved, then: {FALL_BACK}",
}
"""States from good to bad, and what to do about each."""
