"""The earlier drills that a report tells of. What is none of them is named and skipped."""

from collections.abc import Collection
from datetime import datetime
from pathlib import Path

from ckptstore.errors import UsageError
from ckptstore.operations.drill.earlier import read_earlier
from ckptstore.operations.report.content import Drills
from ckptstore.redaction import redacted

__all__ = ["check_folder", "read_drills"]


def check_folder(folder: Path) -> None:
    """Raise `UsageError` for what is no folder."""
    if not folder.is_dir():
        hint = f"drills write there: ckpt drill --report-dir {folder}"
        raise UsageError(f"reports = '{folder}': no such folder", hint=hint, key="reports")


def read_drills(folder: Path | None, store: str, runs: Collection[str]) -> Drills:
    """The drills of these runs of a store, in the order of their times."""
    if folder is None:
        return Drills()
    found = []
    skipped: dict[str, str] = {}
    for path, drill in read_earlier(folder):
        if isinstance(drill, str):
            skipped[path.name] = redacted(drill)
        elif drill.store != store:
            skipped[path.name] = redacted(f"a drill of another store, {drill.store}")
        elif drill.run in runs:
            found.append((datetime.fromisoformat(drill.began), path.stem, drill))
    in_order = sorted(found, key=lambda each: each[:2])  # of one second too: the second one's name has a number more
    return Drills(str(folder), [drill for _, _, drill in in_order], skipped)
