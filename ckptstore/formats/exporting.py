"""A checkpoint of the store into an open format: planned, with everything that speaks against it, and then written."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ckptstore.config import parse_size
from ckptstore.errors import UsageError
from ckptstore.events import Observer, ignore
from ckptstore.formats.choosing import Chosen, choose
from ckptstore.formats.huggingface_export import plan_huggingface_export
from ckptstore.formats.names import (
    DCP,
    HUGGING_FACE,
    SAFETENSORS,
    TORCH,
    TORCH_FILES,
    WRITTEN,
    check_format,
    format_to_write,
)
from ckptstore.operations.placing import RestorePlan
from ckptstore.operations.restore import restore
from ckptstore.source import Source

SHARD_SIZE = "5GB"

__all__ = ["SHARD_SIZE", "Export", "export", "plan_export"]


@dataclass(frozen=True)
class Export:
    """What would be written, or was: files below `plan.folder`, and what is left out since the format lacks it."""

    format: str
    plan: RestorePlan
    chosen: Chosen

    @property
    def files(self) -> list[Path]:
        """The files by their paths."""
        return [self.plan.folder / file.path for file in self.plan.files]

    @property
    def left_out(self) -> tuple[str, ...]:
        """Objects that a Hugging Face folder has no place for; files kept whole that another format has none for."""
        return self.plan.left_out


def plan_export(
    source: Source,
    path: Path,
    *,
    name: str | None = None,
    include: Sequence[str] = (),
    prefix: str = "",
    shard_size: int | str = SHARD_SIZE,
    force: bool = False,
) -> Export:
    """What would be written for `path`; nothing is. `name`: the format, else as `path` ends.

    `include`: patterns of the keys wanted. `prefix`: only what is below it, and named without it. `shard_size`: of the
    tensors in one file of a Hugging Face folder. Raises `UnsupportedValue` naming tensors of a dtype that the format
    lacks, `NotFoundError` where nothing is chosen, `UsageError` for what is in the way and not to be replaced.
    """
    place = Path(os.path.abspath(path))  # noqa: PTH100 - a link in it is the user's own
    kind = check_format(name, WRITTEN) if name is not None else format_to_write(place)
    _check_ending(place, kind)
    shard_bytes = _shard_bytes(shard_size)
    chosen = choose(source, include, prefix)
    if kind == HUGGING_FACE:
        return Export(
            kind, plan_huggingface_export(source, place, chosen, shard_bytes=shard_bytes, force=force), chosen
        )
    if kind == DCP:
        from ckptstore.formats.torch_dcp_export import plan_dcp_export

        return Export(kind, plan_dcp_export(source, place, chosen, force=force), chosen)
    from ckptstore.formats.torch_export import plan_torch_export

    return Export(kind, plan_torch_export(source, place, chosen, force=force), chosen)


def export(source: Source, planned: Export, observer: Observer = ignore) -> None:
    """Write it: under temporary names, the file that makes a checkpoint of them last.

    Raises `DataLost`, `OutOfReach`, `CorruptError`, `OSError`; no file has its name then.
    """
    if planned.format == HUGGING_FACE:
        restore(source, planned.plan, observer, called="export")
    elif planned.format == DCP:
        from ckptstore.formats.torch_dcp_export import export_dcp

        export_dcp(source, planned.plan, planned.chosen, observer)
    else:
        from ckptstore.formats.torch_export import export_torch_file

        export_torch_file(source, planned.plan, planned.chosen, observer)


def _check_ending(place: Path, kind: str) -> None:
    """A torch file has an ending of one, a folder none."""
    if kind == TORCH and place.suffix not in TORCH_FILES:
        raise UsageError(f"{place} is to be a file of torch", hint=f"let its name end in {', '.join(TORCH_FILES)}")
    if kind != TORCH and place.suffix in (SAFETENSORS, *TORCH_FILES):
        hint = "name a folder; one .safetensors file: ckpt restore, one .pt file: --format torch"
        raise UsageError(f"{place} is to be a folder, and ends as a file does", hint=hint)


def _shard_bytes(size: int | str) -> int:
    found = parse_size(size, "max_shard_size")
    if found < 1:
        raise UsageError(f"max_shard_size = {size!r}: a size from 1 is wanted", hint="as in 5GB")
    return found
