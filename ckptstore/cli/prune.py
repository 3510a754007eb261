"""`ckpt prune`: keep what the rules keep, and remove what was deleted or given up long enough ago."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ckptstore.cli.call import Call
from ckptstore.cli.wording import count, data_stays, size, time_left
from ckptstore.errors import UsageError

if TYPE_CHECKING:
    from ckptstore.operations.keeping import Choice
    from ckptstore.operations.prune import PruneReport

Last = Annotated[int | None, typer.Option("--keep-last", metavar="N", help="Keep so many of the newest without a tag.")]
Every = Annotated[int | None, typer.Option("--keep-every", metavar="N", help="Keep steps that are multiples of N.")]
Within = Annotated[str | None, typer.Option("--keep-within", metavar="TIME", help="Keep what is no older: 12h, 7d.")]
KeepTags = Annotated[
    list[str] | None,
    typer.Option("--keep-tag", metavar="TAG", help="Keep what has this tag; may be repeated.", show_default=False),
]
Sweep = Annotated[
    bool, typer.Option("--sweep", help="Delete nothing that is live: only remove what is past its grace period.")
]
Grace = Annotated[
    str | None, typer.Option("--grace", metavar="TIME", help="How long deleted checkpoints keep their data [24h].")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print the plan, and write nothing.")]
ReadData = Annotated[bool, typer.Option("--read-data", help="First read every byte of what will be the latest.")]
AllowNothing = Annotated[
    bool, typer.Option("--unsafe-allow-remove-all", help="Carry out rules that can keep nothing: --keep-last 0.")
]
Yes = Annotated[bool, typer.Option("--yes", help="With --grace 0: remove at once what can't be taken back then.")]

__all__ = ["prune"]


def prune(
    call: Call,
    keep_last: Last = None,
    keep_every: Every = None,
    keep_within: Within = None,
    keep_tag: KeepTags = None,
    sweep: Sweep = False,
    grace: Grace = None,
    dry_run: DryRun = False,
    read_data: ReadData = False,
    unsafe_allow_remove_all: AllowNothing = False,
    yes: Yes = False,
) -> int:
    """Delete the checkpoints of a run that no rule keeps, and free the room of what was deleted before.

    A checkpoint is kept if any rule names it; one with a tag, and the latest, always are. Without rules those of
    [retention] in store.toml count. What is deleted can be taken back with `ckpt undelete` for a grace period; a
    later prune removes its data, and with it what crashed saves left.

    Nothing is deleted unless what will be the latest loads (64 MiB of it are read, or all with --read-data), and
    survives what it did when it was written: else `ckpt repair` comes first (--sweep needs only that it loads). Of
    --keep-last, a checkpoint that is lost doesn't count: it is kept, and an older one in its place. Targets out of
    reach are taken to hold what they held, and named. Exits 1 where something had to be left or the latest waits
    for a repair, 4 where the latest is lost, 5 where targets out of reach decide that.
    """
    keep: dict[str, Any] = {
        "keep_last": keep_last,
        "keep_every": keep_every,
        "keep_within": keep_within,
        "keep_tags": keep_tag,
        "grace": grace,
    }
    call.check_run_is_known()
    options: dict[str, Any] = {
        "sweep_only": sweep,
        "read_data": read_data,
        "unsafe_allow_remove_all": unsafe_allow_remove_all,
    }
    with call.watching() as observer, _told_as_options():
        if not (yes or dry_run or grace is None):
            _refuse_no_grace(call, keep, options)
        report = call.training.prune(dry_run=dry_run, observer=observer, **options, **keep)
    _tell(call, report)
    return _sum_up(call, report)


@contextmanager
def _told_as_options() -> Iterator[None]:
    """Rules that can't be are told as they were typed."""
    try:
        yield
    except UsageError as error:
        if conflict := error.fields.get("conflict"):
            message = f"--sweep deletes nothing that is live, {' and '.join(map(_option, conflict))} would"
            raise UsageError(message, hint=error.hint) from error
        if "setting" not in error.fields:
            raise
        message = f"{_option(error.setting)} {error.value}: {error.wanted}"
        raise UsageError(message, hint="see: ckpt prune --help") from error


def _option(setting: str) -> str:
    return f"--{setting.removesuffix('s').replace('_', '-')}"


