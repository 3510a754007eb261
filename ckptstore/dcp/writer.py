"""`StoreWriter`: ckptstore as a storage backend of `torch.distributed.checkpoint.save` and `async_save`.

    dcp.save(sd, storage_writer=StoreWriter("store.toml", run="r"), checkpoint_id="step-100")

DCP calls, in this order: `reset` (where a checkpoint_id is given), `set_up_storage_writer` and `prepare_local_plan`
on all ranks, `prepare_global_plan` on rank 0, `write_data` on all, `finish` on rank 0. Rank 0 alone knows which
save this is: each rank draws its own shard ids, so nothing has to be broadcast and cached plans stay valid.
"""

import dataclasses
import os
from collections.abc import Callable
from typing import Any

from torch.distributed.checkpoint.metadata import Metadata, StorageMeta
from torch.distributed.checkpoint.planner import SavePlan, SavePlanner, WriteItemType
from torch.distributed.checkpoint.storage import StorageWriter, WriteResult
from torch.futures import Future

from ckptstore.arguments import check_observer
from ckptstore.commit import About, Commit, check_about
from ckptstore.config import Config
from ckptstore.dcp.coordinator import Coordinator
from ckptstore.dcp.naming import name_of
from ckptstore.dcp.pieces import check_paths
from ckptstore.dcp.ranks import RankSave
from ckptstore.dcp.replicas import held_by_several
from ckptstore.dcp.together import OWN_PART, Step
from ckptstore.deadline import Deadline
from ckptstore.errors import UsageError
from ckptstore.events import Observer, ignore
from ckptstore.names import check_run
from ckptstore.opened import JOB, Opened, shared
from ckptstore.save.stream import check_name
from manifests import FORMAT, Manifest, encode

__all__ = ["StoreWriter"]


class StoreWriter(StorageWriter):
    """Writes checkpoints of one run. Holds settings only, so it can be pickled to an async checkpoint process."""

    def __init__(
        self,
        store: Config | str | os.PathLike[str],
        *,
        run: str = "default",
        step: int | None = None,
        user: dict[str, Any] | None = None,
        allow_pickle: bool = False,
        private: bool = False,
        observer: Observer = ignore,
        reached: Callable[[Step], None] = lambda _step: None,
    ) -> None:
        check_observer(observer)
        self.config = store if isinstance(store, Config) else Config.load(store)
        self.run = check_run(run)
        self.step = step
        self.user = user or {}
        self.allow_pickle = allow_pickle
        self.private = private
        """Whether the states saved are copies that nobody changes meanwhile: they are put from where they are."""
        self.observer = observer
        self.reached = reached
        """Told on this rank how far the save is."""
        self.job = JOB
        self.checkpoint_id: str | os.PathLike[str] | None = None
        self.manifest: Manifest | None = None
        """On rank 0 after a save: what was committed."""

    def __getstate__(self) -> dict[str, Any]:
        settings = {"config", "run", "step", "user", "allow_pickle", "private", "job", "checkpoint_id"}
        return {name: value for name, value in self.__dict__.items() if name in settings}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, observer=ignore, reached=lambda _step: None, manifest=None)

    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        """Name the next save."""
        self.checkpoint_id = checkpoint_id

    def set_up_storage_writer(self, is_coordinator: bool, *_args: Any, **kwargs: Any) -> None:
        """Check, on every rank and before anything is written, that this save can be as safe as asked."""
        if not kwargs.get("use_collectives", True):
            message = "use_collectives=False: each rank would finish alone, and nobody could commit the checkpoint"
            raise UsageError(message, hint="call dcp.save with use_collectives=True")
        name = name_of(self.checkpoint_id, self.step)
        opened = self._opened()
        places = opened.ready_to_save()
        self._rank = RankSave(
            opened,
            self.run,
            kwargs.get("rank", 0),
            places,
            called=str(name),
            allow_pickle=self.allow_pickle,
            private=self.private,
            observer=self.observer,
            deadline=Deadline(OWN_PART * self.config.save_timeout),
        )
        self._structure: Any = None
        self._coordinator: Coordinator | None = None
        if is_coordinator:
            about = About(name.name, name.checkpoint_id, name.step, user=self.user)
            check_about(self.run, about)
            self._coordinator = Coordinator(Commit(opened, self.run, places, self.job), about)

    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        """Keep what this rank holds. A plan that is sent empty because it was cached leaves the last one standing."""
        check_paths(plan.planner_data)
        for item in plan.items:
            check_name(item.index.fqn, is_object=item.type is WriteItemType.BYTE_IO)
        if plan.usable:
            self._items = list(plan.items)
        self._rank.items = getattr(self, "_items", [])
        self.reached(Step.PLANNED)
        return dataclasses.replace(plan, storage_data=self._rank.held())

    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        """On rank 0: the save begins. Tells each rank which of its keys others hold as well."""
        assert self._coordinator is not None, "prepare_global_plan is called on the coordinator"
        self._coordinator.begin(plans)
        return held_by_several(plans)

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future[list[WriteResult]]:
        """Write this rank's shard. Raises `ToleranceError`, `SaveStalled`."""
        self._structure = getattr(planner, "structure", None)
        done: Future[list[WriteResult]] = Future()
        try:
            done.set_result(self._rank.write(plan, planner))
        finally:
            self.reached(Step.WRITTEN)
        return done

    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        """On rank 0: commit. Of the storage, the metadata that DCP goes on to broadcast carries the manifest alone."""
        assert self._coordinator is not None, "finish is called on the coordinator"
        self.manifest = self._coordinator.finish(metadata, results, self._structure)
        metadata.storage_data = encode(self.manifest)
        metadata.version = ".".join(map(str, FORMAT))
        metadata.storage_meta = self.storage_meta()
        self.checkpoint_id = None  # a save without a name of its own must not take this one's

    def storage_meta(self) -> StorageMeta:
        """What DCP keeps with the metadata."""
        return StorageMeta(checkpoint_id=self.checkpoint_id, save_id=None)

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:  # noqa: ARG003 - torch's signature
        """Never chosen by DCP itself: a store is named by its settings, not by a checkpoint's name."""
        return False

    def _opened(self) -> Opened:
        return shared(self.config)
