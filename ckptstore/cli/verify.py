"""`ckpt verify`: would every checkpoint come back."""

from typing import Annotated, Any

import typer

from ckptstore.cli.call import Call
from ckptstore.cli.failures import failure_of
from ckptstore.cli.pacing import Jobs, LimitRate, pace
from ckptstore.cli.selecting import Name, Step, Tag, Which, selected
from ckptstore.errors import NotFoundError, UsageError

AllRuns = Annotated[bool, typer.Option("--all-runs", help="The checkpoints of every run, in one report.")]
ReadData = Annotated[bool, typer.Option("--read-data", help="Read every byte and check its digest.")]
Subset = Annotated[
    str | None,
    typer.Option(
        "--read-data-subset",
        metavar="PART",
        help="Read 10% or 200GiB of it, another part each day; or part 3/7.",
        show_default=False,
    ),
]
Resume = Annotated[
    str | None,
    typer.Option("--resume", metavar="FILE", help="Keep in FILE what was found good, and go on.", show_default=False),
]

__all__ = ["verify"]


def verify(
    call: Call,
    which: Which = None,
    step: Step = None,
    name: Name = None,
    tag: Tag = None,
    all_runs: AllRuns = False,
    read_data: ReadData = False,
    read_data_subset: Subset = None,
    limit_rate: LimitRate = None,
    jobs: Jobs = None,
    resume: Resume = None,
) -> int:
    """Check that checkpoints would load, and what may still be lost.

    All of them unless one is named, and then also those deleted whose data is still there. By default every object
    that should be there is asked for; with --read-data every byte is read. Writes nothing to the store. Exits 0 if all
    is well, 3 if something is amiss but loadable, or with what is deleted, 4 if data is lost, 5 if that depends on
    targets that are out of reach, 10 if nothing is there to check, live or deleted, 11 if all of it was deleted
    meanwhile; with --all-runs as the worst run. One that can't be read doesn't stop the others.

    With --read-data-subset 10%, ten days after each other read everything, by the date of this machine; with 200GiB as
    many days as that takes, while the store doesn't outgrow them; 1/7 to 7/7 are seven parts, whenever they are read.
    If a pass with --resume is interrupted, the same command goes on with the same part: what it found good isn't looked
    at again. FILE is removed when the pass is through.
    """
    from ckptstore.cli.verify_report import sum_up, tell_run
    from ckptstore.operations.verify import verify as check

    selector = selected(which, step, name, tag)
    options = _options(read_data=read_data, subset=read_data_subset, resume=resume, **pace(limit_rate, jobs))
    if all_runs:
        if selector is not None:
            raise UsageError("--all-runs checks everything, and no checkpoint is named beside it", hint="leave one out")
        return _every_run(call, options)
    try:
        with call.watching() as observer:
            report = check(call.opened, call.run, selector, observer=observer, **options)
    except NotFoundError as error:
        return call.output.failure(failure_of(error), expected=0, checked=0)
    tell_run(call, report, call.run)
    return sum_up(call, report, read=options["read_data"])


def _options(*, read_data: bool, subset: str | None, **others: Any) -> dict[str, Any]:
    """Raises `UsageError` that names the option."""
    from ckptstore.operations.subsets import Subset as Parsed

    if subset is not None:
        Parsed.of(subset, "--read-data-subset")
    return {"read_data": read_data or subset is not None, "subset": 1.0 if subset is None else subset, **others}


def _every_run(call: Call, options: dict[str, Any]) -> int:
    from ckptstore.cli.verify_runs import tell_runs
    from ckptstore.operations.verify_runs import verify_runs

    with call.watching() as observer:
        report = verify_runs(call.opened, observer=observer, **options)
    return tell_runs(call, report, read=options["read_data"])
