"""A nested state of tensors in files, as a plan: names, ties and containers as `run.save` keeps them.

The tensors lie in files that torch has mapped. Of a mapping only what is being copied stays in memory.
"""

import ctypes
import mmap
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from ckptstore.buffers import Bytes
from ckptstore.dcp.pieces import Pieces
from ckptstore.dcp.save_planner import CheckpointSavePlanner
from ckptstore.dcp.state import check_state
from ckptstore.dcp.torch_file import load_torch_file
from ckptstore.operations.ingest import Plan, watched
from ckptstore.save.stream import Piece

__all__ = ["plan_state", "plan_torch_file"]


def plan_torch_file(path: Path) -> Plan:
    """What would be saved of a file of `torch.save`. Nothing in it is run. Raises as `load_torch_file` does."""
    loaded = load_torch_file(path)
    return plan_state(loaded.value, [path], mapped=loaded.mapped)


def plan_state(state: dict[str, Any], files: Sequence[Path], *, mapped: bool) -> Plan:
    """What would be saved of a state that was loaded from these files. `mapped`: all its tensors lie in mappings.

    Raises `UsageError` for an empty one, `UnsupportedValue` and `KeyCollision` naming the key.
    """
    check_state(state)
    planner = CheckpointSavePlanner()
    planner.set_up_planner(state, is_coordinator=True)
    plans, metadata = planner.create_global_plan([planner.create_local_plan()])
    planned = planner.finish_plan(plans[0])
    made = Plan(files=[watched(path) for path in files], structure=planner.structure, paths=metadata.planner_data or {})
    pieces = Pieces(planner)
    reader = _Reader(pieces, let_go=mapped)
    made.pieces = [
        piece if piece.is_object else replace(piece, key=reader.giving(piece)) for piece in pieces.of(planned.items)
    ]
    return made


class _Reader:
    """Gives the bytes of one piece after the other, and lets go of the pages of the one before."""

    def __init__(self, pieces: Pieces, *, let_go: bool) -> None:
        self._pieces = pieces
        self._let_go = let_go
        self._last: Bytes | None = None

    def giving(self, piece: Piece) -> Callable[[], Bytes]:
        """What gives the bytes of `piece`."""

        def give() -> Bytes:
            if self._let_go and self._last is not None:
                _release(self._last)
            found = self._pieces.source(piece)
            self._last = found if self._lies_in_file(piece, found) else None
            return found

        return give

    def _lies_in_file(self, piece: Piece, found: Bytes) -> bool:
        """Whether these bytes are the mapping's: what was gathered in memory of our own must not be let go of."""
        tensor = self._pieces.planner.resolve_data(piece.key)
        assert isinstance(tensor, torch.Tensor), piece.fqn
        storage = tensor.untyped_storage()
        return bool(storage.data_ptr() <= found.ctypes.data < storage.data_ptr() + storage.nbytes())


def _release(data: Bytes) -> None:
    """Let go of the whole pages of a private mapping that nobody wrote to: they are read again when they are needed."""
    first = -(-data.ctypes.data // mmap.PAGESIZE) * mmap.PAGESIZE
    end = (data.ctypes.data + data.size) // mmap.PAGESIZE * mmap.PAGESIZE
    if end > first:
        _libc.madvise(ctypes.c_void_p(first), ctypes.c_size_t(end - first), mmap.MADV_DONTNEED)


_libc = ctypes.CDLL(None)
