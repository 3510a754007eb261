"""`ckpt du`: what is stored, for what, and where."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ckptstore.cli.call import Call
from ckptstore.cli.failures import failure_of
from ckptstore.cli.wording import count, size
from ckptstore.errors import TargetError, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ckptstore.operations.listing import Listed
    from ckptstore.operations.usage import CheckpointUsage, Usage, UsageReport

AllRuns = Annotated[bool, typer.Option("--all-runs", help="Of every run.")]
By = Annotated[str, typer.Option("--by", metavar="WHAT", help="A line for each `checkpoint`, `run` or `target`.")]
FromListing = Annotated[bool, typer.Option("--listed", help="List the targets: what is there, and what nothing names.")]

GROUPS = ("checkpoint", "run", "target")

__all__ = ["du"]


@dataclass
class _Found:
    """What was found: by target what is there beside checkpoints, where the targets were listed."""

    report: "UsageReport"
    listed: "Mapping[str, Listed | TargetError]" = field(default_factory=dict)


def du(call: Call, all_runs: AllRuns = False, by: By = "checkpoint", listed: FromListing = False) -> int:
    """Show how many bytes are stored: data, parity and documents, and what deleting a checkpoint would free.

    Deleted checkpoints whose data is still there count too. Reads indexes and records, which say what is to be there;
    with --listed the targets are listed, so that the sizes are those of what is there, and what no checkpoint names
    (left by saves that crashed, or of one under way) is told apart. Exits with 4 or 5 where something can't be read and
    is not among the sums.
    """
    from ckptstore.operations.listing import add_listing
    from ckptstore.operations.usage import read_usage

    if by not in GROUPS:
        raise UsageError(f"--by {by}: one of {', '.join(GROUPS)} is wanted", hint="ckpt du --by target")
    runs = call.runs() if all_runs else [call.run]
    found = _Found(read_usage(call.opened, runs))
    if not (found.report.checkpoints or all_runs):
        call.check_run_is_known()
    if listed:
        found.listed = add_listing(call.opened, found.report, runs)
    {"checkpoint": _by_checkpoint, "run": _by_run, "target": _by_target}[by](call, found, all_runs)
    return _sum_up(call, found, {"all_runs": True} if all_runs else {"run": call.run}, listed=listed)


HEADINGS = ["data", "parity", "documents", "stored"]


def _cells(usage: "Usage") -> list[str]:
    return [size(getattr(usage, heading)) for heading in HEADINGS]


def _fields(usage: "Usage") -> dict[str, int]:
    return {heading: getattr(usage, heading) for heading in HEADINGS}


def _overhead(stored: int, logical: int) -> float | None:
    return round(stored / logical, 3) if logical else None


def _times(stored: int, logical: int) -> str:
    return f"{stored / logical:.2f}x" if logical else ""


def _by_checkpoint(call: Call, found: _Found, all_runs: bool) -> None:
    rows = []
    for each in found.report.checkpoints:
        usage, step = each.usage, "" if each.step is None else str(each.step)
        run, state = [each.run] if all_runs else [], "deleted" if each.deleted else ""
        overhead = _times(usage.stored, each.logical)
        rows.append([*run, each.name, step, state, size(each.logical), *_cells(usage), overhead, size(each.freed)])
        call.output.record("checkpoint", **_checkpoint(each))
    headings = [*(["run"] if all_runs else []), "name", "step", "state", "size", *HEADINGS, "overhead", "frees"]
    if rows:
        call.output.table(headings, rows, right=["step", *headings[-7:]])


def _checkpoint(each: "CheckpointUsage") -> dict[str, Any]:
    usage = each.usage
    return {
        **{name: getattr(each, name) for name in ("run", "key", "name", "step", "deleted", "logical")},
        **_fields(usage),
        "overhead": _overhead(usage.stored, each.logical),
        "freed": each.freed,
        "targets": {name: _fields(part) for name, part in each.targets.items()},
    }


def _by_run(call: Call, found: _Found, _all_runs: bool) -> None:
    from ckptstore.operations.usage import total

    of_runs: dict[str, list[CheckpointUsage]] = {}
    for each in found.report.checkpoints:
        of_runs.setdefault(each.run, []).append(each)
    rows = []
    for run, checkpoints in of_runs.items():
        usage, logical = total(each.usage for each in checkpoints), sum(each.logical for each in checkpoints)
        rows.append([run, str(len(checkpoints)), size(logical), *_cells(usage), _times(usage.stored, logical)])
        sums = {"checkpoints": len(checkpoints), "logical": logical, **_fields(usage)}
        call.output.record("run", run=run, **sums, overhead=_overhead(usage.stored, logical))
    headings = ["run", "checkpoints", "size", *HEADINGS, "overhead"]
    if rows:
        call.output.table(headings, rows, right=headings[1:])


def _by_target(call: Call, found: _Found, _all_runs: bool) -> None:
    rows = []
    for name, usage in _on_targets(found.report.checkpoints).items():
        beside = _beside(found, name)
        rows.append([name, *_cells(usage), *(["?" if n is None else size(n) for n in beside.values()])])
        call.output.record("target", target=name, **_fields(usage), **beside)
    headings = ["target", *HEADINGS, *(["not there", "votes", "orphans"] if found.listed else [])]
    if rows:
        call.output.table(headings, rows, right=headings[1:])


def _on_targets(checkpoints: "Sequence[CheckpointUsage]") -> "dict[str, Usage]":
    from ckptstore.operations.usage import Usage

    sums: dict[str, Usage] = {}
    for each in checkpoints:
        for name, usage in each.targets.items():
            sums.setdefault(name, Usage()).add(usage)
    return dict(sorted(sums.items()))


def _beside(found: _Found, name: str) -> dict[str, int | None]:
    """What a listing tells beside: recorded and not there, votes, orphans; None where that can't be told."""
    if not found.listed:
        return {}
    there = found.listed.get(name)
    if there is None or isinstance(there, TargetError):
        return {"not_there": None, "votes": None, "orphans": None}
    held = [(each.recorded[name].stored, each.listed[name].stored) for each in _recorded_on(found, name)]
    not_there = sum(max(recorded - stored, 0) for recorded, stored in held)
    orphans = sum(each.bytes for each in there.orphans.values())
    return {"not_there": not_there, "votes": there.votes, "orphans": orphans}


