"""Files of a directory target that have no name yet: written and synced beside the objects, then published as one."""

import errno
import os
from collections.abc import Sequence
from contextlib import suppress

from ckptstore.targets import posix

__all__ = ["TEMPORARY", "publish", "remove_stale", "write_unfinished"]

TEMPORARY = ".ckptstore-tmp"
STALE_SECONDS = 3600  # a temporary file lives for one put, seconds; after an hour its writer is dead


def write_unfinished(folder: int, pieces: Sequence[memoryview], *, sync: bool = True) -> str:
    """A new file in `folder` holding `pieces`, synced unless told: its name. Nothing is left of it where that fails."""
    name = f"{os.getpid()}-{os.urandom(8).hex()}"
    file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666, dir_fd=folder)
    try:
        posix.write_fully(file, pieces)
        if sync:
            os.fsync(file)
    except BaseException:
        os.unlink(name, dir_fd=folder)
        raise
    finally:
        os.close(file)
    return name


def publish(temporary: int, unfinished: str, folder: int, name: str, *, replace: bool) -> bool:
    """Give a file of `temporary` its `name` in `folder`. False where that is taken, unless told to `replace` it."""
    if replace:
        os.rename(unfinished, name, src_dir_fd=temporary, dst_dir_fd=folder)
        return True
    try:
        os.link(unfinished, name, src_dir_fd=temporary, dst_dir_fd=folder, follow_symlinks=False)
    except FileExistsError:
        return False
    except PermissionError as error:  # what file systems without hard links say (link(2): EPERM)
        raise OSError(errno.EOPNOTSUPP, "no hard links") from error
    return True


def remove_stale(temporary: int) -> None:
    """Remove what dead writers left. Ages are by the file system's clock: see `_now`."""
    now = _now(temporary)
    with os.scandir(temporary) as entries:
        for entry in entries:
            with suppress(FileNotFoundError):
                if now - entry.stat(follow_symlinks=False).st_mtime > STALE_SECONDS:
                    os.unlink(entry.name, dir_fd=temporary)


def _now(folder: int) -> float:
    """The time by the file system's own clock, which may be another machine's: that of a file made just now."""
    name = write_unfinished(folder, [])
    try:
        return os.stat(name, dir_fd=folder).st_mtime
    finally:
        os.unlink(name, dir_fd=folder)
