"""Sets the demo up, plays it, clears up, and says in words whether all of it held."""

import shutil
from pathlib import Path

from ckptstore.demo.backings import Backings, DirectoryBackings
from ckptstore.demo.buckets import BucketBackings
from ckptstore.demo.jobs import StuckError
from ckptstore.demo.report import CheckError, Report
from ckptstore.demo.scenario import NAMES, Scenario
from ckptstore.errors import UsageError

__all__ = ["run_demo"]

MARKER = ".ckptstore-demo"


def run_demo(folder: Path, *, s3: bool = False) -> int:
    """Play the demo in `folder`. Returns the exit code: 0 only if every check held.

    Raises UsageError if `folder` holds something that no earlier demo left there.
    """
    folder = folder.resolve()  # store.toml's own targets would start in its folder, not in this process's
    empty(folder)
    report = Report()
    backings = make_backings(folder, s3=s3)
    report.title(
        f"ckptstore demo: a training run on six {backings.kind} at 4+2",
        f"GPT of 1.9 M parameters on Python's own source, FSDP2 on gloo ranks; everything is in {folder}/",
    )
    try:
        Scenario(folder, backings, report).play()
    except (CheckError, StuckError) as error:
        report.last(held=False, text=f"Not all of it held: {error}. Logs: {folder}/*.log")
        return 1
    finally:
        backings.close()
    report.last(
        held=True,
        text=f"All of it held ({report.checks} checks, {report.seconds:.0f} s): the run that lost a rank, "
        "three targets and a bit ended bit-equal to the run that lost nothing, and the store is whole again.",
    )
    return 0


def make_backings(folder: Path, *, s3: bool) -> Backings:
    """Make six directories, or start six servers with a bucket each."""
    place = folder / "targets"
    return BucketBackings(place, NAMES) if s3 else DirectoryBackings(place, NAMES)


def empty(folder: Path) -> None:
    """Remove what an earlier demo left; refuse to remove anything else."""
    if folder.exists() and any(folder.iterdir()) and not (folder / MARKER).exists():
        raise UsageError(f"{folder} is not empty and not from an earlier demo", hint="name another one with --folder")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / MARKER).touch()
