"""The page put in its place, whole or not at all: whoever looks meanwhile sees the page before."""

import os
from pathlib import Path

from ckptstore.errors import UsageError
from ckptstore.operations.report.content import StoreReport
from ckptstore.operations.report.page import page
from manifests import paths

BEGINS = b"<!DOCTYPE html>"

__all__ = ["check_out", "write_page"]


def check_out(out: Path) -> None:
    """Raise `UsageError` where no page can be put: no folder, or something there that is no page and stays."""
    if not out.parent.is_dir():
        raise UsageError(f"out = '{out}': there is no folder {out.parent}", hint=f"mkdir -p {out.parent}", key="out")
    if not out.exists() and not out.is_symlink():
        return
    if out.is_file():
        with out.open("rb") as file:
            if file.read(len(BEGINS)) in {BEGINS, b""}:
                return
    raise UsageError(f"out = '{out}' is there and no HTML page", hint="name another file", key="out")


def write_page(report: StoreReport, out: Path) -> None:
    """Write beside it, then put it in its place."""
    place = out.resolve()
    beside = place.with_name(f".{place.name}.{paths.new_token()[:8]}")
    try:
        with beside.open("xb") as file:
            file.write(page(report))
            file.flush()
            os.fsync(file.fileno())
        beside.replace(place)
    finally:
        beside.unlink(missing_ok=True)
