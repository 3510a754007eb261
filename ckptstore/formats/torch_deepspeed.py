"""A DeepSpeed universal checkpoint, as `ds_to_universal.py` writes it.

    zero/<parameter>/fp32.pt          {"param": tensor, and how tensor-parallel parts were joined: "cat_dim", …}
    zero/<parameter>/exp_avg.pt       likewise, and any other state of the optimizer by its name
    zero/<parameter>/step.pt          a number or a tensor
    zero/optimizer_state.pt           what all parameters have in common
    mp_rank_00_model_states.pt, …     what the ranks kept beside: module, lr_scheduler, …

It becomes the nested state {"fp32": {parameter: tensor}, "exp_avg": {…}, "step": {…}, "joined": {…}, "optimizer_state":
…, "mp_rank_00_model_states": …}.
"""

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from ckptstore.dcp.torch_file import load_torch_value
from ckptstore.errors import UnsupportedValue, UsageError
from ckptstore.formats.inside import check_inside
from ckptstore.formats.torch_state import plan_state
from ckptstore.operations.ingest import Plan

PARAM = "param"
STEP = "step"
WEIGHTS = "fp32"
JOINED = "joined"

__all__ = ["plan_deepspeed"]


def plan_deepspeed(folder: Path) -> Plan:
    """What would be saved of a universal checkpoint.

    Raises `UsageError` where there is no parameter, `UnsupportedValue` naming the file for one that isn't as DeepSpeed
    writes it, or whose objects can't be read without running code.
    """
    state: dict[str, Any] = defaultdict(dict)
    files: list[Path] = []
    mapped = True
    for path, section, parameter in _files(folder):
        check_inside(folder, path)
        value, is_mapped = load_torch_value(path)
        mapped = mapped and is_mapped
        files.append(path)
        if parameter is None:
            state[section] = value
        elif section == STEP:
            state[STEP][parameter] = value
        else:
            _add(state, section, parameter, path, value)
    if not state[WEIGHTS]:
        hint = "convert the checkpoint first: ds_to_universal.py of DeepSpeed"
        raise UsageError(f"{folder} holds no zero/<parameter>/{WEIGHTS}.pt", hint=hint)
    return plan_state(dict(state), files, mapped=mapped)


def _files(folder: Path) -> Iterator[tuple[Path, str, str | None]]:
    """Each file with its place in the state, and the parameter it is of; a parameter's name may hold slashes."""
    zero = folder / "zero"
    for path in sorted(zero.rglob("*.pt")):
        parameter = path.parent.relative_to(zero).as_posix()
        yield path, path.stem, None if path.parent == zero else parameter
    for path in sorted(folder.glob("*model_states.pt")):
        yield path, path.stem, None


def _add(state: dict[str, Any], section: str, parameter: str, path: Path, value: Any) -> None:
    if not isinstance(value, dict) or not isinstance(value.get(PARAM), torch.Tensor):
        hint = "convert the checkpoint again: ds_to_universal.py of DeepSpeed"
        raise UnsupportedValue(f"{path} holds no tensor under {PARAM!r}", key=parameter, hint=hint)
    state[section][parameter] = value[PARAM]
    rest = {key: item for key, item in value.items() if key != PARAM}
    if rest and section == WEIGHTS:  # the same in the files of all states of a parameter
        state[JOINED][parameter] = rest
