"""Files and folders by file descriptor: the part of a directory target that knows the operating system.

Every step from a target's root down is taken with O_NOFOLLOW relative to the folder before it, so no symbolic
link below the root is ever followed, and a root that vanished can't be made again by accident: mkdirat in a
removed directory fails.
"""

import errno
import os
import stat
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from ckptstore.errors import (
    AccessDenied,
    NoSpace,
    ObjectNotFound,
    TargetError,
    TargetUnavailable,
    TargetUnusable,
)
from ckptstore.targets.base import Reason

__all__ = [
    "SeenFolders",
    "error_for",
    "kind_in_the_way",
    "kinds",
    "open_file",
    "open_folder",
    "read_fully",
    "walk",
    "write_fully",
]

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
INSIDE = FOLDER | os.O_NOFOLLOW
READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK  # a FIFO in the way must not block
ABSENT = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP}

ERRORS: dict[int, tuple[type[TargetError], str]] = {
    errno.ENOSPC: (NoSpace, "free some space or add a target"),
    errno.EDQUOT: (NoSpace, "the quota is used up: raise it or free some space"),
    errno.EFBIG: (NoSpace, "the file system or ulimit -f allows no file of this size"),
    errno.EACCES: (AccessDenied, "check owner and mode of the directory"),
    errno.EPERM: (AccessDenied, "check owner, mode and attributes of the directory"),
    errno.EROFS: (AccessDenied, "the file system is mounted read-only"),
    errno.ENOTDIR: (TargetUnusable, "something that is not a folder stands in the way: move it"),
    errno.EEXIST: (TargetUnusable, "something else stands there: move it"),
    errno.EISDIR: (TargetUnusable, "a folder stands where the object must be: move it"),
    errno.ELOOP: (TargetUnusable, "a symbolic link stands in the way: none is followed inside a target"),
    errno.ENAMETOOLONG: (TargetUnusable, "the file system allows no name of this length"),
    errno.EINVAL: (TargetUnusable, "the file system allows no such name"),
    errno.EOPNOTSUPP: (TargetUnusable, "the file system lacks an operation that a target needs"),
}
"""What an errno means. Any other is `TargetUnavailable`: worth another try if it is one of `PASSING`."""

MUCH = 1 << 20  # bytes, which take a few tenths of a millisecond
TURN = 0.1  # seconds, in which 64 MiB are in the page cache
_WRITERS = threading.BoundedSemaphore(len(os.sched_getaffinity(0)))

PASSING = {errno.EAGAIN, errno.EBUSY, errno.EINTR, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ESTALE}
"""Errors that end when something else does. A disk's EIO does not: a bad sector would be read for half a minute."""

SeenFolders = set[tuple[int, int, str]]
"""(device, inode, name) of folders whose own entry in their parent this process has made durable."""


def error_for(error: OSError, target: str, path: str, root: str = "its directory") -> TargetError:
    """The typed error for an OSError met in a request for `path`, or for the target's `root` where that is empty."""
    code = error.errno or 0
    message = f"{target}: {path or root}: {os.strerror(code)} ({errno.errorcode.get(code, code)})"
    if code in ERRORS:
        kind, hint = ERRORS[code]
        return kind(message, target=target, path=path, hint=hint)
    if code == errno.ENOENT:
        return ObjectNotFound(message, target=target, path=path)
    reason = Reason.TIMEOUT if code == errno.ETIMEDOUT else Reason.BROKEN if code in PASSING else Reason.GONE
    return TargetUnavailable(message, target=target, path=path, reason=reason)


def open_root(root: str, target: str) -> int:
    """A descriptor of the root; `TargetUnavailable` where it is gone, for it may be a disk that will be back."""
    try:
        return os.open(root, FOLDER)
    except OSError as error:
        if error.errno in ABSENT:
            raise _no_root(root, target) from error
        raise error_for(error, target, "", root) from error


def _no_root(root: str, target: str) -> TargetUnavailable:
    if os.path.lexists(root) and not os.path.isdir(root):  # noqa: PTH112 - as the line above
        message = f"{target}: {root} is not a directory"
        hint = "move what stands there away, then mount or restore the directory"
    else:
        message = f"{target}: the directory {root} is not there"
        hint = (
            "mount or restore it; if it is gone for good, give store.toml another target in its place, "
            f"then: ckpt repair --replace {target}=NAME"
        )
    return TargetUnavailable(message, target=target, reason=Reason.GONE, hint=hint)


@contextmanager
def open_folder(root: str, parts: Sequence[str], target: str, seen: SeenFolders | None = None) -> Iterator[int]:
    """A descriptor of the folder `parts` below the root. With `seen` given, missing folders are made, durably."""
    folder = open_root(root, target)
    try:
        for part in parts:
            inner = _enter(folder, part) if seen is None else _make(folder, part, seen)
            os.close(folder)
            folder = inner
        yield folder
    finally:
        os.close(folder)


