"""`ckpt copy`: checkpoints into another store."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ckptstore.cli.call import Call
from ckptstore.cli.failures import failure_of
from ckptstore.cli.selecting import Name, Step, Tag, Which, selected
from ckptstore.cli.wording import count, joined, size, survival
from ckptstore.errors import UsageError

if TYPE_CHECKING:
    from ckptstore.operations.copying import CopyReport, Fate

To = Annotated[
    Path | None,
    typer.Option(
        "--to", metavar="PATH", help="The other store's store.toml; this store unless given.", show_default=False
    ),
]
ToRun = Annotated[
    str | None,
    typer.Option("--to-run", metavar="RUN", help="The run there; of the same name unless given.", show_default=False),
]
Every = Annotated[bool, typer.Option("--all", help="Every checkpoint of the run, oldest first.")]
ReadBack = Annotated[bool, typer.Option("--read-back", help="Read every byte that was written before it counts.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be copied, and write nothing.")]

__all__ = ["copy"]


def copy(
    call: Call,
    which: Which = None,
    step: Step = None,
    name: Name = None,
    tag: Tag = None,
    to: To = None,
    to_run: ToRun = None,
    every: Every = False,
    read_back: ReadBack = False,
    dry_run: DryRun = False,
) -> int:
    """Copy a checkpoint, or with --all a run, into another store or another run.

    The latest unless named. The copy is coded as the other store is set up, and keeps name, step, tags and shards.
    Every byte read is verified; before the copy is committed, what was written is compared with the digests that were
    recorded when the original was saved, and must be there. What is there already is not copied again: run it again
    after a crash. What a prune has removed there is copied again by --all: keep there as much as here. A job that saves
    into the other run meanwhile is told that it was replaced: copy into a run of its own. Exits with 4 or 5 where an
    original can't be read; with --all the others are copied nevertheless.
    """
    from ckptstore.config import Config
    from ckptstore.opened import shared
    from ckptstore.operations.copying import copy as make
    from ckptstore.selection import Selector

    selector = selected(which, step, name, tag)
    if every and selector is not None:
        raise UsageError(f"--all copies every checkpoint, and {selector} is named", hint="name one, or leave it out")
    target = call.opened if to is None else shared(Config.load(to))
    run = call.run if to_run is None else to_run
    chosen = None if every else selector or Selector()
    with call.watching() as observer:
        report = make(
            call.opened, call.run, chosen, target, run, read_back=read_back, dry_run=dry_run, observer=observer
        )
    for fate in report.fates:
        _tell(call, fate)
        call.output.record("checkpoint", **_fields(fate))
    if report.copied and not read_back:
        call.output.note(
            f"next, to read every byte of it: ckpt verify --read-data --run {run} --store {to or call.path}"
        )
    return _sum_up(call, report, target.config.name, read_back=read_back, dry_run=dry_run)


def _tell(call: Call, fate: "Fate") -> None:
    found, made = fate.checkpoint, fate.copy
    words = {
        "copied": "copied",
        "planned": "would be copied",
        "there": "is there already",
        "deleted": "its copy was deleted there; by its name it is copied again",
        "gone": "was pruned meanwhile",
        "failed": f"NOT copied: {fate.error.message if fate.error else ''}",
    }[fate.outcome]
    kept = f", {survival(*made.tolerance)}" if made and fate.outcome == "copied" else ""
    call.output.say(f"{found.name}: {size(found.bytes)}, {words}{kept}")
    if fate.tags_left:
        call.output.note(f"{found.name}: another checkpoint there keeps {joined(fate.tags_left)}  (next: ckpt tag)")
    if made and made.state != "good":
        call.output.note(f"the copy is {made.state}: it survives less than that store is made for  (next: ckpt repair)")


def _fields(fate: "Fate") -> dict[str, Any]:
    error = failure_of(fate.error)._asdict() if fate.error else None
    found = fate.checkpoint
    named = {"run": found.run, "key": found.key, "name": found.name, "step": found.step, "bytes": found.bytes}
    return {**named, "outcome": fate.outcome, "copy": fate.copy, "tags_left": fate.tags_left, "error": error}


def _sum_up(call: Call, report: "CopyReport", store: str, *, read_back: bool, dry_run: bool) -> int:
    outcomes = [fate.outcome for fate in report.fates]
    moved = sum(fate.checkpoint.bytes for fate in report.fates if fate.outcome in {"copied", "planned"})
    many = count(outcomes.count("planned" if dry_run else "copied"), "checkpoint")
    how = "every byte read back" if read_back else "compared by digests, and listed there"
    done = "would copy" if dry_run else "copied"
    checked = f"; {how}" if moved and not dry_run else ""
    call.output.say(f"{done} {many} to run {report.to_run} of store {store}, {size(moved)}{checked}")
    for problem in report.unreadable:
        call.output.note(f"not copied, for nobody can read it: {problem}  (next: ckpt repair)")
    if report.newest:
        call.output.note(
            f"an older one was copied after {report.newest.name}, so that isn't the latest there: load it by name"
        )
    return call.output.summary(
        report.exit_code,
        run=call.run,
        to_store=store,
        to_run=report.to_run,
        dry_run=dry_run,
        read_back=read_back,
        outcomes={outcome: outcomes.count(outcome) for outcome in sorted(set(outcomes))},
        bytes=moved,
        unreadable=report.unreadable,
        newest=report.newest,
    )
