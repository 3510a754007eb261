"""The half of the file system that looks and reads. There is no cache of listings: every question reads the run."""

import errno
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from fsspec.spec import AbstractFileSystem

from ckptstore.errors import CkptStoreError
from ckptstore.filesystem.contents import Contents, read_ranges
from ckptstore.filesystem.location import PROTOCOL, Location, parent_of, stripped
from ckptstore.filesystem.staging import Staging, staging_of
from ckptstore.filesystem.view import Entry, View
from ckptstore.opened import shared
from ckptstore.operations.restore import FileToWrite
from ckptstore.store import Store, open_store

__all__ = ["ReadingFileSystem", "file_of", "missing"]


class ReadingFileSystem(AbstractFileSystem):  # type: ignore[misc]
    """Paths, what is there, and what it holds."""

    protocol = PROTOCOL
    root_marker = ""

    # -- paths ----------------------------------------

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list | tuple):
            return [cls._strip_protocol(each) for each in path]
        return stripped(os.fspath(path))

    @classmethod
    def _parent(cls, path: str) -> str:
        return parent_of(cls._strip_protocol(path))

    @property
    def fsid(self) -> str:
        """One for all: a path says everything."""
        return PROTOCOL

    def _place(self, path: Any) -> Location:
        return Location.of(self._strip_protocol(path))

    def _staging(self, place: Location) -> Staging:
        return staging_of(shared(_store(place).config), place.run)

    def _view(self, place: Location) -> View:
        return View(self._staging(place))

    # -- looking ----------------------------------------

    def info(self, path: str, **_kwargs: Any) -> dict[str, Any]:
        """Name, size and type; of a file also `key`, which differs between versions. Raises `FileNotFoundError`."""
        place = self._place(path)
        if not place.run:
            _store(place)
            return {"name": str(place), "size": 0, "type": "directory"}
        entry = self._view(place).entry(place.path)
        if entry is None:
            raise missing(path)
        return self.info_of(path, entry)

    def info_of(self, path: str, entry: Entry) -> dict[str, Any]:
        """The same of what has been looked up already."""
        return entry.info(str(self._place(path).beside("")))

    def ls(self, path: str, detail: bool = True, **_kwargs: Any) -> list[Any]:
        """What lies in a directory: in a store its runs, in a run its checkpoints. Raises `FileNotFoundError`."""
        place = self._place(path)
        infos = self._runs(place) if not place.run else self._children(place, path)
        return infos if detail else [info["name"] for info in infos]

    def _runs(self, place: Location) -> list[dict[str, Any]]:
        names = [str(place._replace(run=run)) for run in _store(place).runs()]
        return [{"name": name, "size": 0, "type": "directory"} for name in names]

    def _children(self, place: Location, path: str) -> list[dict[str, Any]]:
        view = self._view(place)
        here = view.entry(place.path)
        if here is None:
            raise missing(path)
        return [self.info_of(path, entry) for entry in (view.children(place.path) if here.is_folder else [here])]

    def find(
        self, path: str, maxdepth: int | None = None, withdirs: bool = False, detail: bool = False, **kwargs: Any
    ) -> Any:
        """All files below a path, as they are at one moment. With `withdirs` directories too."""
        place = self._place(path)
        if not place.run:
            return super().find(path, maxdepth=maxdepth, withdirs=withdirs, detail=detail, **kwargs)
        if maxdepth is not None and maxdepth < 1:
            raise ValueError("maxdepth must be at least 1")
        entries = self._view(place).entries(place.path)
        found = {}
        for entry in (entries[name] for name in sorted(entries)):
            deep = _depth(entry.path) - _depth(place.path)
            if (withdirs or not entry.is_folder) and (maxdepth is None or deep <= maxdepth):
                info = self.info_of(path, entry)
                found[info["name"]] = info
        return found if detail else list(found)

    def glob(self, path: str, maxdepth: int | None = None, **kwargs: Any) -> Any:
        """As everywhere, but a name that is there means itself, whatever characters it holds."""
        literal = self._strip_protocol(path)
        if not path.endswith("/") and self.exists(literal):
            return {literal: self.info(literal)} if kwargs.get("detail") else [literal]
        return super().glob(path, maxdepth=maxdepth, **kwargs)

    def exists(self, path: str, **_kwargs: Any) -> bool:
        """Whether there is anything. Raises where that can't be told: a store out of reach is no empty one."""
        try:
            self.info(path)
        except FileNotFoundError:
            return False
        return True

    def isdir(self, path: str) -> bool:
        """Whether it is a directory. Raises as `exists`."""
        return self._is(path, "directory")

    def isfile(self, path: str) -> bool:
        """Whether it is a file. Raises as `exists`."""
        return self._is(path, "file")

    def _is(self, path: str, kind: str) -> bool:
        try:
            return bool(self.info(path)["type"] == kind)
        except FileNotFoundError:
            return False

    # -- reading ----------------------------------------

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **_kwargs: Any) -> bytes:
        """A file's bytes, or a range: as in a slice, negative numbers count from its end."""
        (data,) = self.cat_ranges([path], [start], [end])
        assert isinstance(data, bytes)
        return data

    def cat_ranges(
        self,
        paths: Sequence[str],
        starts: Any,
        ends: Any,
        max_gap: int | None = None,  # noqa: ARG002 - as in fsspec
        on_error: str = "raise",
        **_kwargs: Any,
    ) -> list[Any]:
        """Ranges of files, those of one checkpoint read together. Raises as a load, unless `on_error` is "return".

        `max_gap` changes nothing: no byte is read twice, and whole blocks are.
        """
        reading = _Ranges(len(paths), raising=on_error == "raise")
        views: dict[Location, View] = {}
        for number, (path, start, end) in enumerate(zip(paths, _each(starts, paths), _each(ends, paths), strict=True)):
            with reading.failures_of([number]):
                place = self._place(path)
                run = place.beside("")
                if run not in views:
                    views[run] = self._view(place)
                contents, file = views[run].open(file_of(views[run], place, path))
                reading.add(number, contents, file, start, end)
        return reading.read()


