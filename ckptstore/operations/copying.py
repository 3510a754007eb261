"""`ckpt copy`: a checkpoint, or all of a run, into another store or another run, under the code that is in use there.

What a copy is of is recorded in it (`origin`), so that running it again copies what isn't there yet.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from ckptstore.arguments import check_observer
from ckptstore.checkpoint import Checkpoint
from ckptstore.errors import CkptStoreError, CorruptError, DataLost, NotFoundError, OutOfReach, UsageError
from ckptstore.events import Observer, ignore
from ckptstore.names import check_run
from ckptstore.opened import Opened
from ckptstore.operations.origin import Origin, copies_in, origin_of, out_of_order
from ckptstore.operations.transfer import Transfer
from ckptstore.protocolerrors import protocol_errors
from ckptstore.selection import Selector, history_for, history_of, select_all
from ckptstore.source import Source
from manifests import Checkpoint as Saved

__all__ = ["CopyReport", "Fate", "copy"]


@dataclass(frozen=True)
class Fate:
    """What became of one checkpoint.

    `outcome`: "copied", "planned" (in a dry run), "there" (it was), "deleted" (its copy was, and is not made again),
    "gone" (the original was pruned meanwhile), "failed" (`error` says why). `tags_left`: tags that other checkpoints
    have there, which are no copies of this run.
    """

    checkpoint: Checkpoint
    outcome: str
    copy: Checkpoint | None = None
    tags_left: tuple[str, ...] = ()
    error: CkptStoreError | None = None


@dataclass
class CopyReport:
    """`fates`, oldest first. `unreadable`: saves of the run that nobody can read.

    `newest`: the copy of the newest, where it isn't the latest there, for an older one was copied after it.
    """

    run: str
    to_run: str
    fates: list[Fate] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)
    newest: Checkpoint | None = None

    @property
    def copied(self) -> list[Checkpoint]:
        """The copies that were made."""
        return [fate.copy for fate in self.fates if fate.outcome == "copied" and fate.copy]

    @property
    def exit_code(self) -> int:
        """That of the first error; 4 where a save can't be read."""
        codes = [fate.error.exit_code for fate in self.fates if fate.outcome == "failed" and fate.error]
        return (codes + [CorruptError.exit_code] * bool(self.unreadable) + [0])[0]


@dataclass
class _Copying:
    """One call: both ends, and how to copy."""

    source: Opened
    transfer: Transfer
    observer: Observer

    @property
    def to(self) -> Opened:
        """The other store."""
        return self.transfer.to

    @property
    def to_run(self) -> str:
        """The run there."""
        return self.transfer.run


def copy(
    source: Opened,
    run: str,
    selector: Selector | None,
    to: Opened,
    to_run: str,
    *,
    read_back: bool = False,
    dry_run: bool = False,
    observer: Observer = ignore,
) -> CopyReport:
    """Copy one checkpoint of a run, or all of them (`selector` None), oldest first, but what is there already.

    A copy keeps name, step, tags, `user`, structure and shards. `read_back`: read every byte that was written and
    check its digest before the commit; else it is asked for by listing. A copy opens a session on `to_run`: a job that
    saves into it is fenced. Raises `UsageError` for a copy onto itself, `NotFoundError`, what a save raises, and for
    one checkpoint that can't be read `DataLost`, `CorruptError`, `OutOfReach`: where all are copied that is its fate.
    """
    check_observer(observer)
    _refuse_same(source, run, to, check_run(to_run))
    history = history_of(source, run) if selector is None else history_for(source, run, selector)
    chosen = select_all(history, selector)
    there = history_of(to, to_run)
    report = CopyReport(run, to_run)
    if selector is None:
        report.unreadable = [problem.message for problem in history.problems if problem.fatal]
    copying = _Copying(source, Transfer(to, to_run, source.config.window_bytes, read_back, observer), observer)
    copies = copies_in(there, to.group.store_id)
    todo = [_known(checkpoint, copies.get(_origin(copying, checkpoint)), selector) for checkpoint in chosen]
    copying.transfer.total = sum(c.bytes for c, fate in zip(chosen, todo, strict=True) if fate is None)
    for checkpoint, fate in zip(chosen, todo, strict=True):
        if dry_run:
            report.fates.append(fate or Fate(_told(checkpoint), "planned"))
        else:
            report.fates.append(_settled(copying, checkpoint, fate, alone=selector is not None))
    _look_at_order(copying, report, chosen[-1])
    return report


