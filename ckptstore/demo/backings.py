"""What stands behind the demo's targets, handled without ckptstore: read, damaged, wiped, taken away."""

import shutil
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

__all__ = ["Backing", "Backings", "DirectoryBackings"]


class Backing(ABC):
    """One directory or bucket, reached by plain means."""

    def __init__(self, name: str, url: str, options: dict[str, Any] | None = None) -> None:
        self.name = name
        self.url = url
        self.options = options or {}

    @abstractmethod
    def objects(self, prefix: str) -> set[str]:
        """List the paths below `prefix`, which ends in a slash."""

    @abstractmethod
    def get(self, path: str) -> bytes:
        """Read one object."""

    @abstractmethod
    def put(self, path: str, data: bytes) -> None:
        """Overwrite one object."""

    @abstractmethod
    def wipe(self) -> None:
        """Lose everything, for good."""

    @abstractmethod
    def leave(self) -> None:
        """Go out of reach and keep what is there."""

    @abstractmethod
    def come_back(self) -> None:
        """Be in reach again after `leave`."""


class Backings(ABC):
    """The six of a store, and a fresh one where a lost one must be replaced."""

    kind: str

    def __init__(self, names: str) -> None:
        self.members = {name: self._make(name) for name in names}

    def replace(self, old: str, new: str) -> None:
        """Put a fresh one named `new` where `old` was."""
        del self.members[old]
        self.members[new] = self._make(new)

    @abstractmethod
    def _make(self, name: str) -> Backing: ...

    @abstractmethod
    def close(self) -> None:
        """Stop whatever was started for them."""

    def __getitem__(self, name: str) -> Backing:
        return self.members[name]


class DirectoryBacking(Backing):
    """A directory; out of reach means moved aside, as an unmounted disk is."""

    def __init__(self, name: str, folder: Path) -> None:
        super().__init__(name, str(folder))
        self.folder = folder
        self._aside = folder.with_name(f"{folder.name}.away")
        folder.mkdir(parents=True)

    def objects(self, prefix: str) -> set[str]:
        files = (self.folder / prefix).rglob("*")
        return {str(file.relative_to(self.folder)) for file in files if file.is_file()}

    def get(self, path: str) -> bytes:
        return (self.folder / path).read_bytes()

    def put(self, path: str, data: bytes) -> None:
        (self.folder / path).write_bytes(data)

    def wipe(self) -> None:
        shutil.rmtree(self.folder)

    def leave(self) -> None:
        self.folder.rename(self._aside)

    def come_back(self) -> None:
        self._aside.rename(self.folder)


class DirectoryBackings(Backings):
    """Six directories in one folder."""

    kind = "directories"

    def __init__(self, folder: Path, names: str) -> None:
        self._folder = folder
        super().__init__(names)

    def _make(self, name: str) -> Backing:
        return DirectoryBacking(name, self._folder / name)

    def close(self) -> None:
        """Leave the directories, for the person to look at."""
