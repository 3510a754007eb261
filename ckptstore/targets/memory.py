"""A target in this process's memory: for tests and for the examples in the documentation."""

import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime

from ckptstore.errors import ForkedClient, ObjectNotFound, TargetError
from ckptstore.targets.base import Buffer, Entry, Target, as_buffers, check_path, check_prefix, check_range

__all__ = ["MemoryObjects", "MemoryTarget"]


class MemoryObjects:
    """What a memory target holds: bytes and time by path. Targets that are given the same one see the same objects."""

    def __init__(self) -> None:
        self.by_path: dict[str, tuple[bytes, datetime]] = {}
        self.lock = threading.Lock()
        self.pid = os.getpid()


class MemoryTarget(Target):
    """Objects in a dict. A forked child would see a copy that nobody else sees, so there it raises `ForkedClient`."""

    def __init__(self, name: str, objects: MemoryObjects | None = None, *, root: str | None = None) -> None:
        super().__init__(name)
        self._objects = objects or MemoryObjects()
        self._root = name if root is None else root

    @property
    def url(self) -> str:
        """`memory://` and the root's name."""
        return f"memory://{self._root}"

    def get(self, path: str, *, start: int = 0, length: int | None = None) -> Buffer:
        """See `Target.get`."""
        data, _ = self._find(path)
        count = check_range(self, path, len(data), start, length)
        return data[start : start + count]

    def put(self, path: str, data: Buffer | Sequence[Buffer]) -> None:
        """See `Target.put`."""
        self._set(path, b"".join(as_buffers(data)), replace=True)

    def put_if_absent(self, path: str, data: Buffer) -> bool:
        """See `Target.put_if_absent`."""
        return self._set(path, bytes(data), replace=False)

    def head(self, path: str) -> Entry:
        """See `Target.head`."""
        data, modified = self._find(path)
        return Entry(path, len(data), modified)

    def list_folders(self, prefix: str) -> Sequence[str]:
        """See `Target.list_folders`."""
        inside = (entry.path[len(prefix) :] for entry in self.list(prefix))
        return sorted({path.split("/")[0] for path in inside if "/" in path})

    def delete(self, paths: Sequence[str]) -> Mapping[str, TargetError]:
        """See `Target.delete`."""
        held = self._held()
        with self._objects.lock:
            for path in paths:
                held.pop(check_path(path), None)
        return {}

    def close(self) -> None:
        """Nothing to release."""

    def list(self, prefix: str) -> Iterator[Entry]:
        """See `Target.list`."""
        held = self._held()
        check_prefix(prefix)
        with self._objects.lock:
            found = [Entry(path, len(data), modified) for path, (data, modified) in held.items()]
        return (entry for entry in found if entry.path.startswith(prefix))

    def _held(self) -> dict[str, tuple[bytes, datetime]]:
        if os.getpid() != self._objects.pid:
            hint = "use a directory target, or keep the work in the process that opened the store"
            raise ForkedClient(f"{self.name}: a memory target lives in one process", hint=hint, target=self.name)
        return self._objects.by_path

    def _find(self, path: str) -> tuple[bytes, datetime]:
        held = self._held()
        try:
            return held[check_path(path)]
        except KeyError:
            raise ObjectNotFound(f"{self.name}: no object {path}", target=self.name, path=path) from None

    def _set(self, path: str, data: bytes, *, replace: bool) -> bool:
        held = self._held()
        with self._objects.lock:
            if not replace and path in held:
                return False
            held[check_path(path)] = data, datetime.now(UTC)
            return True
