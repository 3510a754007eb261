"""Which dtypes `torch.save` can write and `torch.load` read again."""

import io
import pickle
from functools import cache

import torch

from ckptstore.dcp.tensors import torch_dtype
from ckptstore.formats.choosing import Chosen, check_dtypes
from ckptstore.source import Source

__all__ = ["check_torch_dtypes"]


def check_torch_dtypes(source: Source, chosen: Chosen) -> None:
    """Raise `UnsupportedValue` naming the tensors of a dtype that a file of this torch can't hold."""
    hint = "leave them out with --include, or export with another torch"
    check_dtypes(source, chosen, _is_held, f"files of torch {torch.__version__}", hint)


@cache
def _is_held(name: str) -> bool:
    """Tried with a tensor of nothing: torch's tables of what it can pickle lag behind its dtypes."""
    file = io.BytesIO()
    try:
        torch.save(torch.empty(0, dtype=torch_dtype(name)), file)
        file.seek(0)
        torch.load(file, weights_only=True)
    except (KeyError, RuntimeError, NotImplementedError, AttributeError, pickle.UnpicklingError):
        return False
    return True
