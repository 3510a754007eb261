"""`ckpt repair`: put back what is missing or damaged."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from ckptstore.cli.call import Call
from ckptstore.cli.pacing import Jobs, LimitRate, pace
from ckptstore.cli.selecting import Name, Step, Tag, Which, selected
from ckptstore.cli.verify_report import tolerance_of
from ckptstore.cli.wording import FALL_BACK, joined, size, verdict
from ckptstore.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ckptstore.operations.repair import RepairReport, RepairResult
    from ckptstore.operations.traffic import Traffic

Replace = Annotated[
    list[str] | None,
    typer.Option(
        "--replace", metavar="OLD=NEW", help="Move what was on OLD to NEW; may be repeated.", show_default=False
    ),
]
Shard = Annotated[
    str | None,
    typer.Option("--shard", metavar="I/N", help="Do part I of N of the work, without the others.", show_default=False),
]
ReadData = Annotated[
    bool,
    typer.Option("--read-data/--no-read-data", help="Read and check every byte, or find what is missing by listing."),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and write nothing.")]

__all__ = ["repair"]


def repair(
    call: Call,
    which: Which = None,
    step: Step = None,
    name: Name = None,
    tag: Tag = None,
    replace: Replace = None,
    shard: Shard = None,
    read_data: ReadData = True,
    dry_run: DryRun = False,
    limit_rate: LimitRate = None,
    jobs: Jobs = None,
) -> int:
    """Give checkpoints their full tolerance back.

    All of them unless one is named, and then also those deleted whose data is still there: `ckpt undelete` is to
    bring them back whole. Rebuilds fragments that are missing or damaged, restores records, manifests
    and marks, and re-admits targets that were wiped. With --replace a target that is gone gives way to another
    of store.toml; what other runs have on it is moved by a repair of each. A second repair finds nothing to do. Exits
    as `ckpt verify` would afterwards, with 3 where checkpoints are left on a target to be replaced, or with 1 if every
    checkpoint is well and yet something could not be done; with --dry-run as `ckpt verify` would now.

    It reads every byte to find what is damaged, also with --dry-run; --no-read-data finds what is missing by listing,
    which takes seconds where reading takes hours: after a target was lost, what was on it comes back first.

    With --shard, N machines that know nothing of each other do the work of one: 1/4 to 4/4 on four, at any time, each
    looking at its own shards only. Part 1 also re-admits targets and restores manifests and marks: where a target was
    wiped, or is replaced, the others say so and exit 1 or 3 until it has. Which targets hold nothing any more is told
    by a repair without --shard.
    """
    from ckptstore.operations.repair import repair as mend
    from ckptstore.operations.subsets import Part

    if shard is not None:
        Part.parse(shard, "--shard")
    moving = pace(limit_rate, jobs)
    with call.watching() as observer:
        report = mend(
            call.opened,
            call.run,
            selected(which, step, name, tag),
            replace=_replacements(replace or []),
            shard=shard,
            read_data=read_data,
            dry_run=dry_run,
            observer=observer,
            **moving,
        )
    for result in report.checkpoints:
        _tell(call, result, dry_run=dry_run)
        call.output.record("checkpoint", **_fields(result))
    _tell_replaced(call, report)
    _tell_rest(call, report)
    _tell_bytes(call, report)
    return _sum_up(call, report, replace or [])


def _replacements(pairs: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for pair in pairs:
        old, equals, new = pair.partition("=")
        if not (old and equals and new) or old in found:
            raise UsageError(
                f"--replace {pair}: a target gone and the one in its place are wanted", hint="--replace b=g"
            )
        found[old] = new
    return found


def _fields(result: "RepairResult") -> dict[str, Any]:
    from ckptstore.operations.health import VerifyReport

    names = ("run", "key", "name", "state", "deleted", "rebuilt", "moved", "restored", "failed", "bytes", "tolerance")
    return {**{name: getattr(result, name) for name in names}, "code": VerifyReport.CODES[result.state]}


def _tell(call: Call, result: "RepairResult", *, dry_run: bool) -> None:
    done = [f"{number} {word}" for word in ("rebuilt", "moved", "restored") if (number := getattr(result, word))]
    would = "would be " if dry_run and done else ""
    idle = "nothing to do" if result.state in {"good", "degraded"} else "nothing can be done"
    what = f"{would}{', '.join(done)}" if done else idle
    much = f" ({size(result.bytes)})" if result.bytes else ""
    name = f"{result.name} (deleted)" if result.deleted else result.name
    call.output.say(f"{name}: {what}{much}; {verdict(result.state, *result.tolerance)}")
    for failure in result.failed:
        call.output.say(f"  failed: {failure}")


def _tell_replaced(call: Call, report: "RepairReport") -> None:
    for old in report.replaced:
        call.output.say(f"{old} is no target of the store any more, and no run is on it: take {old} out of store.toml")
    for old, runs in report.still_on.items():
        call.output.say(f"{old} still holds checkpoints of {joined(runs)}: leave it where it is, and in store.toml")
    for old in report.voting:
        vote = f"to give its vote away, name a target that has none: ckpt repair --replace {old}=NEW"
        call.output.say(f"{old} is still a commit target, and gets fragments of what is saved from now on; {vote}")


def _still_to_move(report: "RepairReport", pairs: "Sequence[str]") -> str:
    """The command for each run that has checkpoints on a target that is to go."""
    runs = sorted({run for runs in report.still_on.values() for run in runs})
    going = {run: [pair for pair in pairs if run in report.still_on.get(pair.partition("=")[0], ())] for run in runs}
    return "; ".join(f"ckpt repair --run {run} --replace {' --replace '.join(each)}" for run, each in going.items())


def _next(report: "RepairReport", pairs: "Sequence[str]") -> str:
    """What is left to do: to repair what is lost again and again mends nothing."""
    if report.in_the_way:
        return "remove what is in the way, then: ckpt repair"
    if report.still_on and all(result.state == "good" and not result.failed for result in report.checkpoints):
        return _still_to_move(report, pairs)
    if report.dry_run and report.does_something:
        return " --replace ".join(["ckpt repair", *pairs])
    lost = [result for result in report.checkpoints if result.state == "lost"]
    if any(not result.deleted for result in lost):
        return FALL_BACK
    if lost:
        return "ckpt prune --sweep, once the grace period of what is deleted and lost is over"
    return "ckpt doctor" if report.dry_run else "ckpt doctor, then ckpt repair again"


def _tell_rest(call: Call, report: "RepairReport") -> None:
    """What is not about one checkpoint."""
    if report.readmitted:
        would = "would be " if report.dry_run else ""
        call.output.say(f"{would}re-admitted: {joined(report.readmitted)}")
    if report.votes:
        copies = "1 copy" if report.votes == 1 else f"{report.votes} copies"
        call.output.say(f"{copies} of manifests and marks {'would be ' if report.dry_run else ''}put back")
    for failure in report.failed:
        call.output.say(f"failed: {failure}")
    for each in report.in_the_way:
        call.output.say(f"in the way on {each.target}: {each.kind}, {each.place}: remove it")


def _tell_bytes(call: Call, report: "RepairReport") -> None:
    """What a dry run says of each target, and of all."""
    if report.reads or report.writes:
        names = sorted(report.reads | report.writes)
        rows = [[name, size(report.reads[name]), size(report.writes[name])] for name in names]
        call.output.table(["target", "to read", "to write"], rows, right=["to read", "to write"])
        mending, checking = _priced(call, report.traffic), _priced(call, report.checking)
        call.output.say(f"cost of that: {mending}; of the check of every byte before it: {checking}")


def _priced(call: Call, traffic: "Traffic") -> str:
    from ckptstore.operations.traffic import cost_of
    from ckptstore.prices import dollars

    bill = cost_of(call.config, traffic)
    missing = joined([f"prices.{name}" for name in sorted(bill.missing)])
    return f"unknown, prices missing: {missing}" if bill.dollars is None else dollars(bill.dollars)


def _cost(call: Call, report: "RepairReport") -> dict[str, Any] | None:
    """In dollars, each None where a price is missing; of a dry run only."""
    from ckptstore.operations.traffic import cost_of

    if not report.dry_run:
        return None
    mending, checking = cost_of(call.config, report.traffic), cost_of(call.config, report.checking)
    missing = [f"prices.{name}" for name in sorted(mending.missing | checking.missing)]
    return {"repair": mending.dollars, "check": checking.dollars, "missing": missing}


def _sum_up(call: Call, report: "RepairReport", pairs: "Sequence[str]") -> int:
    hint = _next(report, pairs) if report.exit_code else ""
    if hint:
        call.output.note(f"next: {hint}")
    return call.output.summary(
        report.exit_code,
        store=call.config.name,
        run=call.run,
        dry_run=report.dry_run,
        reads=report.reads,
        writes=report.writes,
        cost=_cost(call, report),
        checkpoints=len(report.checkpoints),
        rebuilt=sum(result.rebuilt for result in report.checkpoints),
        moved=sum(result.moved for result in report.checkpoints),
        restored=sum(result.restored for result in report.checkpoints),
        votes=report.votes,
        readmitted=report.readmitted,
        replaced=report.replaced,
        still_on=report.still_on,
        voting=report.voting,
        failed=[*report.failed, *(failure for result in report.checkpoints for failure in result.failed)],
        in_the_way=report.in_the_way,
        tolerance=tolerance_of(report.checkpoints),
        hint=hint,
    )