class _Ranges:
    """Ranges wanted, by the contents that they are read from, and what came of each."""

    def __init__(self, count: int, *, raising: bool) -> None:
        self._raising = raising
        self._results: list[Any] = [b""] * count
        self._wanted: dict[Contents, list[tuple[int, FileToWrite, int, int]]] = {}

    def add(self, number: int, contents: Contents, file: FileToWrite, start: int | None, end: int | None) -> None:
        low, high, _ = slice(start, end).indices(file.size)
        self._wanted.setdefault(contents, []).append((number, file, low, max(low, high)))

    def read(self) -> list[Any]:
        for contents, wanted in self._wanted.items():
            with self.failures_of([number for number, *_ in wanted]):
                read = read_ranges(contents.source(), [(file, low, high) for _, file, low, high in wanted])
                for (number, *_), data in zip(wanted, read, strict=True):
                    self._results[number] = data
        return self._results

    @contextmanager
    def failures_of(self, numbers: Iterable[int]) -> Iterator[None]:
        """Where nothing is to be raised, an error is the result."""
        try:
            yield
        except (CkptStoreError, OSError) as error:
            if self._raising:
                raise
            for number in numbers:
                self._results[number] = error


def missing(path: str) -> FileNotFoundError:
    """The error for what is not there."""
    return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)


def file_of(view: View, place: Location, path: str) -> Entry:
    """The file at a path. Raises `FileNotFoundError`, `IsADirectoryError`."""
    entry = view.entry(place.path)
    if entry is None:
        raise missing(path)
    if entry.is_folder:
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    return entry


def _store(place: Location) -> Store:
    return open_store(place.store or None)


def _each(numbers: Any, paths: Sequence[str]) -> Sequence[Any]:
    """One number a path: what fsspec takes is one for all, or a list."""
    return numbers if isinstance(numbers, list | tuple) else [numbers] * len(paths)


def _depth(path: str) -> int:
    return path.count("/") + 1 if path else 0
