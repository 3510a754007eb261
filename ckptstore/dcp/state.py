"""What `run.save` and `run.load` do: torch's DCP with our planners, our storage, and our errors."""

import dataclasses
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch.distributed as dist
from torch.distributed.checkpoint import state_dict_loader, state_dict_saver
from torch.distributed.checkpoint.api import CheckpointException

from ckptstore.config import Config
from ckptstore.dcp.job import JobState
from ckptstore.dcp.joint import JointReader
from ckptstore.dcp.load_planner import CheckpointLoadPlanner, LoadReport
from ckptstore.dcp.outline import Outline
from ckptstore.dcp.save_planner import CheckpointSavePlanner
from ckptstore.dcp.sharing import sharing_group
from ckptstore.dcp.together import Ranks, is_distributed
from ckptstore.dcp.writer import StoreWriter
from ckptstore.errors import CkptStoreError, UsageError
from ckptstore.events import Observer, ignore
from ckptstore.opened import shared
from ckptstore.selection import Selector, select
from ckptstore.source import Source
from ckptstore.work import work
from manifests import Manifest, decode

__all__ = ["LoadReport", "check_state", "load_state", "own_errors", "save_state"]

# A single process is what was meant: DCP warns of it at every call.
warnings.filterwarnings("ignore", message="torch.distributed is (disabled|unavailable)", module="torch.distributed")


def save_state(
    config: Config,
    run: str,
    state: dict[str, Any],
    *,
    step: int | None,
    name: str | None,
    user: dict[str, Any] | None = None,
    ranks: Ranks,
    group: dist.ProcessGroup | None = None,
    private: bool = False,
    observer: Observer = ignore,
) -> Manifest:
    """Save on every rank and commit on rank 0; every rank gets the manifest. `group`: instead of that of `ranks`.

    `private`: nobody changes the state until the save has ended.
    """
    check_state(state)
    checkpoint_id = f"step-{step}" if name is None and step is not None else name
    with work("save", run, step, observer) as saving:
        writer = StoreWriter(
            config, run=run, step=step, user=user, private=private, observer=saving.observe, reached=ranks.reached
        )
        with own_errors(), nullcontext(group) if group else ranks.together() as chosen:
            metadata = state_dict_saver.save(
                state,
                storage_writer=writer,
                checkpoint_id=checkpoint_id,
                planner=CheckpointSavePlanner(called=f"{checkpoint_id!r}, step {step}"),
                process_group=chosen,
                no_dist=not is_distributed(),
            )
        return decode(Manifest, metadata.storage_data)


def load_state(
    config: Config,
    run: str,
    state: dict[str, Any] | JobState,
    *,
    selector: Selector,
    strict: bool,
    allow_cast: bool,
    group: dist.ProcessGroup | None,
    observer: Observer = ignore,
) -> LoadReport:
    """Load in place on every rank what rank 0 decides on."""
    if not isinstance(state, (dict, JobState)):
        raise UsageError(f"a state to load into is a dict, not {type(state).__name__}", hint="run.load(state := {})")
    with work("load", run, observer=observer) as loading:
        found = _decide(config, run, selector, group, loading.observe)
        loading.step = found.manifest.step
        planner = CheckpointLoadPlanner(state, strict=strict, allow_cast=allow_cast)
        reader = JointReader(config, run, found, sharing_group(group), loading.observe)
        with own_errors():
            state_dict_loader.load(  # into nothing: the planner fills the state, DCP only keys that are there already
                {}, storage_reader=reader, planner=planner, process_group=group, no_dist=not is_distributed()
            )
    uncarried = tuple(state.uncarried) if isinstance(state, JobState) else ()
    return dataclasses.replace(planner.report, uncarried=uncarried)


def check_state(state: Any) -> None:
    """Refuse what would become the latest checkpoint and hold nothing."""
    if not isinstance(state, dict):
        raise UsageError(f"a state to save is a dict, not {type(state).__name__}", hint='run.save({"model": model})')
    if not state:
        raise UsageError("the state to save is empty: it would become the latest checkpoint")


def _decide(
    config: Config, run: str, selector: Selector, group: dist.ProcessGroup | None, observer: Observer
) -> Source | Outline:
    """Rank 0 reads the history and the index; the others take its outline, or raise what it raised.

    Nothing is opened on those here: a rank that can't must tell so where the others listen, as DCP's own steps do.
    """
    if not is_distributed():
        return _chosen(config, run, selector, observer)
    if dist.get_rank(group) == 0:
        return _told_to_all(lambda: _chosen(config, run, selector, observer), group)
    answer: list[Outline | CkptStoreError | None] = [None]
    _broadcast(answer, group)
    if isinstance(answer[0], CkptStoreError):
        raise answer[0]
    assert answer[0] is not None, "rank 0 decided"
    return answer[0]


def _chosen(config: Config, run: str, selector: Selector, observer: Observer) -> Source:
    opened = shared(config)
    return Source.open(opened, select(opened, run, selector), observer)


def _told_to_all(choose: Callable[[], Source], group: dist.ProcessGroup | None) -> Source:
    """On rank 0: what is chosen. The others wait for it, so they are told of whatever goes wrong."""
    try:
        source = choose()
        answer = Outline.of(source.manifest, source.index)
    except CkptStoreError as error:
        _broadcast([error], group)
        raise
    except BaseException as error:
        _broadcast([CkptStoreError(f"rank 0 failed before it had chosen a checkpoint: {error!r}")], group)
        raise
    _broadcast([answer], group)
    return source


def _broadcast(answer: list[Any], group: dist.ProcessGroup | None) -> None:
    """Rank 0's to all."""
    dist.broadcast_object_list(answer, src=dist.get_global_rank(group, 0) if group else 0, group=group)


@contextmanager
def own_errors() -> Iterator[None]:
    """Raise what the lowest rank that failed raised, with `ranks` naming all that did, where that is an error of ours.

    DCP wraps the failures of all ranks into a `CheckpointException`, which is no `Exception`: it stays as the cause.
    """
    try:
        yield
    except CheckpointException as wrapped:
        causes = {rank: failure[0] for rank, failure in sorted(wrapped.failures.items())}
        own = [error for error in causes.values() if isinstance(error, CkptStoreError)]
        if not own:
            raise
        own[0].fields.setdefault("ranks", list(causes))
        raise own[0] from wrapped