def _refuse_no_grace(call: Call, keep: dict[str, Any], options: dict[str, Any]) -> None:
    """`--grace 0` removes data for good, as nothing else that is typed does: it takes a look and a yes."""
    from ckptstore.retention import parse_duration

    if parse_duration(keep["grace"], "grace"):
        return
    ended = call.training.prune(dry_run=True, **options, **keep).ended
    if ended:
        much = f"{count(len(ended), 'checkpoint')} ({size(sum(c.bytes for c in ended))})"
        message = f"--grace 0: the data of {much} would be removed at once, and can't be taken back"
        raise UsageError(message, hint="look with --dry-run, then do it with --yes; or leave --grace out")


def _tell(call: Call, report: "PruneReport") -> None:
    """One row a checkpoint, then what else there is."""
    ended = {checkpoint.key for checkpoint in report.ended}
    deleted = {checkpoint.key for checkpoint in report.deleted}
    rows = [
        [*_names(c.checkpoint), _plan(c, ended), ", ".join(c.reasons) or "no rule keeps it"] for c in report.choices
    ]
    rows += [
        [
            *_names(w.checkpoint),
            "deleted",
            f"its data stays {data_stays(w.seconds, used=w.used, tags=w.tags)}",
        ]
        for w in report.waiting
    ]
    rows += [[*_names(c), "remove", "deleted, past its grace period"] for c in report.ended if c.key not in deleted]
    if rows:
        call.output.table(["name", "step", "plan", "why"], rows, right=["step"])
    else:
        call.output.say(f"run {report.run} has no checkpoints")


def _plan(choice: "Choice", ended: Collection[tuple[str, int]]) -> str:
    """What becomes of a live checkpoint: without a grace period what is deleted is removed as well."""
    if choice.keep:
        return "keep"
    return "remove" if choice.checkpoint.key in ended else "delete"


def _names(checkpoint: Any) -> tuple[str, str]:
    manifest = checkpoint.manifest
    name = manifest.name or f"{checkpoint.session}.{checkpoint.ordinal:06d}"
    return name, "" if manifest.step is None else str(manifest.step)


def _sum_up(call: Call, report: "PruneReport") -> int:
    would = "would be " if report.dry_run else ""
    if report.given_up:
        call.output.say(f"{count(len(report.given_up), 'save')} given up {would}closed")
    _say_how_much(call, report, would)
    for note in report.notes:
        call.output.note(f"{note}  (next: ckpt verify)")
    for reason in report.blocked:
        call.output.note(f"left alone: {reason}")
    for failure in report.failed:
        call.output.note(f"not removed: {failure}")
    if report.exit_code:
        call.output.note("next: ckpt doctor, then ckpt prune again")
    return call.output.summary(
        report.exit_code,
        store=call.config.name,
        run=report.run,
        dry_run=report.dry_run,
        kept=[_fields(c.checkpoint, reasons=c.reasons) for c in report.choices if c.keep],
        deleted=[_fields(checkpoint) for checkpoint in report.deleted],
        waiting=[_fields(w.checkpoint, seconds=w.seconds, used=w.used, tags=w.tags) for w in report.waiting],
        removed=[_fields(checkpoint) for checkpoint in report.ended],
        given_up=[f"{session}.{ordinal:06d}" for session, ordinal in report.given_up],
        objects=report.removal.objects,
        bytes=report.removal.bytes,
        notes=report.notes,
        blocked=report.blocked,
        failed=report.failed,
    )


def _say_how_much(call: Call, report: "PruneReport", would: str) -> None:
    ended = {checkpoint.key for checkpoint in report.ended}
    marked = [checkpoint for checkpoint in report.deleted if checkpoint.key not in ended]
    if marked:
        much = f"{count(len(marked), 'checkpoint')} {would}deleted ({size(sum(c.bytes for c in marked))})"
        grace = time_left(report.rules.grace_seconds)
        call.output.say(f"{much}: the data goes after {grace}; until then: ckpt undelete, ckpt ls --deleted")
    removal = report.removal
    if removal.objects or report.ended:
        call.output.say(f"{count(removal.objects, 'object')} ({size(removal.bytes)}) {would}removed")
    elif not marked:
        call.output.say(f"nothing {would}deleted, nothing {would}removed")


def _fields(checkpoint: Any, **more: Any) -> dict[str, Any]:
    name, _ = _names(checkpoint)
    return {
        "key": f"{checkpoint.session}.{checkpoint.ordinal:06d}",
        "name": name,
        "step": checkpoint.manifest.step,
        **more,
    }
