"""`ckpt du`: how many bytes are stored for each checkpoint on each target, and what deleting it would free.

By the records alone, which say what is to be there; `listing` says what is. Manifests and marks are a few hundred bytes
each and counted by a listing only.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import erasure
from ckptstore.errors import CkptStoreError, CorruptError, NotFoundError
from ckptstore.load.documents import fetch_document, fetch_record
from ckptstore.opened import Opened
from ckptstore.operations.inventory import index_of
from ckptstore.selection import history_of, key_of
from manifests import Checkpoint, History, Index, Reference, ShardRecord, paths
from manifests.paths import SaveKey

__all__ = ["CheckpointUsage", "Usage", "UsageReport", "read_usage", "total"]


@dataclass
class Usage:
    """Bytes stored: of data fragments, of parity fragments, and of records and indexes."""

    data: int = 0
    parity: int = 0
    documents: int = 0

    @property
    def stored(self) -> int:
        """All of it."""
        return self.data + self.parity + self.documents

    def add(self, other: "Usage") -> None:
        """Count another's bytes too."""
        self.data += other.data
        self.parity += other.parity
        self.documents += other.documents


def total(parts: Iterable[Usage]) -> Usage:
    """Their sum."""
    found = Usage()
    for part in parts:
        found.add(part)
    return found


@dataclass
class CheckpointUsage:
    """One checkpoint. `logical`: bytes of its state. `recorded`: by target, what its records say is stored there.

    `listed`: by target, what is there, of those targets that were listed. `used`: another checkpoint uses its stripes.
    `data_fragments`: of each of its shards how many fragments of a stripe hold data.
    """

    run: str
    key: str
    name: str
    step: int | None
    deleted: bool
    logical: int
    used: bool = False
    recorded: dict[str, Usage] = field(default_factory=dict)
    listed: dict[str, Usage] = field(default_factory=dict)
    data_fragments: dict[str, int] = field(default_factory=dict)
    indexes: set[str] = field(default_factory=set)

    @property
    def targets(self) -> dict[str, Usage]:
        """By target, what is there where that was listed, else what is recorded."""
        return dict(sorted({**self.recorded, **self.listed}.items()))

    @property
    def usage(self) -> Usage:
        """On all targets."""
        return total(self.targets.values())

    @property
    def freed(self) -> int:
        """Bytes that are freed if this checkpoint alone is deleted, and pruned after its grace period."""
        return 0 if self.used else self.usage.stored


@dataclass
class UsageReport:
    """`errors`: by what can't be read, why: what is stored of that is not among the sums. `unread`: runs it is of."""

    checkpoints: list[CheckpointUsage] = field(default_factory=list)
    errors: dict[str, CkptStoreError] = field(default_factory=dict)
    unread: set[str] = field(default_factory=set)

    def refuse(self, run: str, what: str, error: CkptStoreError) -> None:
        """Note that something of a run can't be read."""
        self.errors[what] = error
        self.unread.add(run)


def read_usage(opened: Opened, runs: Sequence[str]) -> UsageReport:
    """What is recorded of all checkpoints of these runs, live ones and deleted ones whose data was not removed yet.

    Reads an index for each version and a record for each shard. What can't be read costs nothing else; of a run that is
    alone, why it can't be read is raised. Raises `NotFoundError` where there is no store.
    """
    report = UsageReport()
    for run in runs:
        try:
            history = history_of(opened, run)
        except CkptStoreError as error:
            if len(runs) == 1 or isinstance(error, NotFoundError):
                raise
            report.refuse(run, f"run {run}", error)
            continue
        for problem in history.problems:
            if problem.fatal:
                save = paths.save_name(*problem.save) if problem.save else problem.name
                report.refuse(run, f"save {save} of run {run}", CorruptError(problem.message, hint="run: ckpt verify"))
        used = _used(history)
        for checkpoint in _all(history):
            _add(opened, report, checkpoint, used=checkpoint.key in used)
    return report


def _all(history: History) -> list[Checkpoint]:
    """Live and deleted, in the order in which they were begun."""
    everything = (*history.checkpoints, *history.deleted)
    return sorted(everything, key=lambda checkpoint: (paths.split_session(checkpoint.session), checkpoint.ordinal))


def _add(opened: Opened, report: UsageReport, checkpoint: Checkpoint, *, used: bool) -> None:
    manifest, key = checkpoint.manifest, key_of(checkpoint)
    names = (manifest.run, key, manifest.name or key, manifest.step)
    usage = CheckpointUsage(*names, checkpoint.deleted, manifest.bytes, used=used)
    try:
        _measure(opened, usage, checkpoint)
    except CkptStoreError as error:
        report.refuse(manifest.run, f"{usage.name} of run {manifest.run}", error)
    else:
        report.checkpoints.append(usage)


def _used(history: History) -> set[SaveKey]:
    """The saves whose stripes others use."""
    return {use for each in (*history.checkpoints, *history.deleted) for v in each.versions for use in v.uses}


def _measure(opened: Opened, usage: CheckpointUsage, checkpoint: Checkpoint) -> None:
    """Fill in what is recorded. Raises as `fetch_document` for the index or a record that counts."""
    usage.indexes = {copy.index.path for version in checkpoint.versions for copy in version.copies}
    shards = index_of(opened, checkpoint).shards
    for reference in _documents(opened, checkpoint):
        for name in reference.targets:
            usage.recorded.setdefault(name, Usage()).documents += reference.size
    for record in opened.executor.map(lambda shard: fetch_record(shard, opened.targets), shards):
        _add_fragments(usage, record)


def _documents(opened: Opened, checkpoint: Checkpoint) -> list[Reference]:
    """Every index and record that any version names, once. Of an old version that can't be read, its index alone."""
    found: dict[str, Reference] = {}
    for version in checkpoint.versions:
        for copy in version.copies:
            found[copy.index.path] = copy.index
            try:
                shards = fetch_document(Index, copy.index, opened.targets).shards
            except CkptStoreError:
                continue
            found |= {shard.record.path: shard.record for shard in shards}
    return list(found.values())


def _add_fragments(usage: CheckpointUsage, record: ShardRecord) -> None:
    """Fragments of the shard's own: those of a stripe used again belong to the save that wrote it."""
    usage.data_fragments[record.shard_id] = record.codes[0].k if record.codes else 0
    for stripe in record.stripes:
        code = record.codes[stripe.code]
        shape = erasure.StripeShape(code.k, code.m, stripe.length)
        for fragment, at in enumerate(stripe.at):
            if at is not None and stripe.source is None:
                on_target = usage.recorded.setdefault(record.targets[at], Usage())
                if fragment < code.k:
                    on_target.data += shape.stored(fragment)
                else:
                    on_target.parity += shape.stored(fragment)
