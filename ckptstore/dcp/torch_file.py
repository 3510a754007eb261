"""What `torch.save` wrote, read without running anything in it."""

import os
import pickle
import sys
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

import torch

from ckptstore.errors import UnsupportedValue, UsageError

__all__ = ["TorchFile", "load_torch_file", "load_torch_value"]


class TorchFile(NamedTuple):
    """What was in a file. `mapped`: all its tensors lie in a private mapping of the file, as the file has them."""

    value: Any
    mapped: bool


def load_torch_file(path: str | os.PathLike[str]) -> TorchFile:
    """The state dict in a file of `torch.save`. Raises as `load_torch_value`; `UnsupportedValue` for another value."""
    loaded = load_torch_value(path)
    if isinstance(loaded.value, torch.Tensor):
        return TorchFile({"tensor": loaded.value}, loaded.mapped)
    if not isinstance(loaded.value, dict):
        hint = "save a dict of tensors"
        raise UnsupportedValue(f"{path} holds a {type(loaded.value).__name__}, not a state dict", hint=hint)
    return loaded


def load_torch_value(path: str | os.PathLike[str]) -> TorchFile:
    """What is in a file of `torch.save`: tensors are mapped, not read, where the file allows it.

    Raises `UsageError` where there is no such file, `UnsupportedValue` for one that needs code to be run.
    """
    if not Path(path).is_file():
        raise UsageError(f"there is no file {path}", hint="name a .safetensors file, a .pt file or a folder")
    try:
        return TorchFile(*_load(path))
    except (pickle.UnpicklingError, RuntimeError, EOFError, ValueError, zipfile.BadZipFile) as error:
        reason = str(error).strip().partition("\n")[0]
        hint = "load it in Python where you trust it, and save plain tensors: run.save(state_dict, step=…)"
        raise UnsupportedValue(f"{path} can't be read with weights_only=True: {reason}", hint=hint) from error


def _load(path: str | os.PathLike[str]) -> tuple[Any, bool]:
    try:
        return torch.load(path, map_location="cpu", weights_only=True, mmap=True), not _is_swapped(path)
    except RuntimeError as error:
        if "mmap" not in str(error):
            raise
        return torch.load(path, map_location="cpu", weights_only=True), False  # the format before torch 1.6


def _is_swapped(path: str | os.PathLike[str]) -> bool:
    """Whether torch has put the bytes of each number into another order, in memory that is no longer the file's."""
    with zipfile.ZipFile(path) as archive:
        orders = {archive.read(name) for name in archive.namelist() if name.endswith("/byteorder")}
    return bool(orders - {sys.byteorder.encode()})
