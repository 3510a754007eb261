"""A checkpoint of another tool into the store: which format it is of, what would be saved, and saving it."""

from collections.abc import Callable
from pathlib import Path

from ckptstore.commit import About
from ckptstore.events import Observer, ignore
from ckptstore.formats.huggingface_import import plan_huggingface
from ckptstore.formats.names import DCP, DEEPSPEED, HUGGING_FACE, READ, TORCH, check_format, format_of
from ckptstore.opened import Opened
from ckptstore.operations.ingest import Plan, ingest
from ckptstore.work import work
from manifests import Manifest

__all__ = ["import_checkpoint", "plan_import"]


def plan_import(path: Path, name: str | None = None) -> tuple[str, Plan]:
    """The format, by `name` or as the path looks, and what would be saved. Reads no data of tensors.

    Raises `UsageError` for what is no checkpoint; `UnsupportedValue`, `KeyCollision` for one that isn't as its format
    wants it, naming the file or the tensor.
    """
    chosen = check_format(name, READ) if name is not None else format_of(path)
    return chosen, _planner(chosen)(path)


def import_checkpoint(opened: Opened, run: str, made: Plan, about: About, observer: Observer = ignore) -> Manifest:
    """Save and commit what was planned. Raises as `operations.ingest.ingest`."""
    with work("save", run, about.step, observer) as saving:
        return ingest(opened, run, made, about, saving.observe)


def _planner(name: str) -> Callable[[Path], Plan]:
    """Those of torch's formats are imported when they are asked for."""
    if name == HUGGING_FACE:
        return plan_huggingface
    if name == DCP:
        from ckptstore.formats.torch_dcp_import import plan_dcp

        return plan_dcp
    if name == DEEPSPEED:
        from ckptstore.formats.torch_deepspeed import plan_deepspeed

        return plan_deepspeed
    assert name == TORCH, name
    from ckptstore.formats.torch_state import plan_torch_file

    return plan_torch_file
