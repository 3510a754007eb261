"""What this process has written, taken away and made in a run, and has not committed. Nobody else sees it.

Files that are written belong to a save that was begun before any byte of them was put, as all data does: as long as
that save's register is open, no prune takes them for orphans.
"""

import os
import threading
import time
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import msgspec

from ckptstore.buffers import Bytes
from ckptstore.commit import Commit, shard_saver
from ckptstore.filesystem.note import Written, forget, put_note
from ckptstore.opened import Opened
from ckptstore.operations.folder import whole_name
from ckptstore.operations.inventory import Named, entries_of
from ckptstore.save.growing import GrowingShard, piece_of
from ckptstore.save.shard import SavedShard, ShardSaver
from ckptstore.save.stream import lay_out
from manifests.paths import SaveKey

if TYPE_CHECKING:
    from ckptstore.filesystem.contents import Contents

JOB = "files"
"""All writers of files are one job: they take turns in a run, and whoever commits last is the latest."""

RENEWED = 0.25
"""Of the grace period: how long new files join the save that was begun for older ones."""

__all__ = ["FileWriter", "Staging", "staging_of"]


@dataclass(frozen=True)
class _Begun:
    """A save that files are written under, and until when others may join it. It is never committed itself."""

    commit: Commit
    until: float

    @property
    def key(self) -> SaveKey:
        return self.commit.session, self.commit.ordinal


class Staging:
    """Of one run, in one process: `files` written, by path; committed files `removed`; `folders` made. Thread-safe."""

    def __init__(self, opened: Opened, run: str) -> None:
        self.opened = opened
        self.run = run
        self.files: dict[str, Written] = {}
        self.removed: set[str] = set()
        self.folders: set[str] = set()
        self.kept: OrderedDict[tuple[str, str], Contents] = OrderedDict()
        """What checkpoints were found to hold: it never changes."""
        self.lock = threading.RLock()
        self._begun: _Begun | None = None
        self._order = 0

    def open_file(self, path: str) -> "FileWriter":
        """Begin to write a file. Raises as `Opened.ready_to_save` and `Commit.begin`, before anything of it is put."""
        with self.lock:
            if self._begun is None or time.monotonic() > self._begun.until:
                commit = self.begin()
                lasts = self.opened.config.retention.grace_seconds * RENEWED
                self._begun = _Begun(commit, time.monotonic() + lasts)
            return FileWriter(self, path, self._begun)

    def begin(self) -> Commit:
        """Begin a save. Raises as `Opened.ready_to_save` and `Commit.begin`."""
        commit = Commit(self.opened, self.run, self.opened.ready_to_save(), JOB)
        commit.begin()
        return commit

    def renew(self) -> None:
        """Write no more files under the save that they were written under."""
        with self.lock:
            self._begun = None

    def add(self, path: str, size: int, saved: SavedShard, begun: _Begun) -> Written:
        """A file is whole and stored: say so in the store and here. Raises `ToleranceError`."""
        with self.lock:
            self._order += 1
            written = Written(path, whole_name(path.rpartition("/")[2]), size, saved, begun.key, self._order)
        written = put_note(self.opened, self.run, begun.commit.places, written)
        self._replace(path, written)
        return written

    def move(self, path: str, to: str, *, noted: bool) -> Written:
        """Give a file another path; `noted`: also for other processes, which only its commit makes unnecessary."""
        with self.lock:
            written = replace(self.files[path], path=to)
            if noted:
                written = put_note(self.opened, self.run, self.opened.places, replace(written, order=self._next()))
                forget(self.opened, [self.files[path].note])
            del self.files[path]
        self._replace(to, written)
        return written

    def take_back(self, paths: Iterable[str]) -> None:
        """Forget files that were written, here and in the store.

        Their data stays for the next prune: another process may be about to commit it.
        """
        with self.lock:
            gone = [self.files.pop(path) for path in list(paths) if path in self.files]
        forget(self.opened, (written.note for written in gone))

    def forget(self, files: Iterable[Written]) -> None:
        """What is committed by now is staged no more. Its notes go."""
        files = list(files)
        with self.lock:
            for written in files:
                if self.files.get(written.path) is written:
                    del self.files[written.path]
        forget(self.opened, (written.note for written in files))

    def saver(self, commit: Commit) -> ShardSaver:
        """What writes shards of a save."""
        return shard_saver(self.opened, self.run, commit.places)

    def _next(self) -> int:
        self._order += 1
        return self._order

    def _replace(self, path: str, written: Written) -> None:
        with self.lock:
            old = self.files.get(path)
            self.files[path] = written
            self.removed.discard(path)
        if old is not None:
            forget(self.opened, [old.note])


class FileWriter:
    """One file on its way into a run: stripe by stripe, each copied by the time `append` returns.

    A file that is shorter than a stripe is put whole.
    """

    def __init__(self, staging: Staging, path: str, begun: _Begun) -> None:
        config = staging.opened.config
        self.stripe_bytes = config.k * config.fragment_bytes
        self._staging = staging
        self._path = path
        self._begun = begun
        self._saver = staging.saver(begun.commit)
        self._fqn = whole_name(path.rpartition("/")[2])
        self._growing: GrowingShard | None = None
        self._saved: SavedShard | None = None
        self._size = 0

    def append(self, data: Bytes) -> None:
        """Write the next stripe, at most `stripe_bytes`. Raises as `ShardSaver.save`."""
        if self._growing is None:
            self._growing = GrowingShard(self._saver, self._fqn)
        self._growing.append(data)

    def finish(self, rest: Bytes) -> None:
        """Write what is left: all bytes are stored then. Raises as `ShardSaver.save`."""
        if self._growing is None:
            self._size = rest.size
            self._saved = self._saver.save(lay_out([piece_of(self._fqn, rest.size)]), lambda _: rest, rank=0)
            return
        if rest.size:
            self._growing.append(rest)
        self._size, self._saved = self._growing.size, self._growing.close()

    def stage(self) -> Written:
        """Show the finished file to this process, and to whoever commits its directory."""
        assert self._saved is not None, "the file is not finished"
        return self._staging.add(self._path, self._size, self._saved, self._begun)

    def abandon(self) -> None:
        """Remove what was put. The file that had this path before is as it was."""
        if self._saved is not None:
            named = Named({self._saved.reference.shard_id})
            opened, run = self._staging.opened, self._staging.run
            opened.on_targets(lambda t: t.delete([entry.path for entry in entries_of(t, run, named)]))
        elif self._growing is not None:
            self._growing.abandon()


_ALL: dict[tuple[int, bytes, str], Staging] = {}
_LOCK = threading.Lock()


def staging_of(opened: Opened, run: str) -> Staging:
    """This process's, for a run of a store. A child that was forked has none of what its parent wrote."""
    with _LOCK:
        key = os.getpid(), msgspec.json.encode(opened.config), run
        found = _ALL.get(key)
        if found is None or found.opened is not opened:  # the store was closed and opened again: files stay staged
            fresh = Staging(opened, run)
            if found is not None:
                fresh.files, fresh.removed, fresh.folders = found.files, found.removed, found.folders
            _ALL[key] = found = fresh
        return found


def _new_lock() -> None:
    """In a forked child: a thread of the parent may have held it."""
    global _LOCK  # noqa: PLW0603
    _LOCK = threading.Lock()


os.register_at_fork(after_in_child=_new_lock)
