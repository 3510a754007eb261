"""What is really on the targets, by listing them: of each checkpoint, of the votes, and what no checkpoint names.

What is named by nothing may be what a crashed save left, or belong to one that is under way. Where anything of a run
can't be read, nothing of it is called an orphan: unreadable is not unneeded.
"""

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from ckptstore.errors import CkptStoreError, TargetError
from ckptstore.opened import Opened
from ckptstore.operations.inventory import Named, named_by
from ckptstore.operations.usage import CheckpointUsage, Usage, UsageReport
from ckptstore.selection import history_of
from ckptstore.targets import Entry, Target
from manifests import paths

_ID = "[a-z0-9][a-z0-9_-]{0,63}"
_DOCUMENT = re.compile(f"runs/([^/]+)/(index|shards)/({_ID})|runs/([^/]+)/(commit)/(.+)")
_FRAGMENT = re.compile(rf"data/([0-9a-f]{{2}})/([^/]+)/({_ID})/[0-9]{{6,9}}\.([0-9]{{3}})")

__all__ = ["Listed", "Orphans", "add_listing"]


@dataclass
class Orphans:
    """Objects that no checkpoint names, and their bytes."""

    objects: int = 0
    bytes: int = 0


@dataclass
class Listed:
    """What a target holds beside checkpoints: `votes`, bytes of manifests and marks; orphans by run.

    `orphans` has no entry for runs of which something can't be read.
    """

    votes: int = 0
    orphans: dict[str, Orphans] = field(default_factory=dict)


class _Name(NamedTuple):
    """Of an object: its run, its kind ("index", "shards", "commit", "data"), and what it is named by within these.

    That is the shard's id for "data"; the name of the file for documents.
    """

    run: str
    kind: str
    name: str

    def is_in(self, named: Named) -> bool:
        """Whether it is among what checkpoints name."""
        if self.kind == "index":
            return paths.index(self.run, self.name) in named.indexes
        return self.name in named.shards if self.kind == "data" else named.has_record(self.name)


@dataclass
class _Found:
    """On one target: what each checkpoint has there, by its position; votes; and what the records didn't name."""

    usages: dict[int, Usage] = field(default_factory=dict)
    votes: int = 0
    unknown: dict[_Name, Orphans] = field(default_factory=dict)


def add_listing(opened: Opened, report: UsageReport, runs: Collection[str]) -> dict[str, Listed | TargetError]:
    """List every target and fill in what is `listed` of each checkpoint of the report.

    Returns by target what else is there, or why it can't be listed: what the records say counts there.
    """
    owners = _Owners(report.checkpoints)
    replies = opened.on_targets(lambda target: _look(target, owners, runs))
    named = _named_by_now(opened, report, (r for r in replies.values() if not isinstance(r, TargetError)))
    listed: dict[str, Listed | TargetError] = {}
    for target, reply in replies.items():
        if isinstance(reply, TargetError):
            listed[target] = reply
            continue
        for position, checkpoint in enumerate(report.checkpoints):
            checkpoint.listed[target] = reply.usages.get(position, Usage())
        listed[target] = _beside(reply, named)
    return listed


class _Owners:
    """Which checkpoint an object belongs to, and whether it is data."""

    def __init__(self, checkpoints: list[CheckpointUsage]) -> None:
        self._positions: dict[_Name, int] = {}
        self._data_fragments: dict[_Name, int] = {}
        for position, checkpoint in enumerate(checkpoints):
            for path in checkpoint.indexes:
                self._positions[_Name(checkpoint.run, "index", path.rpartition("/")[2])] = position
            for shard_id, count in checkpoint.data_fragments.items():
                name = _Name(checkpoint.run, "data", shard_id)
                self._positions[name], self._data_fragments[name] = position, count

    def count(self, found: _Found, name: _Name, fragment: int, nbytes: int) -> None:
        """Count an object. `fragment`: its number, of one that is none anything."""
        if name.kind == "commit":
            found.votes += nbytes
            return
        position = self._position(name)
        if position is None:
            orphans = found.unknown.setdefault(name, Orphans())
            orphans.objects += 1
            orphans.bytes += nbytes
            return
        usage = found.usages.setdefault(position, Usage())
        if name.kind != "data":
            usage.documents += nbytes
        elif fragment < self._data_fragments[name]:
            usage.data += nbytes
        else:
            usage.parity += nbytes

    def _position(self, name: _Name) -> int | None:
        """A record's name is its shard's id, or begins with that where a repair wrote it."""
        if name.kind != "shards":
            return self._positions.get(name)
        ids = (name.name, name.name.rpartition("-")[0])
        found = (self._positions.get(_Name(name.run, "data", shard_id)) for shard_id in ids)
        return next((position for position in found if position is not None), None)


def _look(target: Target, owners: _Owners, runs: Collection[str]) -> _Found:
    """Raises `TargetError`. What lies there and has no name of ours is no object of the store, and left out."""
    found = _Found()
    for entry in _entries(target, runs):
        if document := _DOCUMENT.fullmatch(entry.path):
            name, number = _Name(*(part for part in document.groups() if part is not None)), 0
        elif (fragment := _FRAGMENT.fullmatch(entry.path)) and paths.spread(fragment[3]) == fragment[1]:
            name, number = _Name(fragment[2], "data", fragment[3]), int(fragment[4])
        else:
            continue
        if name.run in runs:
            owners.count(found, name, number, entry.size)
    return found


def _entries(target: Target, runs: Collection[str]) -> Iterator[Entry]:
    """One run's fragments lie in 256 folders: of several runs all are listed at once."""
    if len(runs) > 1:
        yield from target.list(paths.RUNS)
        yield from target.list("data/")
        return
    for run in runs:
        yield from target.list(f"{paths.RUNS}{run}/")
        for spread in target.list_folders("data/"):
            yield from target.list(f"data/{spread}/{run}/")


def _named_by_now(opened: Opened, report: UsageReport, replies: Iterable[_Found]) -> dict[str, Named]:
    """Of each run that has unknown objects all that is named, saves that were committed meanwhile included.

    Runs of which something can't be read are left out.
    """
    runs = {name.run for reply in replies for name in reply.unknown} - report.unread
    named: dict[str, Named] = {}
    for run in sorted(runs):
        try:
            history = history_of(opened, run)
            named[run] = named_by(opened, (*history.checkpoints, *history.deleted))
        except CkptStoreError as error:
            report.refuse(run, f"run {run}", error)
    return named


def _beside(found: _Found, named: dict[str, Named]) -> Listed:
    listed = Listed(found.votes)
    for name, orphans in found.unknown.items():
        if name.run in named and not name.is_in(named[name.run]):
            of_run = listed.orphans.setdefault(name.run, Orphans())
            of_run.objects += orphans.objects
            of_run.bytes += orphans.bytes
    return listed
