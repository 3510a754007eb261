"""What `torch.save` wrote, read without running anything in it."""

import os
import pickle
from pathlib import Path
from typing import Any

import torch

from ckptstore.errors import UnsupportedValue, UsageError

__all__ = ["load_torch_file"]


def load_torch_file(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The state dict in a file of `torch.save`: tensors are mapped, not read, where the file allows it.

    Raises `UsageError` where there is no such file, `UnsupportedValue` for one that needs code to be run, or that
    holds no dict.
    """
    if not Path(path).is_file():
        raise UsageError(f"there is no file {path}", hint="name a .safetensors file, a .pt file or a folder")
    try:
        state = _load(path)
    except (pickle.UnpicklingError, RuntimeError, EOFError, ValueError) as error:
        reason = str(error).strip().partition("\n")[0]
        hint = "load it in Python where you trust it, and save plain tensors: run.save(state_dict, step=…)"
        raise UnsupportedValue(f"{path} can't be read with weights_only=True: {reason}", hint=hint) from error
    if isinstance(state, torch.Tensor):
        return {"tensor": state}
    if not isinstance(state, dict):
        hint = "save a dict of tensors"
        raise UnsupportedValue(f"{path} holds a {type(state).__name__}, not a state dict", hint=hint)
    return state


def _load(path: str | os.PathLike[str]) -> Any:
    try:
        return torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except RuntimeError as error:
        if "mmap" not in str(error):
            raise
        return torch.load(path, map_location="cpu", weights_only=True)  # the format before torch 1.6
