"""One training run of a store, in the Python API: save, load, list; `upkeep` has the rest."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ckptstore.checkpoint import Checkpoint, Which, selector_of
from ckptstore.commit import described
from ckptstore.events import Observer, ignore
from ckptstore.notices import PruneFailedWarning, warner
from ckptstore.placement import Survives
from ckptstore.selection import Selector, history_of, live, select, select_from
from ckptstore.targets import Reason
from ckptstore.upkeep import Upkeep
from ckptstore.work import work
from manifests import History, Manifest

if TYPE_CHECKING:  # torch is imported when a state is saved or loaded, never to look at a store
    from ckptstore.dcp.job import JobState
    from ckptstore.dcp.saver import SaveHandle
    from ckptstore.dcp.state import LoadReport
    from ckptstore.formats.exporting import Export

__all__ = ["Run"]


class Run(Upkeep):
    """One training run of a store."""

    def _history(self) -> History:
        return history_of(self._opened, self.name)

    def check(self) -> Survives:
        """Check, before training begins, that a save would succeed; returns how many losses it would survive.

        Raises the error of a target that refuses (`AccessDenied`, `NoSpace`, `TargetUnusable`) or whose bucket or
        directory is not there; `ToleranceError`, `OutOfReach` where too few are in reach. Leaves nothing behind.
        """
        opened = self._opened
        places, failed = opened.writable()
        for error in {**failed, **opened.refusals([place.target for place in places])}.values():
            if not error.transient or error.fields.get("reason") == Reason.GONE:
                raise error
        return opened.reachable_tolerance(opened.ready_to_save())

    def save(
        self,
        state_dict: "dict[str, Any] | JobState",
        step: int | None = None,
        *,
        name: str | None = None,
        user: dict[str, Any] | None = None,
        process_group: Any = None,
        observer: Observer = ignore,
    ) -> Checkpoint:
        """Save and commit; every rank calls it and gets the checkpoint.

        The name is `step-<step>` unless given; a `TrainState` knows its step. Raises `UsageError` family before
        anything is written, also where ranks are out of step (another step or name), `AccessDenied`, `ToleranceError`,
        `ConflictError`, `CommitInDoubt`, `SaveStalled`; first what a background save of the run failed with, if nobody
        has been told.
        Ranks talk on a gloo group of their own, and wait no longer than `save_timeout`; on a `process_group` given,
        as long as that does.
        """
        from ckptstore.dcp.saver import Saver

        saver = Saver.of(self.config, self.name)
        warn = warner()
        manifest = saver.save(state_dict, step=step, name=name, user=user, group=process_group, observer=observer)
        return self._committed(manifest, warn, process_group)

    def save_async(
        self,
        state_dict: "dict[str, Any] | JobState",
        step: int | None = None,
        *,
        name: str | None = None,
        user: dict[str, Any] | None = None,
        observer: Observer = ignore,
    ) -> "SaveHandle[Checkpoint]":
        """Copy the state and save it in the background, on a process group of its own; every rank calls it.

        Waits for the save before, and raises what that raised unless its `result()` did already. What nobody asked
        for is raised by the next save or by `Store.close`, else told at exit, with exit status 1.
        """
        from ckptstore.dcp.saver import Saver

        warn = warner()

        def commit(save: Callable[[], Manifest]) -> Checkpoint:
            return self._committed(save(), warn)

        saver = Saver.of(self.config, self.name)
        with work("stage", self.name, step, observer):  # what training waits for
            return saver.save_async(state_dict, step=step, name=name, user=user, observer=observer, wrap=commit)

    def _committed(self, manifest: Manifest, warn: Callable[[Warning], None], process_group: Any = None) -> Checkpoint:
        """The checkpoint just saved; rank 0 prunes, if that is automatic. Its failure fails no save."""
        from ckptstore.dcp.together import leads

        if self.config.retention.automatic and leads(process_group):
            from ckptstore.operations.automatic import prune_after_save

            if message := prune_after_save(self.config, self.name):
                warn(PruneFailedWarning(message))
        return Checkpoint.of(manifest)

    def load(
        self,
        state_dict: "dict[str, Any] | JobState",
        *,
        step: Which | None = None,
        name: str | None = None,
        strict: bool = True,
        allow_cast: bool = False,
        process_group: Any = None,
        observer: Observer = ignore,
    ) -> "LoadReport":
        """Load in place, every rank its part; rank 0 decides which checkpoint. The latest unless told.

        `step` may be a number, "latest", "tag:best" or a `Checkpoint`. `strict`: keys missing or unexpected raise
        `KeyMismatch`; else they are reported, and what is missing keeps its value. An empty `state_dict` is filled.
        A `TrainState` is put in place as a whole, its step too.
        """
        from ckptstore.dcp.state import load_state

        return load_state(
            self.config,
            self.name,
            state_dict,
            selector=selector_of(step, name),
            strict=strict,
            allow_cast=allow_cast,
            group=process_group,
            observer=observer,
        )

    def import_from(
        self,
        path: str | os.PathLike[str],
        *,
        step: int | None = None,
        name: str | None = None,
        format: str | None = None,  # noqa: A002 - the word of the command line
        observer: Observer = ignore,
    ) -> Checkpoint:
        """Save a checkpoint of another tool: a Hugging Face or DCP folder, a torch file, a DeepSpeed universal one.

        One process does it, and memory stays within the store's window and a piece (docs/formats.md). `format`: "hf",
        "dcp", "torch" or "deepspeed"; else as the path looks. Raises `UsageError`, and `UnsupportedValue` or
        `KeyCollision` naming the file or the tensor, before anything is written; nothing in a pickle is ever run.
        """
        from ckptstore.formats.importing import import_checkpoint, plan_import

        about = described(step, name)
        _, made = plan_import(Path(path), format)
        return Checkpoint.of(import_checkpoint(self._opened, self.name, made, about, observer))

    def export(
        self,
        path: str | os.PathLike[str],
        step: Which | None = None,
        *,
        format: str | None = None,  # noqa: A002 - the word of the command line
        include: Sequence[str] = (),
        prefix: str = "",
        max_shard_size: int | str = "5GB",
        force: bool = False,
        observer: Observer = ignore,
    ) -> "Export":
        """Write a checkpoint, the latest unless told, as standard files: "hf", "dcp", or "torch" for a `.pt` file.

        `include`: patterns of the keys wanted. `prefix`: only what is below it ("model."), and named without it.
        Raises `UnsupportedValue` naming tensors of dtypes that the format lacks, and `UsageError` for what is in the
        way unless `force`, before anything is written; `DataLost`, `OutOfReach`. An export that was interrupted has
        left no file that could be taken for a checkpoint.
        """
        from ckptstore.formats.exporting import export, plan_export
        from ckptstore.source import Source

        source = Source.open(self._opened, select(self._opened, self.name, selector_of(step)), observer)
        planned = plan_export(
            source,
            Path(path),
            name=format,
            include=include,
            prefix=prefix,
            shard_size=max_shard_size,
            force=force,
        )
        with work("export", self.name, source.manifest.step, observer) as w:
            export(source, planned, w.observe)
        return planned

    def checkpoints(self) -> list[Checkpoint]:
        """The live checkpoints, oldest first; the last one is the latest. Raises `CorruptError` if none is readable."""
        return [Checkpoint.of(c.manifest, c.tags) for c in live(self._history())]

    def latest(self) -> Checkpoint:
        """The newest session's last save. Raises `NotFoundError`; `CorruptError` if what there is isn't readable."""
        found = select_from(self._history(), Selector())
        return Checkpoint.of(found.manifest, found.tags)
