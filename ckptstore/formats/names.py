"""The formats by name, and which one a path holds."""

from collections.abc import Callable
from pathlib import Path

from ckptstore.errors import UsageError

HUGGING_FACE = "hf"
DCP = "dcp"
TORCH = "torch"
DEEPSPEED = "deepspeed"

SAFETENSORS = ".safetensors"
INDEX = ".safetensors.index.json"
TORCH_FILES = (".pt", ".pth", ".bin")
DCP_METADATA = ".metadata"

READ = (HUGGING_FACE, DCP, TORCH, DEEPSPEED)
WRITTEN = (HUGGING_FACE, DCP, TORCH)

__all__ = [
    "DCP",
    "DCP_METADATA",
    "DEEPSPEED",
    "HUGGING_FACE",
    "INDEX",
    "READ",
    "SAFETENSORS",
    "TORCH",
    "TORCH_FILES",
    "WRITTEN",
    "check_format",
    "format_of",
    "format_to_write",
]


def check_format(name: str, allowed: tuple[str, ...]) -> str:
    """`name` if it is one of `allowed`. Raises `UsageError`."""
    if name not in allowed:
        raise UsageError(f"format = {name!r:.40}: one of {', '.join(allowed)} is wanted", hint="leave it out")
    return name


def format_of(path: Path) -> str:
    """The format that a file or a folder is of. Raises `UsageError` where it is of none, or of several."""
    if path.is_file():
        found = [HUGGING_FACE] if path.suffix == SAFETENSORS else [TORCH] if path.suffix in TORCH_FILES else []
    elif path.is_dir():
        found = [name for name, holds in _FOLDERS.items() if holds(path)]
    else:
        raise UsageError(f"there is no file or folder {path}", hint="name the checkpoint that is to be imported")
    if len(found) == 1:
        return found[0]
    if found:
        raise UsageError(f"{path} may be {' or '.join(found)}", hint=f"say which it is: --format {found[0]}")
    hint = (
        "a folder of .safetensors files, a DCP folder, a .pt file or a DeepSpeed universal checkpoint can be imported"
    )
    raise UsageError(f"{path} is no checkpoint of a format that is known", hint=f"{hint}; any folder: ckpt save")


def format_to_write(path: Path) -> str:
    """The format that a name asks for: a torch file by its ending, else a Hugging Face folder."""
    return TORCH if path.suffix in TORCH_FILES else HUGGING_FACE


_FOLDERS: dict[str, Callable[[Path], bool]] = {
    DCP: lambda path: (path / DCP_METADATA).exists(),
    DEEPSPEED: lambda path: (path / "zero").is_dir(),
    HUGGING_FACE: lambda path: any(entry.name.endswith((SAFETENSORS, INDEX)) for entry in path.iterdir()),
}