def _enter(folder: int, part: str) -> int:
    return os.open(part, INSIDE, dir_fd=folder)


def _make(folder: int, part: str, seen: SeenFolders) -> int:
    made = False
    with suppress(FileExistsError):
        os.mkdir(part, dir_fd=folder)
        made = True
    inner = _enter(folder, part)
    status = os.fstat(inner)
    key = status.st_dev, status.st_ino, part
    # Another process may have made it and not have synced it yet, so the first sight counts too. That it was seen
    # says nothing of one just made: file systems give the inode of a removed folder to the next.
    if made or key not in seen:
        os.fsync(folder)
        seen.add(key)
    return inner


@contextmanager
def open_file(folder: int, name: str) -> Iterator[tuple[int, os.stat_result]]:
    """A descriptor and the status of a regular file; `FileNotFoundError` for anything else of that name."""
    try:
        file = os.open(name, READ, dir_fd=folder)
    except OSError as error:
        raise (FileNotFoundError(errno.ENOENT, "not a file") if error.errno in ABSENT else error) from None
    try:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode):
            raise FileNotFoundError(errno.ENOENT, "not a file")
        yield file, status
    finally:
        os.close(file)


def kind_in_the_way(folder: int, name: str) -> str | None:
    """What has this name, in words; None for a regular file. Raises `FileNotFoundError`."""
    mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
    return None if stat.S_ISREG(mode) else _kind(mode)


def _kind(mode: int) -> str:
    kinds = {
        stat.S_IFREG: "a file",
        stat.S_IFDIR: "a folder",
        stat.S_IFLNK: "a symbolic link",
        stat.S_IFIFO: "a FIFO",
    }
    return kinds.get(stat.S_IFMT(mode), "a special file")


def kinds(folder: int, prefix: str, skip: str = "") -> Iterator[tuple[str, str]]:
    """Path and kind, in words, of everything below `folder`, links not followed."""
    for path, entry in _tree(folder, prefix, skip):
        with suppress(FileNotFoundError):
            is_file = entry.is_file(follow_symlinks=False)  # told by the listing: a target has a great many
            yield path, "a file" if is_file else _kind(entry.stat(follow_symlinks=False).st_mode)


def walk(folder: int, prefix: str, skip: str = "") -> Iterator[tuple[str, os.stat_result]]:
    """Path and status of each regular file below `folder`, links not followed. What vanishes meanwhile is left out."""
    for path, entry in _tree(folder, prefix, skip):
        with suppress(FileNotFoundError):
            if entry.is_file(follow_symlinks=False):
                yield path, entry.stat(follow_symlinks=False)


def _tree(folder: int, prefix: str, skip: str = "") -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Everything below `folder`, a folder before what is in it; an entry must be looked at before the next."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name == skip:
                continue
            yield prefix + entry.name, entry
            with suppress(FileNotFoundError):
                if entry.is_dir(follow_symlinks=False):
                    inner = _enter(folder, entry.name)
                    try:
                        yield from _tree(inner, f"{prefix}{entry.name}/")
                    finally:
                        os.close(inner)


def write_fully(file: int, pieces: Sequence[memoryview]) -> None:
    """Write all bytes: one call takes at most 2 GiB on Linux, and may take fewer anywhere."""
    with _turn(sum(map(len, pieces))):
        for piece in pieces:
            done = 0
            while done < len(piece):
                done += os.write(file, piece[done:])


@contextmanager
def _turn(nbytes: int) -> Iterator[None]:
    """Let as many write much as there are cores: copying into the page cache is work of the CPU.

    Sixteen at once take the cores from the thread that encodes: on two, a save took a tenth longer. Where slow disks
    hold writers up, the others wait for a turn no longer than TURN.
    """
    writers = _WRITERS
    has_turn = nbytes >= MUCH and writers.acquire(timeout=TURN)
    try:
        yield
    finally:
        if has_turn:
            writers.release()


def _new_writers() -> None:
    """In a forked child: the threads that had turns in the parent aren't here to give them back."""
    global _WRITERS  # noqa: PLW0603
    _WRITERS = threading.BoundedSemaphore(len(os.sched_getaffinity(0)))


os.register_at_fork(after_in_child=_new_writers)


def read_fully(file: int, into: memoryview, start: int) -> int:
    """Fill `into` from `start`; returns how many bytes there were, fewer only where the file ends."""
    done = 0
    while done < len(into):
        count = os.preadv(file, [into[done:]], start + done)
        if count == 0:
            break
        done += count
    return done
