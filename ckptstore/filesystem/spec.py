"""The `ckpt` protocol of fsspec: `ckpt:///path/to/store.toml!run/step-100/model.pt`.

Files are written stripe by stripe, erasure-coded, and show to this process alone until a marker in their directory, or
`commit`, makes a checkpoint of it.
"""

import errno
import os
import posixpath
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from fsspec.core import has_magic

from ckptstore.checkpoint import Checkpoint
from ckptstore.errors import NotFoundError, UsageError
from ckptstore.filesystem.committing import MARKERS, commit_file, commit_folder, copy_file
from ckptstore.filesystem.file import StoredFile, UnfinishedFile
from ckptstore.filesystem.location import Location
from ckptstore.filesystem.reading import ReadingFileSystem, file_of, missing
from ckptstore.filesystem.removing import remove_file, remove_tree
from ckptstore.filesystem.transaction import CommittingTransaction

__all__ = ["CheckpointFileSystem"]


class CheckpointFileSystem(ReadingFileSystem):
    """Runs of stores as files. Takes no options: a path names the store, whose store.toml says the rest.

    Beside `FileNotFoundError`, `FileExistsError` and the like it raises `CkptStoreError`s: that a store can't be read
    is never told as a file that isn't there.
    """

    transaction_type = CommittingTransaction

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._held = threading.local()

    # -- committing ----------------------------------------

    def commit(self, path: str) -> Checkpoint:
        """Make a checkpoint of a directory, or of one file, as a marker does. Raises as `committing.commit_folder`."""
        place = self._place(path).check_writable()
        staging = self._staging(place)
        commit = commit_file if place.path in staging.files else commit_folder
        return commit(staging, place.path)

    def is_marker(self, path: str) -> bool:
        """Whether a file of this name makes a checkpoint of the directory that it is put in."""
        return posixpath.basename(self._strip_protocol(path)) in MARKERS

    def placed(self, path: str) -> None:
        """A file has come to stand at its path: commit what that calls for. Raises as `commit`."""
        place = self._place(path)
        folder = posixpath.dirname(place.path)
        if folder and not self.is_marker(path):
            return
        held = getattr(self._held, "paths", None)
        target = str(place.beside(folder or place.path))
        if held is None:
            self._commit_placed(target)
        else:
            held[target] = None

    def _commit_placed(self, path: str) -> None:
        """Another process's marker may have taken all that waited, this one's with it."""
        try:
            self.commit(path)
        except NotFoundError:
            if not self.exists(path):
                raise

    @contextmanager
    def _markers_last(self) -> Iterator[None]:
        """Many files are put at once, in an order of somebody else's: markers count when all are there."""
        if getattr(self._held, "paths", None) is not None:
            yield
            return
        held: dict[str, None] = {}
        self._held.paths = held
        try:
            yield
        finally:
            self._held.paths = None
        for path in held:
            self._commit_placed(path)

    # -- opening ----------------------------------------

    def _open(self, path: str, mode: str = "rb", autocommit: bool = True, **options: Any) -> Any:
        place = self._place(path)
        if mode == "rb":
            view = self._view(place)
            entry = file_of(view, place, path)
            options = {"block_size": options.get("block_size"), "cache_options": options.get("cache_options")} | (
                {"cache_type": options["cache_type"]} if "cache_type" in options else {}
            )
            return StoredFile(self, path, view, entry, **options)
        if mode not in {"wb", "xb"}:
            hint = "write the file anew: what is stored is never changed in place"
            raise UsageError(f"{path} can't be opened with mode {mode!r}", hint=hint)
        self._check_free(place, exclusive=mode == "xb")
        return UnfinishedFile(self, path, self._staging(place).open_file(place.path), autocommit=autocommit)

    def open(
        self,
        path: str,
        mode: str = "rb",
        block_size: int | None = None,
        cache_options: dict[str, Any] | None = None,
        compression: str | None = None,
        **options: Any,
    ) -> Any:
        """As of every file system. A file written here shows when it is closed, and not after an exception."""
        if compression is not None and "r" not in mode:
            hint = "fsspec.open(url, compression=…) closes both"
            raise UsageError("closing the compressed file would not close the one below it", hint=hint)
        return super().open(path, mode, block_size, cache_options, compression, **options)

    def _check_free(self, place: Location, *, exclusive: bool) -> None:
        """Whether a file may be written there. Raises `UsageError`, `FileExistsError`, `IsADirectoryError`."""
        place.check_writable()
        if place.path in MARKERS:
            message = f"{place.path} marks the directory that it is in, and a run is no checkpoint"
            raise UsageError(message, hint=f"put it in a directory of the run: {place.run}/step-1/{place.path}")
        entry = self._view(place).entry(place.path)
        if entry is not None and entry.is_folder:
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(place))
        if entry is not None and exclusive:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(place))

    # -- many files at once ----------------------------------------

    def put(self, *args: Any, **kwargs: Any) -> None:
        """As of every file system; markers count when all files are there."""
        with self._markers_last():
            super().put(*args, **kwargs)

    def pipe(self, *args: Any, **kwargs: Any) -> None:
        """As of every file system; markers count when all files are there."""
        with self._markers_last():
            super().pipe(*args, **kwargs)

    def copy(self, *args: Any, **kwargs: Any) -> None:
        """As of every file system; markers count when all files are there."""
        with self._markers_last():
            super().copy(*args, **kwargs)

    def cp_file(self, path1: str, path2: str, **_kwargs: Any) -> None:
        """Write a file again, a stripe at a time; of a directory, make another. Raises as a load and a save."""
        place, to = self._place(path1), self._place(path2)
        view = self._view(place)
        entry = view.entry(place.path)
        if entry is not None and entry.is_folder:
            self.makedirs(path2, exist_ok=True)
            return
        self._check_free(to, exclusive=False)
        copy_file(view, file_of(view, place, path1), self._staging(to), to.path)
        self.placed(path2)

    def mv(self, path1: str, path2: str, recursive: bool = False, maxdepth: int | None = None, **_kwargs: Any) -> None:
        """Give files another path. What waits to be committed isn't written again; what is committed is."""
        if not isinstance(path1, str | os.PathLike) or (has_magic(os.fspath(path1)) and not self.exists(path1)):
            self._rewrite(path1, path2, recursive, maxdepth)
            return
        place, to = self._place(path1), self._place(path2)
        if place == to:
            return
        if os.fspath(path2).endswith("/") or self.isdir(path2):
            to = to.beside(posixpath.join(to.path, posixpath.basename(place.path)))
        entries = self._view(place).entries(place.path)
        files = [path for path, entry in entries.items() if not entry.is_folder]
        if not entries:
            raise missing(path1)
        waiting = place.beside("") == to.beside("") and all(entries[path].written is not None for path in files)
        if not waiting or maxdepth is not None or (entries[place.path].is_folder and not recursive):
            self._rewrite(path1, path2, recursive, maxdepth)
        else:
            self._move(place, to, files)

    def _rewrite(self, path1: Any, path2: str, recursive: bool, maxdepth: int | None) -> None:
        with self._markers_last():
            super().mv(path1, path2, recursive=recursive, maxdepth=maxdepth)

    def _move(self, place: Location, to: Location, files: list[str]) -> None:
        staging = self._staging(place)
        with self._markers_last():
            for path in files:
                target = to.beside(f"{to.path}{path[len(place.path) :]}")
                self._check_free(target, exclusive=False)
                staging.move(path, target.path, noted=not self.is_marker(target.path))
                self.placed(str(target))
        with staging.lock:
            made = {folder for folder in staging.folders if f"{folder}/".startswith(f"{place.path}/")}
            staging.folders -= made
            staging.folders |= {f"{to.path}{folder[len(place.path) :]}" for folder in made}

    # -- directories, and taking away ----------------------------------------

    def mkdir(self, path: str, create_parents: bool = True, **_kwargs: Any) -> None:
        """Make a directory, for this process alone until something is in it. Raises `FileExistsError`."""
        if not create_parents and not self.isdir(self._parent(path)):
            raise missing(self._parent(path))
        self.makedirs(path, exist_ok=False)

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        """The same, with those above it."""
        place = self._place(path)
        entry = self._view(place).entry(place.path) if place.run else None
        if entry is not None and not (exist_ok and entry.is_folder) and place.path:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
        if place.path:
            staging = self._staging(place.check_writable())
            with staging.lock:
                staging.folders.add(place.path)

    def rmdir(self, path: str) -> None:
        """Remove a directory that is empty. Raises `FileNotFoundError`, `OSError`."""
        place = self._place(path)
        if self.ls(path, detail=False):
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), path)
        remove_tree(self._view(place), place.path)

    def rm_file(self, path: str) -> None:
        """Remove a file, or an empty directory: see `removing`. Raises `FileNotFoundError`."""
        place = self._place(path)
        view = self._view(place)
        entry = view.entry(place.path)
        if entry is None:
            raise missing(path)
        if entry.is_folder:
            self.rmdir(path)
        else:
            remove_file(view, place.path)

    def rm(self, path: Any, recursive: bool = False, maxdepth: int | None = None) -> None:
        """Remove files; directories if `recursive`: their checkpoints are deleted, as by `ckpt delete`."""
        if not recursive or maxdepth is not None:
            super().rm(path, recursive=recursive, maxdepth=maxdepth)
            return
        gone: list[str] = []
        for each in self.expand_path(path):
            place = self._place(each)
            if not place.path:
                raise UsageError(f"{each} is a whole run or store", hint="remove its checkpoints one by one")
            view = self._view(place)
            entry = view.entry(place.path)
            if entry is None and not any(each.startswith(f"{folder}/") for folder in gone):
                raise missing(each)
            if entry is None:
                continue
            gone.append(each)
            (remove_tree if entry.is_folder else remove_file)(view, place.path)
