"""`StoreReader`: ckptstore as a storage backend of `torch.distributed.checkpoint.load`.

    dcp.load(sd, storage_reader=StoreReader("store.toml", run="r"), checkpoint_id="step-100")

DCP calls `reset` (where a checkpoint_id is given), `read_metadata`, `set_up_storage_reader` and `prepare_local_plan`
on all ranks, `prepare_global_plan` on rank 0, `read_data` on all. Only the rows asked for are read.
"""

import dataclasses
import os
from typing import TYPE_CHECKING

from torch.distributed.checkpoint.metadata import Metadata, StorageMeta
from torch.distributed.checkpoint.planner import LoadPlan, LoadPlanner
from torch.distributed.checkpoint.storage import StorageReader
from torch.futures import Future

from ckptstore.arguments import check_observer
from ckptstore.config import Config
from ckptstore.dcp.delivery import deliver
from ckptstore.dcp.metadata import metadata_of
from ckptstore.dcp.sharing import Sharing
from ckptstore.errors import CkptStoreError, ConflictError
from ckptstore.events import Observer, ignore
from ckptstore.names import check_run
from ckptstore.opened import shared
from ckptstore.selection import Selector, key_of, select
from ckptstore.source import Source

if TYPE_CHECKING:
    from manifests import Manifest

__all__ = ["StoreReader"]


class StoreReader(StorageReader):
    """Reads one run's checkpoints. Without a checkpoint_id: the latest."""

    def __init__(
        self,
        store: Config | str | os.PathLike[str],
        *,
        run: str = "default",
        allow_cast: bool = False,
        allow_pickle: bool = False,
        observer: Observer = ignore,
    ) -> None:
        check_observer(observer)
        self.config = store if isinstance(store, Config) else Config.load(store)
        self.run = check_run(run)
        self.selected: Manifest | None = None
        """What is read, once `read_metadata` has found it."""
        self.allow_cast = allow_cast
        self.allow_pickle = allow_pickle
        self.observer = observer
        self.checkpoint_id: str | os.PathLike[str] | None = None

    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        """Name the checkpoint to load; what was found before is forgotten."""
        self.checkpoint_id = checkpoint_id
        self.selected = None

    def read_metadata(self) -> Metadata:
        """The checkpoint's metadata, read by every rank. Takes no keyword: DCP would call it a second time.

        DCP would turn an error raised here into text; it is kept, and raised when DCP comes to set up the reader.
        """
        self._error: CkptStoreError | None = None
        try:
            self._source = self._open()
        except CkptStoreError as error:
            self._error = error
            return Metadata({})
        metadata = metadata_of(self._source.index)
        metadata.storage_meta = StorageMeta(checkpoint_id=self._source.manifest.checkpoint_id)
        return metadata

    def set_up_storage_reader(self, metadata: Metadata, is_coordinator: bool) -> None:  # noqa: ARG002 - torch's signature
        """Raise what reading the metadata met."""
        if self._error is not None:
            raise self._error

    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        """Say which checkpoint this rank found."""
        return dataclasses.replace(plan, storage_data=key_of(self._source.manifest))

    def prepare_global_plan(self, plans: list[LoadPlan]) -> list[LoadPlan]:
        """Refuse two answers: ranks that looked for "latest" while a save was being committed may have found them."""
        found = {plan.storage_data for plan in plans}
        if len(found) > 1:
            message = f"ranks found different checkpoints of run {self.run}: {sorted(map(str, found))}"
            raise ConflictError(message, hint="pass checkpoint_id, or load with run.load, where rank 0 decides")
        return plans

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future[None]:
        """Read, verify, rebuild, deliver."""
        return self._deliver(plan, planner, Sharing())

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:  # noqa: ARG003 - torch's signature
        """Never chosen by DCP itself: a store is named by its settings, not by a checkpoint's name."""
        return False

    def _deliver(self, plan: LoadPlan, planner: LoadPlanner, sharing: Sharing) -> Future[None]:
        cast, pickle = self.allow_cast, self.allow_pickle
        deliver(self._source, plan, planner, sharing, allow_cast=cast, allow_pickle=pickle)
        done: Future[None] = Future()
        done.set_result(None)
        return done

    def _open(self) -> Source:
        opened = shared(self.config)
        if self.selected is None:
            self.selected = select(opened, self.run, Selector.of_checkpoint_id(self.checkpoint_id))
        return Source.open(opened, self.selected, self.observer)
