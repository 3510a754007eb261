"""fsspec's own suites of what every file system does. Those of patterns, 90 of 137, are for `make soak`."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from fsspec.tests.abstract import AbstractFixtures
from fsspec.tests.abstract.copy import AbstractCopyTests
from fsspec.tests.abstract.get import AbstractGetTests
from fsspec.tests.abstract.open import AbstractOpenTests
from fsspec.tests.abstract.pipe import AbstractPipeTests
from fsspec.tests.abstract.put import AbstractPutTests

import ckptstore
from ckptstore.filesystem import CheckpointFileSystem
from ckptstore.opened import release
from tests.filesystem.conftest import write_store


class Fixtures(AbstractFixtures):
    @pytest.fixture(scope="class")
    @classmethod
    def store(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
        folder = tmp_path_factory.mktemp("store")
        path = write_store(folder, names="ab", code="1+1", url=f"memory://{folder}/{{name}}")  # some 1,500 files
        yield path
        release(ckptstore.Config.load(path))

    @pytest.fixture
    def fs(self) -> CheckpointFileSystem:
        return CheckpointFileSystem()

    @pytest.fixture
    def fs_path(self, store: Path) -> str:
        return f"{store}!train/base"


class TestCopy(Fixtures, AbstractCopyTests):
    test_copy_glob_edge_cases = pytest.mark.soak(AbstractCopyTests.test_copy_glob_edge_cases)


class TestGet(Fixtures, AbstractGetTests):
    test_get_glob_edge_cases = pytest.mark.soak(AbstractGetTests.test_get_glob_edge_cases)


class TestOpen(Fixtures, AbstractOpenTests): ...


class TestPipe(Fixtures, AbstractPipeTests): ...


class TestPut(Fixtures, AbstractPutTests):
    test_put_glob_edge_cases = pytest.mark.soak(AbstractPutTests.test_put_glob_edge_cases)
