"""Where a restore writes: never outside the path given, never over what is there unless told, all or nothing.

Files are written in a fresh folder on the same file system and moved from there when all of them are right.
"""

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from ckptstore.errors import UsageError

SAFETENSORS = ".safetensors"

__all__ = ["SAFETENSORS", "FileToWrite", "RestorePlan", "checked", "publish", "staging"]


@dataclass(frozen=True)
class FileToWrite:
    """A file: `header` (empty for one kept whole), then each tensor at its offset. `objects` instead: a JSON file."""

    path: str
    size: int
    header: bytes = b""
    offsets: tuple[tuple[str, int], ...] = ()
    objects: tuple[str, ...] = ()


@dataclass(frozen=True)
class RestorePlan:
    """What is to be written below `folder`. `fresh`: the folder itself is made, and nothing is there yet.

    `marker`: the last of the files, without which readers take none of the others for a checkpoint.
    """

    folder: Path
    files: tuple[FileToWrite, ...]
    left_out: tuple[str, ...]
    replaced: tuple[str, ...]
    fresh: bool
    marker: str | None = None

    @property
    def bytes(self) -> int:
        """All of it; objects as what they take at most is not known before."""
        return sum(file.size for file in self.files)


def checked(plan: RestorePlan, place: Path, *, force: bool) -> RestorePlan:
    """What is in the way: refused, unless it may be replaced."""
    is_file = place != plan.folder
    wrong = place.is_dir() if is_file else place.exists() and not place.is_dir()
    if wrong:
        kind = "a folder" if is_file else "a file"
        raise UsageError(
            f"{place} is {kind}", hint=f"name a path that ends in {SAFETENSORS} or .pt for a file, another for a folder"
        )
    there = tuple(file.path for file in plan.files if os.path.lexists(plan.folder / file.path))
    occupied = [] if is_file or plan.fresh else sorted(entry.name for entry in place.iterdir())
    if (there or occupied) and not force:
        found = ", ".join((there or tuple(occupied))[:5])
        raise UsageError(
            f"{plan.folder} holds {found} already", hint="name another path, or replace what is there: --force"
        )
    for file in plan.files:
        _check_inside(plan.folder, file.path)
    return replace(plan, replaced=there)


def _check_inside(folder: Path, path: str) -> None:
    """No link on the way may lead out of the folder, and no folder may stand where a file is to be."""
    target = folder / path
    if not target.parent.resolve().is_relative_to(folder.resolve()):
        raise UsageError(f"{target} leads out of {folder} by a link", hint="restore to another path")
    if target.is_dir() and not target.is_symlink():
        raise UsageError(f"{target} is a folder, where a file is to be", hint="restore to another path")


@contextmanager
def staging(plan: RestorePlan) -> Iterator[Path]:
    """A fresh folder on the same file system, gone afterwards whatever happens."""
    token = secrets.token_hex(4)
    stage = (
        plan.folder.parent / f".{plan.folder.name}.{token}.part" if plan.fresh else plan.folder / f".ckpt-{token}.part"
    )
    try:
        stage.mkdir(parents=True)  # a signal may come as soon as it is there
        yield stage
    finally:
        shutil.rmtree(stage, ignore_errors=True)


def publish(plan: RestorePlan, stage: Path) -> None:
    """Give what was written in `stage` its names, durably."""
    if plan.fresh:
        stage.rename(plan.folder)
        _sync(plan.folder.parent)
        return
    if plan.marker is not None:  # else an older one would stand by files that are in part new
        (plan.folder / plan.marker).unlink(missing_ok=True)
        _sync(plan.folder)
    for file in plan.files:
        _check_inside(plan.folder, file.path)
        target = plan.folder / file.path
        target.parent.mkdir(parents=True, exist_ok=True)
        (stage / file.path).replace(target)
        _sync(target.parent)


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