def _recorded_on(found: _Found, name: str) -> "list[CheckpointUsage]":
    return [each for each in found.report.checkpoints if name in each.recorded]


def _sum_up(call: Call, found: _Found, fields: dict[str, Any], *, listed: bool) -> int:
    from ckptstore.operations.usage import total

    checkpoints = found.report.checkpoints
    usage, logical = total(each.usage for each in checkpoints), sum(each.logical for each in checkpoints)
    how = "as listed" if listed else "as recorded; --listed looks at the targets"
    overhead = f", {_times(usage.stored, logical)} of {size(logical)}" if logical else ""
    call.output.say(f"{count(len(checkpoints), 'checkpoint')}: {size(usage.stored)} stored{overhead}; {how}")
    orphans = _tell_orphans(call, found) if listed else None
    errors = _tell_errors(call, found)
    return call.output.summary(
        next((failure.code for failure in errors.values()), 0),
        store=call.config.name,
        **fields,
        checkpoints=len(checkpoints),
        logical=logical,
        **_fields(usage),
        overhead=_overhead(usage.stored, logical),
        targets={name: {**_fields(part), **_beside(found, name)} for name, part in _on_targets(checkpoints).items()},
        listed=listed,
        orphans=orphans,
        not_listed=[name for name, each in found.listed.items() if isinstance(each, TargetError)],
        not_read={what: failure._asdict() for what, failure in errors.items()},
    )


def _tell_orphans(call: Call, found: _Found) -> list[dict[str, Any]]:
    """By run and target; what of a run can't be told is told."""
    told = [
        {"run": run, "target": target, **vars(orphans)}
        for target, each in found.listed.items()
        if not isinstance(each, TargetError)
        for run, orphans in each.orphans.items()
    ]
    objects, nbytes = sum(each["objects"] for each in told), sum(each["bytes"] for each in told)
    if told:
        call.output.say(
            f"named by no checkpoint: {count(objects, 'object')}, {size(nbytes)}, of saves that crashed or go on"
        )
        call.output.note("next: ckpt prune --sweep  (removes those that are past the grace period)")
    for run in sorted(found.report.unread):
        call.output.note(f"what nothing of run {run} names can't be told: something of it can't be read")
    for target, each in found.listed.items():
        if isinstance(each, TargetError):
            call.output.note(f"{target} can't be listed: what is recorded counts there  (next: ckpt doctor)")
    return told


def _tell_errors(call: Call, found: _Found) -> dict[str, Any]:
    errors = {what: failure_of(error) for what, error in found.report.errors.items()}
    for what, failure in errors.items():
        call.output.note(f"{what}: {failure.message}: not among the sums  (next: {failure.next})")
    return errors
