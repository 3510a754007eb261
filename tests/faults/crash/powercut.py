"""A power cut under local directories: what was written and not synced is lost.

The operating system's calls that a directory target makes are watched. A file is as durable as the bytes it had when
it was last synced, a name in a folder when the folder was. The cut comes at a call, counted over all of them.
"""

import os
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

from tests.faults.crash.killing import Killed

__all__ = ["PowerCut", "unsynced"]

CALLS = ("fsync", "link", "mkdir", "rename", "rmdir", "unlink", "write")


@dataclass
class Node:
    """A file or folder as it was when last synced; a file that never was is empty."""

    folder: bool
    data: bytes = b""
    entries: dict[str, "Node"] = field(default_factory=dict)


class PowerCut:
    """Watches everything below `root`, which is durable as it is now; `at`: the call, from 1, at which power fails."""

    def __init__(self, root: Path, at: int | None = None) -> None:
        self.root, self.at = root, at
        self.calls = 0
        self.struck = False
        self._lock = threading.RLock()
        self._nodes: dict[tuple[int, int], Node] = {}
        self.top = self._scan(root)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Stand in for the operating system's calls."""
        with mock.patch.multiple(os, **{name: self._watched(name, getattr(os, name)) for name in CALLS}):
            yield

    def restore(self, into: Path, keep: Callable[[], bool] = lambda: False) -> None:
        """Make below `into` what a disk may hold afterwards; `keep` decides for each thing unsynced if it survived."""
        self._restore(self.top, self.root, into, keep)

    def _watched(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            with self._lock:
                if self.struck:
                    raise Killed
                self.calls += 1
                if self.calls == self.at:
                    self.struck = True
                    raise Killed
                return getattr(self, f"_{name}", self._passed)(real, *arguments, **options)

        return call

    @staticmethod
    def _passed(real: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        return real(*arguments, **options)

    def _fsync(self, real: Callable[..., Any], file: int) -> None:
        """Take note in the place of syncing: nobody pulls the plug of this machine."""
        node = self._node(os.fstat(file))
        if node.folder:
            node.entries = {name: self._node(os.stat(name, dir_fd=file)) for name in os.listdir(file)}
        else:
            node.data = Path(f"/proc/self/fd/{file}").read_bytes()

    def _rename(self, real: Callable[..., Any], source: str, name: str, **folders: int) -> None:
        self._forget(name, folders["dst_dir_fd"])
        real(source, name, **folders)

    def _unlink(self, real: Callable[..., Any], name: str, *, dir_fd: int) -> None:
        self._forget(name, dir_fd)
        real(name, dir_fd=dir_fd)

    def _rmdir(self, real: Callable[..., Any], name: str, *, dir_fd: int) -> None:
        gone = os.stat(name, dir_fd=dir_fd)
        real(name, dir_fd=dir_fd)
        self._nodes.pop(_key(gone), None)

    def _forget(self, name: str, folder: int) -> None:
        """What loses its last name is forgotten: its number may be given to another file."""
        with suppress(FileNotFoundError):
            gone = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if gone.st_nlink == 1:
                self._nodes.pop(_key(gone), None)

    def _node(self, status: os.stat_result) -> Node:
        return self._nodes.setdefault(_key(status), Node(stat.S_ISDIR(status.st_mode)))

    def _scan(self, path: Path) -> Node:
        node = self._node(path.stat())
        if node.folder:
            node.entries = {below.name: self._scan(below) for below in path.iterdir()}
        else:
            node.data = path.read_bytes()
        return node

    def _restore(self, node: Node, cached: Path | None, into: Path, keep: Callable[[], bool]) -> None:
        """Write a folder; `cached`: where it lies with all that was not synced, if it still has a name."""
        into.mkdir(exist_ok=True)
        present = {path.name: self._node(path.stat()) for path in cached.iterdir()} if cached else {}
        for name in sorted({*node.entries, *present}):
            durable, recent = node.entries.get(name), present.get(name)
            chosen = recent if durable is not recent and keep() else durable
            lies = cached / name if cached and chosen is recent else None
            if chosen is not None and chosen.folder:
                self._restore(chosen, lies, into / name, keep)
            elif chosen is not None:
                data = lies.read_bytes() if lies and keep() else chosen.data
                (into / name).write_bytes(data)


def _key(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


@contextmanager
def unsynced() -> Iterator[None]:
    """Sync nothing: for what happens before and after the cut, in a tenth of the time."""
    with mock.patch.object(os, "fsync", return_value=None):
        yield
