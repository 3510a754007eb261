"""A target in a local directory: a disk, an NVMe drive, a mounted file system.

An object is written to a temporary file beside the others, synced, and then given its name: by a hard link
where it must be absent (link fails if the name is taken), by rename elsewhere. Then the folder is synced.
Only then is it a success, so what a save calls durable is durable, and nobody ever sees half an object.
Without `fsync`, what `put` writes is not synced: it survives the process, not a power cut. Commit records are.
"""

import errno
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from ckptstore.errors import TargetError, TargetUnavailable, TargetUnusable
from ckptstore.targets import posix
from ckptstore.targets.base import (
    Buffer,
    Entry,
    Reason,
    Target,
    as_buffers,
    check_path,
    check_prefix,
    check_range,
)
from ckptstore.targets.mapped import LEAST, copy_mapped, is_mappable
from ckptstore.targets.unfinished import TEMPORARY, publish, remove_stale, write_unfinished

__all__ = ["DirectoryTarget"]

NO_FOLDER = FileNotFoundError, NotADirectoryError
LINK_TRIES = 20  # each lost to a delete that removed the emptied folder between our mkdir and our link


class DirectoryTarget(Target):
    """Objects as files below `root`, which must exist: it is made by `create_root` and by nothing else.

    Holds no descriptor between verbs, so it may cross a fork. `root` itself may be a symbolic link; links
    below it are never followed.
    """

    def __init__(self, name: str, root: str | os.PathLike[str], *, fsync: bool = True) -> None:
        super().__init__(name)
        self.root = str(Path(root).absolute())
        self._fsync = fsync
        self._seen: posix.SeenFolders = set()
        self._swept = False

    @property
    def url(self) -> str:
        """`file://` and the absolute path, literally: nothing in it is percent-encoded."""
        return f"file://{self.root}"

    def create_root(self) -> None:
        """Make the directory and those above it, durably."""
        with self._errors(""):
            Path(self.root).mkdir(parents=True, exist_ok=True)
            with posix.open_folder(str(Path(self.root).parent), (), self.name) as parent:
                os.fsync(parent)

    def get(self, path: str, *, start: int = 0, length: int | None = None) -> Buffer:
        """See `Target.get`."""
        with self._file(path) as (file, status):
            data = bytearray(check_range(self, path, status.st_size, start, length))
            self._read(file, path, memoryview(data), start)
        return data

    def get_into(self, path: str, into: memoryview, *, start: int = 0) -> None:
        """See `Target.get_into`: straight into `into`."""
        with self._file(path) as (file, status):
            check_range(self, path, status.st_size, start, len(into))
            copied = copy_mapped(file, into, start) if len(into) >= LEAST and is_mappable(status.st_dev) else 0
            self._read(file, path, into[copied:], start + copied)

    def put(self, path: str, data: Buffer | Sequence[Buffer]) -> None:
        """See `Target.put`."""
        self._store(path, as_buffers(data), replace=True)

    def put_if_absent(self, path: str, data: Buffer) -> bool:
        """See `Target.put_if_absent`. Raises `TargetUnusable` where a link, a folder or a FIFO has the name."""
        return self._store(path, as_buffers(data), replace=False)

    def head(self, path: str) -> Entry:
        """See `Target.head`."""
        with self._file(path) as (_, status):
            return _entry(path, status)

    def list_folders(self, prefix: str) -> Sequence[str]:
        """See `Target.list_folders`. A folder that is being emptied may show for a moment."""
        with (
            self._errors(prefix),
            suppress(*NO_FOLDER),
            self._folder(prefix) as folder,
            os.scandir(folder) as entries,
        ):
            names = sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
            return [name for name in names if prefix or name != TEMPORARY]
        return []

    def delete(self, paths: Sequence[str]) -> Mapping[str, TargetError]:
        """See `Target.delete`. Emptied folders go too, and the removal is synced: a deleted manifest stays deleted."""
        by_folder: dict[str, list[str]] = {}
        for path in paths:
            folder, _, name = self._checked(path).rpartition("/")
            by_folder.setdefault(folder, []).append(name)
        failed: dict[str, TargetError] = {}
        for folder, names in by_folder.items():
            failed |= self._delete_in(folder, names)
        return failed

    def close(self) -> None:
        """Nothing to release."""

    def list(self, prefix: str) -> Iterator[Entry]:
        """See `Target.list`."""
        with self._errors(prefix), suppress(*NO_FOLDER), self._folder(prefix) as folder:
            for path, status in posix.walk(folder, prefix, skip="" if prefix else TEMPORARY):
                yield _entry(path, status)

    def kinds(self) -> Iterator[tuple[str, str]]:
        """See `Target.kinds`: one look at each folder, links not followed."""
        with self._errors(""), self._folder("") as folder:
            yield from posix.kinds(folder, "", skip=TEMPORARY)

    @contextmanager
    def _errors(self, path: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise posix.error_for(error, self.name, path) from error

    def _checked(self, path: str) -> str:
        if check_path(path).split("/", 1)[0] == TEMPORARY:
            raise TargetUnusable(f"{self.name}: {TEMPORARY}/ is kept for unfinished files", target=self.name, path=path)
        return path

    @contextmanager
    def _file(self, path: str) -> Iterator[tuple[int, os.stat_result]]:
        *folders, name = self._checked(path).split("/")
        with self._errors(path):
            try:
                with (
                    posix.open_folder(self.root, folders, self.name) as folder,
                    posix.open_file(folder, name) as opened,
                ):
                    yield opened
            except NotADirectoryError as error:
                raise FileNotFoundError(errno.ENOENT, "not a folder") from error

    def _folder(self, prefix: str) -> AbstractContextManager[int]:
        return posix.open_folder(self.root, check_prefix(prefix).split("/")[:-1], self.name)

    def _read(self, file: int, path: str, into: memoryview, start: int) -> None:
        count = posix.read_fully(file, into, start)
        if count < len(into):  # cut shorter by someone between the check of its size and the read
            raise self.short(path, start=start, wanted=len(into), size=start + count)

    def _store(self, path: str, pieces: Sequence[memoryview], *, replace: bool) -> bool:
        *folders, name = self._checked(path).split("/")
        with (
            self._errors(path),
            posix.open_folder(self.root, [TEMPORARY], self.name, self._seen) as temporary,
        ):
            self._sweep(temporary)
            unfinished = write_unfinished(temporary, pieces, sync=self._fsync or not replace)
            try:
                return self._publish(temporary, unfinished, folders, name, replace=replace)
            finally:
                with suppress(FileNotFoundError):  # a rename took it away
                    os.unlink(unfinished, dir_fd=temporary)

    def _publish(self, temporary: int, unfinished: str, folders: Sequence[str], name: str, *, replace: bool) -> bool:
        for _ in range(LINK_TRIES):
            with (
                suppress(FileNotFoundError),
                posix.open_folder(self.root, folders, self.name, self._seen) as folder,
            ):
                created = publish(temporary, unfinished, folder, name, replace=replace)
                if not created:
                    self._check_is_file(folder, [*folders, name])
                if self._fsync or not replace:
                    os.fsync(folder)  # also where another was first: what we then read there must be durable
                return created
        message = f"{self.name}: the folder of {name} or its unfinished file keeps vanishing"
        raise TargetUnavailable(message, target=self.name, path="/".join([*folders, name]), reason=Reason.BUSY)

    def _check_is_file(self, folder: int, parts: Sequence[str]) -> None:
        """Raise where what was there first is no object, and never will be one.

        It isn't replaced: between a look and a rename another writer may have done so, and both would have won.
        """
        with suppress(FileNotFoundError):
            if (kind := posix.kind_in_the_way(folder, parts[-1])) is not None:
                path = "/".join(parts)
                message = f"{self.name}: {path}: {kind} stands where the object must be: remove {self.root}/{path}"
                hint = "remove it, then run: ckpt repair"
                raise TargetUnusable(message, target=self.name, path=path, hint=hint)

    def _sweep(self, temporary: int) -> None:
        """Remove what dead writers left, once for each opening."""
        if self._swept:
            return
        self._swept = True
        remove_stale(temporary)

    def _delete_in(self, folder: str, names: Sequence[str]) -> dict[str, TargetError]:
        prefix = f"{folder}/" if folder else ""
        failed: dict[str, TargetError] = {}
        try:
            with self._errors(folder), suppress(*NO_FOLDER), self._folder(prefix) as opened:
                for name in names:
                    try:
                        _unlink(opened, name)
                    except OSError as error:
                        failed[prefix + name] = posix.error_for(error, self.name, prefix + name)
                os.fsync(opened)
        except TargetError as error:
            return {prefix + name: error for name in names}
        self._remove_empty(folder)
        return failed

    def _remove_empty(self, folder: str) -> None:
        parts = folder.split("/") if folder else []
        with suppress(OSError, TargetUnavailable):  # not empty, or someone else's turn: it stays
            while parts:
                *parts, last = parts
                with posix.open_folder(self.root, parts, self.name) as above:
                    os.rmdir(last, dir_fd=above)


def _entry(path: str, status: os.stat_result) -> Entry:
    return Entry(path, status.st_size, datetime.fromtimestamp(status.st_mtime, UTC))


def _unlink(folder: int, name: str) -> None:
    try:
        os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        return
    except IsADirectoryError:  # a folder is no object, so the object is absent
        return