def _refuse_same(source: Opened, run: str, to: Opened, to_run: str) -> None:
    with protocol_errors():
        same = source.group.store_id == to.group.store_id
    if same and run == to_run:
        message = f"run {run} of this store would be copied onto itself"
        raise UsageError(message, hint="name another store, or another run of it with --to-run", run=run)


def _known(checkpoint: Saved, found: Saved | None, selector: Selector | None) -> Fate | None:
    """Its fate where a copy was `found`. One that was deleted there is made again where one checkpoint is asked for."""
    if found is None or (found.deleted and selector is not None):
        return None
    return Fate(_told(checkpoint), "deleted" if found.deleted else "there", _told(found))


def _origin(copying: _Copying, checkpoint: Saved) -> Origin:
    return origin_of(checkpoint.manifest, copying.source.group.store_id)


def _told(checkpoint: Saved) -> Checkpoint:
    return Checkpoint.of(checkpoint.manifest, checkpoint.tags)


def _settled(copying: _Copying, checkpoint: Saved, known: Fate | None, *, alone: bool) -> Fate:
    """Copy it unless its fate is known; then give the copy its tags, which a copy cut short may lack."""
    if known is not None and known.outcome == "deleted":
        return known
    fate = known or _attempted(copying, checkpoint, alone=alone)
    if fate.copy is None:
        return fate
    left = _give_tags(copying, checkpoint, fate.copy)
    tags = sorted({*fate.copy.tags, *checkpoint.tags} - {*left})
    return Fate(fate.checkpoint, fate.outcome, _with_tags(fate.copy, tags), tuple(left))


def _with_tags(found: Checkpoint, tags: Sequence[str]) -> Checkpoint:
    return Checkpoint(**{**vars(found), "tags": tuple(tags)})


def _attempted(copying: _Copying, checkpoint: Saved, *, alone: bool) -> Fate:
    told = _told(checkpoint)
    try:
        source = Source.open(copying.source, checkpoint.manifest, copying.observer)
        made = copying.transfer.copy(source, _origin(copying, checkpoint))
    except (DataLost, CorruptError, OutOfReach, NotFoundError) as error:
        if alone:
            raise
        return Fate(told, "gone" if isinstance(error, NotFoundError) else "failed", error=error)
    return Fate(told, "copied", Checkpoint.of(made))


def _give_tags(copying: _Copying, checkpoint: Saved, made: Checkpoint) -> list[str]:
    """Let the copy have the original's tags. Returns those that it can't: others than copies of the run have them."""
    wanted = [tag for tag in checkpoint.tags if tag not in made.tags]
    if not wanted:
        return []
    there, store_id = history_of(copying.to, copying.to_run), copying.to.group.store_id
    origin, left = _origin(copying, checkpoint), []
    for tag in wanted:
        holder = there.tags.get(tag)
        if holder is not None and not origin_of(holder.manifest, store_id).is_of(origin):
            left.append(tag)
            continue
        with protocol_errors():
            copying.to.group.tag(copying.to_run, made.session, made.ordinal, tag)
    return left


def _look_at_order(copying: _Copying, report: CopyReport, checkpoint: Saved) -> None:
    if report.copied:
        there, store_id = history_of(copying.to, copying.to_run), copying.to.group.store_id
        newest = out_of_order(there, store_id, _origin(copying, checkpoint))
        report.newest = None if newest is None else _told(newest)
