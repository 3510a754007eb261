"""A run as a tree of files: what is committed by now, and over it what this process has staged.

It is read anew for every question: what another process commits or deletes shows at once. Only what can't change, the
index of a checkpoint, is kept.
"""

import posixpath
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ckptstore.errors import CkptStoreError
from ckptstore.filesystem.contents import Contents
from ckptstore.filesystem.note import Written
from ckptstore.filesystem.staging import Staging
from ckptstore.operations.restore import FileToWrite
from ckptstore.protocolerrors import protocol_errors
from ckptstore.selection import key_of, live, refuse_lost_votes
from manifests import Checkpoint, History

ALONE = "ckptstore:file"
"""In a manifest's `user`: the checkpoint is one file, so many bytes long, and its path is the file's own."""

KEPT = 64
"""Indexes of checkpoints that a process keeps of a run."""

__all__ = ["ALONE", "Entry", "View", "path_of"]


@dataclass(frozen=True)
class Entry:
    """A file or a folder of a run. `save`: the checkpoint that it is in; `written`: it waits to be committed."""

    path: str
    size: int | None
    save: Checkpoint | None = None
    written: Written | None = None

    @property
    def is_folder(self) -> bool:
        """Whether it is one."""
        return self.size is None

    def info(self, root: str) -> dict[str, Any]:
        """As fsspec tells of it. `key`: which save it is of; another version of a file has another."""
        kind = "directory" if self.is_folder else "file"
        told: dict[str, Any] = {"name": f"{root}/{self.path}".rstrip("/"), "size": self.size or 0, "type": kind}
        if self.save is not None:
            told |= {"key": key_of(self.save), "created": self.save.manifest.created}
        elif self.written is not None:
            told |= {"key": self.written.saved.reference.shard_id, "staged": True}
        return told


class View:
    """One reading of a run. Raises `OutOfReach`, `CorruptError`: what can't be read is never said not to exist."""

    def __init__(self, staging: Staging) -> None:
        self.staging = staging
        self.opened = staging.opened
        with protocol_errors():
            self.history: History = self.opened.group.history(staging.run)
        refuse_lost_votes(self.opened, self.history)
        self.saves = {path: found for found in live(self.history) if (path := path_of(found))}
        """The newest live checkpoint of each path."""
        self._let_go_of_committed()

    def entries(self, path: str, *, deep: bool = True) -> dict[str, Entry]:
        """Every file at a path or below it, and every folder; not `deep`: of what lies lower down, folders only."""
        found: dict[str, Entry] = {}
        for place in sorted(self.saves, key=len):  # what lies in a checkpoint of its own hides what has its path
            save = self.saves[place]
            if ALONE in (save.manifest.user or {}):
                found |= {place: Entry(place, save.manifest.user[ALONE], save)} if _is_in(place, path) else {}
            elif (deep and _is_in(place, path)) or _is_in(path, place):
                found |= dict(_files(self.contents(save), place, save))
            if _is_in(place, path) and place not in found:
                found[place] = Entry(place, None, save)
        with self.staging.lock:
            for gone in self.staging.removed:
                found.pop(gone, None)
            found |= {p: Entry(p, None) for p in self.staging.folders if p not in found}
            found |= {p: Entry(p, written.size, None, written) for p, written in self.staging.files.items()}
        found = {p: entry for p, entry in found.items() if _is_in(p, path)}
        for file in list(found):
            for folder in _parents(file):
                if _is_in(folder, path):
                    found.setdefault(folder, Entry(folder, None))
        return found

    def entry(self, path: str) -> Entry | None:
        """What stands at a path; None for nothing."""
        return self.entries(path, deep=False).get(path) if path else Entry("", None)

    def children(self, path: str) -> list[Entry]:
        """What lies in a folder, by name."""
        found = self.entries(path, deep=False)
        return [found[p] for p in sorted(found) if p and posixpath.dirname(p) == path]

    def open(self, entry: Entry) -> tuple[Contents, FileToWrite]:
        """To read a file by."""
        if entry.written is not None:
            contents = Contents.of_written(self.opened, self.staging.run, entry.written)
            return contents, FileToWrite(entry.path, entry.written.size, offsets=((entry.written.fqn, 0),))
        assert entry.save is not None, f"{entry.path} is no file"
        contents = self.contents(entry.save)
        place = path_of(entry.save)
        inside = posixpath.basename(place) if place == entry.path else entry.path[len(place) + 1 :]
        return contents, contents.files[inside]

    def contents(self, save: Checkpoint) -> Contents:
        """Of a checkpoint; read once."""
        kept = self.staging.kept
        key = save.manifest.run, save.manifest.copies[0].index.path
        if key not in kept:
            kept[key] = Contents.of_checkpoint(self.opened, save.manifest)
            while len(kept) > KEPT:
                kept.popitem(last=False)
        return kept[key]

    def shards_in(self, folder: str) -> set[str]:
        """The ids of all shards of checkpoints at a path, above it or below it."""
        saves = (*self.history.checkpoints, *self.history.deleted)
        near = [save for save in saves if _is_in(path_of(save), folder) or _is_in(folder, path_of(save) or "/")]
        return {shard for save in near for shard in self._shards(save)}

    def _let_go_of_committed(self) -> None:
        """Stage no more what another process has committed for this one."""
        with self.staging.lock:
            waiting = list(self.staging.files.values())
        for save in (*self.history.checkpoints, *self.history.deleted):
            here = [written for written in waiting if _is_in(written.path, path_of(save) or "/")]
            if here:
                shards = self._shards(save)
                self.staging.forget(written for written in here if written.saved.reference.shard_id in shards)

    def _shards(self, save: Checkpoint) -> frozenset[str]:
        """The ids of a checkpoint's shards; none where it is being pruned, or its index can't be read."""
        try:
            return self.contents(save).shards
        except CkptStoreError:
            return frozenset()


def path_of(save: Checkpoint) -> str:
    """Where a checkpoint stands in its run: the path that it was saved under. "" where that is none."""
    named = save.manifest.checkpoint_id or save.manifest.name or ""
    return posixpath.normpath(f"/{named}").strip("/")


def _files(contents: Contents, place: str, save: Checkpoint) -> Iterator[tuple[str, Entry]]:
    for name, file in contents.files.items():
        yield f"{place}/{name}", Entry(f"{place}/{name}", file.size, save)


def _is_in(path: str, folder: str) -> bool:
    return not folder or path == folder or path.startswith(f"{folder}/")


def _parents(path: str) -> Iterator[str]:
    while path := posixpath.dirname(path):
        yield path
