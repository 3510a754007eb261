"""The conformance suite on memory: our own target, and fsspec's."""

from datetime import UTC, datetime

import fsspec
import pytest

from ckptstore.targets import opening as opening_module
from ckptstore.targets.testing import Outside, TargetTests, unique
from tests.conformance.conftest import ODD_ROOT


class DictOutside(Outside):
    """The dict that a memory target keeps its objects in."""

    def __init__(self, root: str) -> None:
        self.objects = opening_module._memory

        self.root = root

    def read(self, path: str) -> bytes:
        return self.objects[self.root].by_path[path][0]

    def write(self, path: str, data: bytes) -> None:
        self.objects[self.root].by_path[path] = data, datetime.now(UTC)

    def paths(self) -> set[str]:
        return set(self.objects[self.root].by_path)


class FsspecOutside(Outside):
    """The dict that fsspec's memory filesystem keeps its files in."""

    def __init__(self, root: str) -> None:
        self.files = fsspec.filesystem("memory").store
        self.root = f"/{root}/"

    def read(self, path: str) -> bytes:
        return self.files[self.root + path].getvalue()

    def write(self, path: str, data: bytes) -> None:
        fsspec.filesystem("memory").pipe_file(self.root + path, data)

    def paths(self) -> set[str]:
        return {path.removeprefix(self.root) for path in self.files if path.startswith(self.root)}


class TestMemory(TargetTests):
    @pytest.fixture
    def opening(self):
        return {"name": "t", "url": f"memory://{unique()}/{ODD_ROOT}"}

    @pytest.fixture
    def outside(self, opening):
        return DictOutside(opening["url"].removeprefix("memory://"))


class TestFsspecMemory(TargetTests):
    @pytest.fixture
    def opening(self):
        return {"name": "t", "url": f"fsspec+memory://{unique()}/{ODD_ROOT}"}

    @pytest.fixture
    def outside(self, opening):
        return FsspecOutside(opening["url"].removeprefix("fsspec+memory://"))
