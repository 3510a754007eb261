"""Random number generators of one rank: Python's, numpy's global one, torch's on the CPU and on every CUDA device."""

import hashlib
import random
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

__all__ = ["capture", "derive", "restore"]


def capture() -> dict[str, Any]:
    """The state of each, by name; a list for CUDA, one a device."""
    return {
        "python": random.getstate(),
        "numpy": np.random.get_state(legacy=False),  # noqa: NPY002 - the one that a job uses unknowingly
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
    }


def restore(states: Mapping[str, Any]) -> dict[str, str]:
    """Go on where `capture` was called. Returns what can't, by name, and why. Raises what they do of no state."""
    setters: dict[str, Callable[[Any], None]] = {
        "python": random.setstate,
        "numpy": np.random.set_state,
        "torch": torch.set_rng_state,
    }
    for name in setters.keys() & states.keys():
        setters[name](states[name])
    lost = {f"rng.{name}": "it was not saved" for name in setters.keys() - states.keys()}
    saved, here = len(states.get("cuda", ())), torch.cuda.device_count() if torch.cuda.is_available() else 0
    if saved != here:
        lost["rng.cuda"] = f"saved on {saved} CUDA devices, and here are {here}"
    elif here:
        torch.cuda.set_rng_state_all(states["cuda"])
    return lost


def derive(states: Mapping[str, Any], step: int, rank: int, world: int) -> None:
    """Seed all generators by the SHA-256 of another rank's state, the step, and who this is: the same at every try."""
    known = states["torch"].numpy().tobytes() + f" step {step} rank {rank} of {world}".encode()
    seed = int.from_bytes(hashlib.sha256(known).digest()[:8], "big")
    random.seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002
    torch.manual_seed(seed)  # CUDA too
