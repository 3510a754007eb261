"""`ckpt prune`: keep what the rules keep, and remove what was deleted or given up long enough ago."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from ckptstore.cli.call import Call
from ckptstore.cli.wording import count, duration, size

if TYPE_CHECKING:
    from ckptstore.operations.prune import PruneReport
    from ckptstore.retention import Retention

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
AllowNothing = Annotated[bool, typer.Option("--unsafe-allow-remove-all", help="Rules may keep nothing at all.")]

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
) -> int:
    """Delete the checkpoints of a run that no rule keeps, and free the room of what was deleted before.

    A checkpoint is kept if any rule names it; one with a tag, and the latest, always are. Without rules those of
    [retention] in store.toml count. What is deleted can be taken back with `ckpt undelete` for a grace period; a
    later prune removes its data, and with it what crashed saves left.

    Nothing is deleted unless what will be the latest loads, and survives what it did when it was written: else
    `ckpt repair` comes first (--sweep needs only that it loads). Of --keep-last, a checkpoint that is lost doesn't
    count: it is kept, and an older one in its place. Targets out of reach are taken to hold what they held, and
    named. Exits 1 where something had to be left or the latest waits for a repair, 4 where the latest is lost, 5
    where targets out of reach decide that.
    """
    rules = _rules(call, keep_last, keep_every, keep_within, keep_tag or [], grace)
    with call.watching() as observer:
        report = call.training.prune(
            rules,
            sweep_only=sweep,
            dry_run=dry_run,
            read_data=read_data,
            unsafe_allow_remove_all=unsafe_allow_remove_all,
            observer=observer,
        )
    _tell(call, report)
    return _sum_up(call, report)


def _rules(
    call: Call,
    keep_last: int | None,
    keep_every: int | None,
    keep_within: str | None,
    keep_tags: list[str],
    grace: str | None,
) -> "Retention":
    """The rules given, or those of store.toml where none is."""
    from ckptstore.retention import Retention

    settings = call.config.retention
    given = Retention(
        keep_last=keep_last,
        keep_every=keep_every,
        keep_within=keep_within,
        keep_tags=keep_tags,
        grace=settings.grace if grace is None else grace,
    )
    if given.has_rules:
        return given
    return Retention(
        keep_last=settings.keep_last,
        keep_every=settings.keep_every,
        keep_within=settings.keep_within,
        keep_tags=settings.keep_tags,
        grace=given.grace,
    )


def _tell(call: Call, report: "PruneReport") -> None:
    """One row a checkpoint, then what else there is."""
    rows = [
        [name, step, "keep" if keep else "delete", why]
        for name, step, keep, why in (
            *((*_names(c.checkpoint), c.keep, ", ".join(c.reasons) or "no rule keeps it") for c in report.choices),
            *((*_names(w.checkpoint), True, _waiting(w.seconds, used=w.used)) for w in report.waiting),
        )
    ]
    rows += [[*_names(c), "remove", "deleted, past its grace period"] for c in report.ended]
    if rows:
        call.output.table(["NAME", "STEP", "PLAN", "WHY"], rows, right=["STEP"])
    else:
        call.output.say(f"run {report.run} has no checkpoints")


def _names(checkpoint: Any) -> tuple[str, str]:
    manifest = checkpoint.manifest
    name = manifest.name or f"{checkpoint.session}.{checkpoint.ordinal:06d}"
    return name, "" if manifest.step is None else str(manifest.step)


def _waiting(seconds: float, *, used: bool) -> str:
    if used:
        return "deleted; another checkpoint uses its data"
    return f"deleted; its data stays for {duration(seconds)}"


def _sum_up(call: Call, report: "PruneReport") -> int:
    would = "would be " if report.dry_run else ""
    if report.given_up:
        call.output.say(f"{count(len(report.given_up), 'save')} given up {would}closed")
    call.output.say(f"{count(report.removal.objects, 'object')} ({size(report.removal.bytes)}) {would}removed")
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
        waiting=[_fields(w.checkpoint, seconds=w.seconds, used=w.used) for w in report.waiting],
        removed=[_fields(checkpoint) for checkpoint in report.ended],
        given_up=[f"{session}.{ordinal:06d}" for session, ordinal in report.given_up],
        objects=report.removal.objects,
        bytes=report.removal.bytes,
        notes=report.notes,
        blocked=report.blocked,
        failed=report.failed,
    )


def _fields(checkpoint: Any, **more: Any) -> dict[str, Any]:
    name, _ = _names(checkpoint)
    return {
        "key": f"{checkpoint.session}.{checkpoint.ordinal:06d}",
        "name": name,
        "step": checkpoint.manifest.step,
        **more,
    }
