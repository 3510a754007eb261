"""What is stored of a run beside its votes, and which of it no checkpoint names.

Nothing is an orphan because it can't be read: where a checkpoint's index is unreadable, nothing is known of what it
names, and so of nothing else that it doesn't name it.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime

from ckptstore.errors import CkptStoreError
from ckptstore.load.documents import fetch_document
from ckptstore.opened import Opened
from ckptstore.operations.ages import CLOCK
from ckptstore.targets import Entry, Target
from ckptstore.targets.probe import PROBE
from manifests import Checkpoint, Index, UnsafeName, paths

_FRAGMENT = re.compile(r"[0-9]{6,9}\.[0-9]{3}")

__all__ = ["Named", "entries_of", "index_of", "named_by", "orphans_on"]


@dataclass
class Named:
    """What the checkpoints that are kept name: shards by id, whatever is said of them, and indexes by path."""

    shards: set[str] = field(default_factory=set)
    indexes: set[str] = field(default_factory=set)

    def add(self, opened: Opened, checkpoint: Checkpoint) -> None:
        """Add what a checkpoint names, in any version. Raises as `index_of`; its indexes are added all the same."""
        self.indexes.update(copy.index.path for version in checkpoint.versions for copy in version.copies)
        self.shards.update(shard.shard_id for shard in index_of(opened, checkpoint).shards)

    def has_record(self, path: str) -> bool:
        """Whether a record is one of a shard named: repair gives it a name that begins with the shard's."""
        name = path.rpartition("/")[2]
        return name in self.shards or name.rpartition("-")[0] in self.shards


def named_by(opened: Opened, checkpoints: Iterable[Checkpoint]) -> Named:
    """What these checkpoints name, in any version. Raises `CorruptError`, `OutOfReach` for an index unreadable."""
    named = Named()
    for checkpoint in checkpoints:
        named.add(opened, checkpoint)
    return named


def index_of(opened: Opened, checkpoint: Checkpoint) -> Index:
    """The index of a checkpoint: of its newest version, or an older one's, for repair keeps the shards' ids.

    Raises `CorruptError`, `OutOfReach` where none can be read.
    """
    first, *repaired = checkpoint.versions
    for version in reversed(repaired):
        try:
            return fetch_document(Index, version.copies[0].index, opened.targets)
        except CkptStoreError:
            continue
    return fetch_document(Index, first.copies[0].index, opened.targets)


def entries_of(target: Target, run: str, named: Named) -> Iterator[Entry]:
    """Everything a target holds of what is named: indexes, records, fragments. Raises `TargetError`."""
    yield from (e for e in target.list(f"{paths.RUNS}{run}/index/") if e.path in named.indexes)
    yield from (e for e in target.list(f"{paths.RUNS}{run}/shards/") if named.has_record(e.path))
    for shard_id in sorted(named.shards):
        yield from _fragments(target, run, shard_id)


def orphans_on(target: Target, run: str, named: Named, incarnation: str | None, before: datetime) -> Iterator[Entry]:
    """What a target holds of a run that is not named and was put before a time of its clock.

    `incarnation`: the one whose votes count there; None leaves all votes alone. Raises `TargetError`.
    """
    return (entry for entry in _unnamed(target, run, named, incarnation) if entry.modified < before)


def _unnamed(target: Target, run: str, named: Named, incarnation: str | None) -> Iterator[Entry]:
    yield from (e for e in target.list(f"{paths.RUNS}{run}/index/") if _is_id(e.path) and e.path not in named.indexes)
    yield from (e for e in target.list(f"{paths.RUNS}{run}/shards/") if _is_id(e.path) and not named.has_record(e.path))
    for shard_id in _shards_on(target, run):
        if shard_id not in named.shards:
            yield from _fragments(target, run, shard_id)
    for folder in (CLOCK, PROBE):
        yield from target.list(folder)
    if incarnation is not None:
        yield from _forgotten_votes(target, run, incarnation)


def _shards_on(target: Target, run: str) -> Iterator[str]:
    """The shards that a target holds fragments of."""
    for spread in target.list_folders("data/"):
        for shard_id in target.list_folders(f"data/{spread}/{run}/"):
            if _is_id(shard_id) and paths.spread(shard_id) == spread:
                yield shard_id


def _fragments(target: Target, run: str, shard_id: str) -> Iterator[Entry]:
    """The fragments of a shard; whatever else lies in its folder is left alone."""
    prefix = paths.shard_data_prefix(run, shard_id)
    return (e for e in target.list(prefix) if _FRAGMENT.fullmatch(e.path.removeprefix(prefix)))


def _forgotten_votes(target: Target, run: str, incarnation: str) -> Iterator[Entry]:
    """Votes under incarnations that this target has forgotten: they count for nothing."""
    folder = f"{paths.RUNS}{run}/commit/"
    for other in target.list_folders(folder):
        if other != incarnation and _is_id(other):
            yield from target.list(f"{folder}{other}/")


def _is_id(path: str) -> bool:
    """Whether the last part of a path is an id: what people put beside our objects stays where it is."""
    try:
        paths.check_token(path.rpartition("/")[2])
    except UnsafeName:
        return False
    return True
