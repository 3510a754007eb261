"""A small store of format 1.0, made once by `python -m tests.golden.store DIR` and committed: it must load for ever."""

import sys
from collections import OrderedDict
from pathlib import Path
from typing import Any

import torch

import ckptstore
from ckptstore.config import Config, TargetConfig
from tests.support import make_store

RUN = "golden"
NAMES = "abcd"


def config_at(root: Path) -> Config:
    """The store's settings, wherever it lies."""
    targets = [TargetConfig(name=name, url=str(root / name)) for name in NAMES]
    return Config(name="golden", code="2+2", fragment_size=8192, targets=targets)


def state(step: int) -> dict[str, Any]:
    """What was saved at a step: computed, so that the test needs no copy of it."""
    tied = torch.arange(6, dtype=torch.float32).reshape(2, 3) + step
    return {
        "model": OrderedDict(emb=tied, head=tied, half=torch.arange(9000).to(torch.bfloat16) * step),
        "optimizer": {"state": {0: {"step": torch.tensor(float(step))}}, "param_groups": [{"lr": 0.1, "params": [0]}]},
        "rare": {"complex": torch.tensor([1 + 2j], dtype=torch.complex128), "empty": torch.empty(0, 5)},
        "objects": {"none": None, "set": {3}, "tuple": (1, "zwei"), 7: float("inf"), "bytes": b"\0\xff", "big": 2**80},
        "odd/../name": torch.tensor(step),
    }


def make(root: Path) -> None:
    """Steps 1 to 4: one with a target gone and repaired since, one deleted, one tagged."""
    make_store(root, NAMES, "2+2", 8192)
    run = ckptstore.open(config_at(root)).run(RUN)
    run.save(state(1), step=1, user={"note": "first"})
    (root / "b").rename(root / "b.away")
    run.save(state(2), step=2)
    (root / "b.away").rename(root / "b")
    run.repair()
    run.save(state(3), step=3)
    run.delete(3)
    run.save(state(4), step=4)
    run.tag(4, "best")


if __name__ == "__main__":
    make(Path(sys.argv[1]))
