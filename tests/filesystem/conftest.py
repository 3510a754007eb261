"""A store on directories, and the file system over it."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import fsspec
import pytest

import ckptstore
from ckptstore.filesystem import CheckpointFileSystem
from ckptstore.opened import release, shared
from ckptstore.operations.setup import init

NAMES = "abcdef"
STRIPE = 4 * 64 * 1024

fsspec.register_implementation("ckpt", CheckpointFileSystem, clobber=True)


@dataclass(frozen=True)
class Place:
    """A store in a folder, and a run of it."""

    folder: Path
    root: str

    @property
    def url(self) -> str:
        """Of the run."""
        return f"ckpt://{self.root}"

    @property
    def run(self) -> ckptstore.Run:
        """The run, in the Python API."""
        return ckptstore.open(self.folder / "store.toml").run("train")

    def objects(self) -> int:
        """How many files all targets hold."""
        return sum(len(files) for name in NAMES for _, _, files in os.walk(self.folder / name))


def write_store(folder: Path, *, names: str = NAMES, code: str = "4+2", extra: str = "", url: str = "{name}") -> Path:
    """store.toml for some targets, directories unless told, and the store."""
    path = folder / "store.toml"
    tables = "\n".join(f'[[targets]]\nname = "{name}"\nurl = "{url.format(name=name)}"\n' for name in names)
    path.write_text(f'name = "store"\ncode = "{code}"\nfragment_size = "64KiB"\n{extra}\n{tables}')
    init(shared(ckptstore.Config.load(path)))
    return path


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    path = write_store(tmp_path)
    yield Place(tmp_path, f"{path}!train")
    release(ckptstore.Config.load(path))


@pytest.fixture
def fs() -> CheckpointFileSystem:
    return CheckpointFileSystem()
