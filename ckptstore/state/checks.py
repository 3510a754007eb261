"""What a `TrainState` is made of, checked where it is made: a slip is told before the first step, not at a save."""

from collections.abc import Callable
from typing import Any

from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel
from torch.optim import Optimizer
from torch.utils.data import DataLoader

from ckptstore.arguments import is_whole
from ckptstore.errors import CkptStoreError, StateError, UsageError

__all__ = ["check_loader", "check_model", "check_stateful", "check_step", "guarded"]


def check_model(model: Any, optimizers: tuple[Any, ...]) -> None:
    """Raise `UsageError` for what is no module or optimizer, an optimizer without a model, and FSDP1."""
    if model is not None and not isinstance(model, nn.Module):
        hint = "several models: torch.nn.ModuleDict"
        raise UsageError(f"model is a {type(model).__name__}: a torch.nn.Module is wanted", hint=hint)
    for optimizer in optimizers:
        if not isinstance(optimizer, Optimizer):
            hint = "one torch.optim.Optimizer, or a list of them"
            raise UsageError(f"optimizer is a {type(optimizer).__name__}", hint=hint)
    if optimizers and model is None:
        raise UsageError("an optimizer without a model: its state is stored by names of parameters", hint="model=model")
    if model is not None and any(isinstance(module, FullyShardedDataParallel) for module in model.modules()):
        raise UsageError("FullyShardedDataParallel (FSDP1) has no DTensors", hint="torch.distributed.fsdp.fully_shard")


def check_stateful(name: str, value: Any) -> None:
    """Raise `UsageError` for what has no `state_dict` and `load_state_dict`."""
    if not all(callable(getattr(value, method, None)) for method in ("state_dict", "load_state_dict")):
        hint = f"plain values: values={{{name!r}: …}}; a loader: torchdata.stateful_dataloader, or docs/resume.md"
        raise UsageError(f"{name} is a {type(value).__name__} without state_dict and load_state_dict", hint=hint)


def check_loader(loader: Any) -> None:
    """Raise `UsageError` where going on in the middle of an epoch would draw from the generators that are restored."""
    if isinstance(loader, DataLoader) and loader.generator is None:
        raise UsageError(
            "the loader draws from torch's global generator when it is iterated: a resumed run would differ",
            hint="give the loader a generator of its own: generator=torch.Generator()",
        )


def check_step(step: Any) -> int:
    """The step, as an int. Raises `UsageError` for anything else."""
    if not is_whole(step) or step < 0:
        raise UsageError(f"step = {step!r:.80}: a whole number, 0 or more, is wanted", hint="step=0")
    return int(step)


def guarded(name: str, take: Callable[[Any], None], state: Any) -> None:
    """Raise whatever a part says of a state that it can't take as `StateError`, naming it."""
    try:
        take(state)
    except CkptStoreError:
        raise
    except Exception as error:
        hint = "is it made as it was when it was saved?"
        raise StateError(f"{name} could not take what was saved: {error!r:.300}", key=name, hint=hint) from error
