"""States and runs for tests of formats."""

from pathlib import Path
from typing import NamedTuple

import torch

from ckptstore.dtypes import DTYPES
from ckptstore.run import Run
from tests.support import RUN, LocalStore, make_store

NOT_IN_TORCH_FILES = {f"{sign}int{bits}" for sign in ("", "u") for bits in range(1, 8)}
"""Of torch 2.9 to 2.13: `torch.save` has no name for them."""


class Place(NamedTuple):
    """A store with its run."""

    store: LocalStore
    run: Run


def make_place(folder: Path, **settings: object) -> Place:
    """A store on six directories."""
    store = make_store(folder / "targets", **settings)
    return Place(store, Run(store.config, RUN))


def dtypes_of_torch() -> list[str]:
    """The dtypes that checkpoints hold and this torch has."""
    return [name for name in DTYPES if isinstance(getattr(torch, name, None), torch.dtype)]


def random_tensor(dtype: str, shape: tuple[int, ...], seed: int = 0) -> torch.Tensor:
    """All patterns of bits: NaNs of any payload, -0.0, subnormals. A bool is 0 or 1."""
    kind = getattr(torch, dtype)
    generator = torch.Generator().manual_seed(seed)
    count = torch.Size(shape).numel() * kind.itemsize
    flat = torch.randint(0, 2 if dtype == "bool" else 256, (count,), dtype=torch.uint8, generator=generator)
    return flat.view(kind).reshape(shape) if count else torch.empty(shape, dtype=kind)


def bits(tensor: torch.Tensor) -> tuple[str, tuple[int, ...], bytes]:
    """What must be equal of two tensors."""
    flat = tensor.detach().contiguous().reshape(-1)
    return str(tensor.dtype), tuple(tensor.shape), flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b""


def all_bits(state: dict[str, torch.Tensor]) -> dict[str, tuple[str, tuple[int, ...], bytes]]:
    """Of every tensor of a flat state."""
    return {name: bits(tensor) for name, tensor in state.items() if isinstance(tensor, torch.Tensor)}


def names_in(folder: Path | str) -> list[str]:
    """What a folder holds, in order."""
    return sorted(entry.name for entry in Path(folder).iterdir())


class Bomb:
    """A pickle that would make a file, if it were run."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self.path,)
