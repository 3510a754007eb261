"""`TrainState`: model, optimizer, scheduler, scaler, loader, random numbers, step and values, saved and loaded as one.

    model, optimizer, parts    tensors, sharded or whole, under the names of parameters
    scheduler, scaler, values  one text each
    loader, rng                one text for each rank: {"rank0": …}; a loader's that is alike on all: {"all": …}
    about, step                what it takes to tell whether all of it came back

`docs/resume.md` says what is exact, and on what conditions.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch.distributed as dist
from torch import nn
from torch.distributed.checkpoint.state_dict import get_model_state_dict, set_model_state_dict
from torch.optim import Optimizer

from ckptstore.dcp.job import Saved
from ckptstore.errors import KeyMismatch, StateError
from ckptstore.notices import warner
from ckptstore.state import rng
from ckptstore.state.checks import check_loader, check_model, check_stateful, check_step, guarded
from ckptstore.state.optimizer import count_slots, optimizer_state, optimizer_template, restore_optimizer
from ckptstore.state.text import from_text, like, plain, to_text

__all__ = ["TrainState"]

_LEFT_OPEN = ""
"""Stands in a template for a text: no text that was saved is empty."""
_ALIKE = "all"
""""loader" has this key, or one for each rank."""


class TrainState:
    """Everything that decides how a job goes on. `run.save(state, step)`, `run.load(state)`, then `state.step`.

    `optimizer` and `scheduler` may be lists. `loader` is this rank's own, as random numbers are (`rng`), unless it says
    `alike_on_all_ranks = True`, as `ShuffledBatches` does: then any number of ranks goes on with it. `parts`, by any
    other name, are alike on all ranks: an EMA, a metric. `values` is a dict of plain values, alike on all ranks.

    Raises `UsageError` for what can't be resumed, such as a `DataLoader` that draws from the global generator.
    """

    def __init__(
        self,
        *,
        model: nn.Module | None = None,
        optimizer: Optimizer | Sequence[Optimizer] | None = None,
        scheduler: Any = None,
        scaler: Any = None,
        loader: Any = None,
        rng: bool = True,
        step: int = 0,
        values: dict[str, Any] | None = None,
        process_group: dist.ProcessGroup | None = None,
        **parts: Any,
    ) -> None:
        self.model, self.optimizers, self.schedulers = model, _several(optimizer), _several(scheduler)
        self.scaler, self.loader, self.rng, self.parts = scaler, loader, rng, parts
        self.step = check_step(step)
        self.values: dict[str, Any] = {} if values is None else values
        self.uncarried: dict[str, str] = {}
        """What the last load could not put back as it was, by name, and why."""
        self.saved_on: int | None = None
        """The number of ranks that saved what was loaded last."""
        self._group, self._strict, self._gaps = process_group, True, set[str]()
        check_model(model, self.optimizers)
        named = {"scaler": scaler, "loader": loader, **parts}
        for name, part in [*named.items(), *(("scheduler", each) for each in self.schedulers)]:
            if part is not None or name in parts:
                check_stateful(name, part)
        if rng:
            check_loader(loader)

    # -- out ---------------------------------------------------------------------------------------------

    def state_at(self, step: int | None) -> dict[str, Any]:
        """`state_dict` of this step, which is `step` from now on."""
        self.step = check_step(self.step if step is None else step)
        return self.state_dict()

    def state_dict(self) -> dict[str, Any]:
        """What is saved of this rank. Tensors are the job's own, not copies. Raises `UnsupportedValue`, naming it."""
        rank, world = self._place()
        state = {**self._tensors(), **self._texts(), "step": check_step(self.step)}
        entries = state.get("optimizer", {}).get("state", {})
        state["about"] = to_text({"trainstate": 1, "world": world, "optimizer": count_slots(entries)}, "about")
        if self.loader is not None:
            state["loader"] = {self._loader_key(): to_text(self.loader.state_dict(), "loader")}
        if self.rng:
            state["rng"] = {f"rank{rank}": to_text(rng.capture(), "rng")}
        return state

    def _tensors(self) -> dict[str, Any]:
        state: dict[str, Any] = {}
        if self.model is not None:
            state["model"] = get_model_state_dict(self.model)
        if self.model is not None and self.optimizers:
            state["optimizer"] = optimizer_state(self.model, self.optimizers)
        if self.parts:
            state["parts"] = {name: part.state_dict() for name, part in self.parts.items()}
        return state

    def _texts(self) -> dict[str, str]:
        texts = {"values": to_text(self.values, "values")}
        if self.schedulers:
            states = [plain(scheduler.state_dict()) for scheduler in self.schedulers]
            texts["scheduler"] = to_text(states, "scheduler")
        if self.scaler is not None:
            texts["scaler"] = to_text(self.scaler.state_dict(), "scaler")
        return texts

    # -- back in -----------------------------------------------------------------------------------------

    def template_for(self, saved: Saved) -> dict[str, Any]:
        """What is loaded into, by what was saved. Raises `StateError` for what can't be carried, if strict."""
        self.uncarried, self._strict, self._gaps = {}, saved.strict, set()
        template: dict[str, Any] = dict.fromkeys(("about", *self._texts()), _LEFT_OPEN) | {"step": self.step}
        if self.model is not None:
            template["model"] = get_model_state_dict(self.model)
        if self.model is not None and self.optimizers:
            template["optimizer"] = _LEFT_OPEN
            if stored := saved.below.get("optimizer"):
                template["optimizer"], self._gaps = optimizer_template(self.model, self.optimizers, stored)
        if self.parts:
            template["parts"] = {name: part.state_dict() for name, part in self.parts.items()}
        if self.loader is not None:
            template |= self._loader_template(saved.below.get("loader"))
        if self.rng:
            template |= self._rng_template(saved.below.get("rng"))
        return template

    def _loader_template(self, saved: Saved | None) -> dict[str, Any]:
        key, world = self._loader_key(), self._place()[1]
        if saved is None or key == _ALIKE or len(saved.below) == world:
            return {"loader": {key: _LEFT_OPEN} if saved else _LEFT_OPEN}
        why = f"the positions of {len(saved.below)} ranks can't be those of {world}"
        if saved.strict:
            hint = "use a loader that is alike on all ranks (docs/resume.md), or strict=False to begin it anew"
            raise StateError(f"loader: {why}", key="loader", hint=hint)
        self._give_up("loader", why)
        return {}

    def _rng_template(self, saved: Saved | None) -> dict[str, Any]:
        rank, world = self._place()
        if saved is None:
            return {"rng": _LEFT_OPEN}
        if len(saved.below) == world:
            return {"rng": {f"rank{rank}": _LEFT_OPEN}}
        why = f"saved on {len(saved.below)} ranks, and here are {world}: derived from those of rank 0"
        self._give_up("rng", why)
        return {"rng": {"rank0": _LEFT_OPEN}}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from there. Raises `KeyMismatch` naming what is missing, `StateError` what a part could not take."""
        strict, self._strict = self._strict, True
        wanted = self._wanted()
        missing = [name for name in wanted if _is_left_open(state_dict.get(name, _LEFT_OPEN))]
        if missing and strict:
            raise KeyMismatch(f"missing: {', '.join(missing)}", missing=missing, unexpected=[], hint="strict=False")
        about = from_text(text, "about") if (text := state_dict.get("about")) else {}
        self.saved_on = about.get("world")
        if "optimizer" not in missing and self.optimizers:
            self._check_optimizer(state_dict, about.get("optimizer"))
        for name, take in wanted.items():
            if name not in missing and name in state_dict:
                guarded(name, take, state_dict[name])

    def _wanted(self) -> dict[str, Callable[[Any], None]]:
        """What takes each part of the state, in order: random numbers last, since anything may draw some."""
        ways = {
            "step": (True, self._take_step),
            "values": (True, self._take_values),
            "model": (self.model is not None, self._take_model),
            "optimizer": (bool(self.optimizers), self._take_optimizer),
            "scheduler": (bool(self.schedulers), self._take_schedulers),
            "scaler": (self.scaler is not None, lambda text: self.scaler.load_state_dict(from_text(text, "scaler"))),
            "parts": (bool(self.parts), self._take_parts),
            "loader": (self.loader is not None and "loader" not in self.uncarried, self._take_loader),
            "rng": (self.rng, self._take_rng),
        }
        return {name: take for name, (is_wanted, take) in ways.items() if is_wanted}

    def _check_optimizer(self, state: dict[str, Any], saved: int | None) -> None:
        """Nothing of it is left behind: a planner that knows no empty dicts asks a fresh optimizer for nothing."""
        for name in self._gaps:
            del state["optimizer"]["state"][name]
        loaded = count_slots(state["optimizer"]["state"])
        if saved is not None and loaded != saved:
            raise KeyMismatch(
                f"optimizer: {saved} values of its state were saved, and {loaded} were asked for",
                missing=["optimizer.state"],
                unexpected=[],
                hint="dcp.load({}, planner=CheckpointLoadPlanner({…: state})), or let it take one step first",
            )

    def _take_step(self, step: Any) -> None:
        self.step = check_step(step)

    def _take_values(self, text: Any) -> None:
        loaded = from_text(text, "values")
        self.values.clear()
        self.values.update(loaded)

    def _take_model(self, state: Any) -> None:
        assert self.model is not None, "it is wanted"
        set_model_state_dict(self.model, state)

    def _take_optimizer(self, state: Any) -> None:
        assert self.model is not None, "check_model asked for it"
        restore_optimizer(self.model, self.optimizers, state)

    def _take_schedulers(self, text: Any) -> None:
        states = from_text(text, "scheduler")
        for scheduler, state in zip(self.schedulers, states, strict=True):
            scheduler.load_state_dict(like(scheduler.state_dict(), state))

    def _take_parts(self, states: Any) -> None:
        for name, part in self.parts.items():
            guarded(f"parts.{name}", part.load_state_dict, states[name])

    def _take_loader(self, texts: Any) -> None:
        key = self._loader_key()
        self.loader.load_state_dict(from_text(texts[key], f"loader.{key}"))

    def _take_rng(self, texts: Any) -> None:
        rank, world = self._place()
        if "rng" in self.uncarried:
            return rng.derive(from_text(texts["rank0"], "rng.rank0"), self.step, rank, world)
        for name, why in rng.restore(from_text(texts[f"rank{rank}"], f"rng.rank{rank}")).items():
            self._give_up(name, why)
        return None

    def _loader_key(self) -> str:
        return _ALIKE if getattr(self.loader, "alike_on_all_ranks", False) else f"rank{self._place()[0]}"

    def _give_up(self, name: str, why: str) -> None:
        self.uncarried[name] = why
        if self._place()[0] == 0:
            warner()(UserWarning(f"{name}: {why}"))

    def _place(self) -> tuple[int, int]:
        """Rank and number of ranks."""
        if not (dist.is_available() and dist.is_initialized()):
            return 0, 1
        return dist.get_rank(self._group), dist.get_world_size(self._group)


def _several(one: Any) -> tuple[Any, ...]:
    if one is None:
        return ()
    return tuple(one) if isinstance(one, (list, tuple)) else (one,)


def _is_left_open(part: Any) -> bool:
    """Whether nothing was put into this part of a template."""
    items = list(part.values()) if isinstance(part, dict) else [part]
    return all(isinstance(item, str) and item == _LEFT_OPEN for item in items)
