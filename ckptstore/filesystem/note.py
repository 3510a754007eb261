"""What is written of a file until its directory is committed, for whichever process puts the marker; and of commits.

A note is the index of a save that was begun and has no manifest: one shard, one tensor of bytes. To everything else in
a store it is what a save under way leaves, or an orphan. Unlike any other index it is named by its own SHA-256, so that
a listing finds it and shows whether it is whole.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import manifests
from ckptstore.errors import CorruptError, OutOfReach, TargetError
from ckptstore.opened import Opened
from ckptstore.placement import Place, Survives
from ckptstore.save.copies import copies_wanted, put_copies
from ckptstore.save.shard import SavedShard
from ckptstore.targets import Target
from manifests import FormatError, Index, TableBuilder, paths
from manifests.paths import SaveKey

KEY = "ckptstore:written"
INTENT = "ckptstore:committing"
_NAME = re.compile("[0-9a-f]{64}")

__all__ = ["Intent", "Written", "find_notes", "forget", "put_note"]


@dataclass(frozen=True, eq=False)
class Written:
    """A file that is stored and not committed. `fqn`: what its shard's record calls it; `key`: the save it belongs to.

    `order` tells later files of one save from earlier ones.
    """

    path: str
    fqn: str
    size: int
    saved: SavedShard
    key: SaveKey
    order: int
    note: str = ""

    @property
    def index(self) -> Index:
        """As a document: what `source_of` a file reads by, and what its note says."""
        table = TableBuilder()
        table.add(self.fqn, "uint8", [self.size], [((0,), (self.size,), 0)])
        told = {
            "path": self.path,
            "order": self.order,
            "survives": [self.saved.survives.targets, self.saved.survives.domains],
            "missing": self.saved.missing,
        }
        session, ordinal = self.key
        shards = [self.saved.reference]
        return Index(session=session, ordinal=ordinal, shards=shards, tensors=table.build(), structure={KEY: told})

    @classmethod
    def of(cls, index: Index, note: str) -> "Written | None":
        """What a note says; None for an index that is no note."""
        told = index.structure.get(KEY) if isinstance(index.structure, dict) else None
        if told is None or len(index.shards) != 1 or len(index.tensors) != 1:
            return None
        saved = SavedShard(index.shards[0], Survives(*told["survives"]), dict(told["missing"]))
        table, key = index.tensors, (index.session, index.ordinal)
        return cls(told["path"], table.fqn[0], table.shape[0][0], saved, key, told["order"], note)


@dataclass(frozen=True, eq=False)
class Intent:
    """A save that is about to commit what waits at a path or below it. Whoever else is about to, finds it."""

    path: str
    key: SaveKey
    note: str = ""

    @property
    def index(self) -> Index:
        """As a document."""
        session, ordinal = self.key
        structure = {INTENT: self.path}
        return Index(session=session, ordinal=ordinal, shards=[], tensors=TableBuilder().build(), structure=structure)

    def concerns(self, path: str) -> bool:
        """Whether what waits below one of the two paths may wait below the other."""
        return f"{path}/".startswith(f"{self.path}/") or f"{self.path}/".startswith(f"{path}/")


Note = TypeVar("Note", Written, Intent)


def put_note(opened: Opened, run: str, places: Sequence[Place], note: Note) -> Note:
    """Store what is said of a file or a commit. Raises `ToleranceError` where too few targets take it."""
    data = manifests.encode(note.index)
    path = paths.index(run, hashlib.sha256(data).hexdigest())
    least = opened.config.require_tolerance + 1
    count = max(copies_wanted(opened.reachable_tolerance(places).targets, places), least)
    put_copies(path, data, count, places, opened.targets, opened.executor, least=least)
    return replace(note, note=path)


def find_notes(opened: Opened, run: str, known: Iterable[str]) -> list[Written | Intent]:
    """The notes in a run beside those `known`. Raises `OutOfReach` where some may be on targets out of reach only."""
    replies = opened.on_targets(lambda target: _names(target, run))
    silent = {name: reply for name, reply in replies.items() if isinstance(reply, TargetError)}
    if len(silent) > opened.config.require_tolerance:
        causes = "; ".join(error.message for error in silent.values())
        message = f"{len(silent)} targets can't be asked which files wait to be committed ({causes})"
        raise OutOfReach(message, hint="run: ckpt doctor; then put the marker again")
    holders: dict[str, list[str]] = {}
    for name, reply in replies.items():
        for path in () if isinstance(reply, TargetError) else reply:
            holders.setdefault(path, []).append(name)
    wanted = sorted(holders.keys() - set(known))
    found = opened.executor.map(lambda path: _read(opened.targets, path, holders[path]), wanted)
    return [note for note in found if note is not None]


def forget(opened: Opened, notes: Iterable[str]) -> None:
    """Remove notes, as far as that goes: what stays behind is an orphan, which the next prune removes."""
    listed = [note for note in notes if note]
    if listed:
        opened.on_targets(lambda target: target.delete(listed))


def _names(target: Target, run: str) -> list[str]:
    entries = target.list(f"{paths.RUNS}{run}/index/")
    return [entry.path for entry in entries if _NAME.fullmatch(entry.path.rpartition("/")[2])]


def _note_of(index: Index, path: str) -> Written | Intent | None:
    """None for an index that is no note."""
    if isinstance(index.structure, dict) and INTENT in index.structure:
        return Intent(index.structure[INTENT], (index.session, index.ordinal), path)
    return Written.of(index, path)


def _read(targets: Mapping[str, Target], path: str, holders: list[str]) -> Written | Intent | None:
    """None for a note that is gone: its process took the file back, or another has committed it."""
    reasons: dict[str, Any] = {}
    for name in holders:
        try:
            data = bytes(targets[name].get(path))
            if hashlib.sha256(data).hexdigest() == path.rpartition("/")[2]:
                return _note_of(manifests.decode(Index, data), path)
            reasons[name] = "is damaged"
        except (TargetError, FormatError, KeyError, TypeError, IndexError) as error:
            reasons[name] = error
    if all(getattr(reason, "kind", "") == "ObjectNotFound" for reason in reasons.values()):
        return None
    told = "; ".join(f"{name}: {reason}" for name, reason in reasons.items())
    message = f"what {path} says of a file that waits to be committed can't be read ({told})"
    raise CorruptError(message, hint="write the file again, or let it go: ckpt prune --sweep")
