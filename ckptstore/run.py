"""One training run of a store, in the Python API: save, load, list, verify, repair, drill, delete, prune, tag."""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from ckptstore.checkpoint import Checkpoint, Which, selector_of, the_one
from ckptstore.config import Config
from ckptstore.errors import UsageError
from ckptstore.events import Observer, ignore
from ckptstore.names import check_run
from ckptstore.notices import PruneFailedWarning, warner
from ckptstore.opened import Opened, shared
from ckptstore.placement import Survives
from ckptstore.retention import Keep, Retention, rules_for
from ckptstore.selection import Selector, history_of, live, select_from
from ckptstore.targets import Reason
from ckptstore.work import work
from manifests import History, Manifest

if TYPE_CHECKING:  # torch is imported when a state is saved or loaded, never to look at a store
    from ckptstore.dcp.saver import SaveHandle
    from ckptstore.dcp.state import LoadReport
    from ckptstore.operations.copying import CopyReport
    from ckptstore.operations.drill import DrillReport, Round
    from ckptstore.operations.pacing import How, Work
    from ckptstore.operations.prune import PruneReport
    from ckptstore.operations.repair import RepairReport
    from ckptstore.operations.verify import VerifyReport

__all__ = ["Run"]


class Run:
    """One training run of a store."""

    def __init__(self, config: Config, name: str) -> None:
        self.config = config
        self.name = check_run(name)

    @property
    def _opened(self) -> Opened:
        return shared(self.config)

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
        state_dict: dict[str, Any],
        *,
        step: int | None = None,
        name: str | None = None,
        user: dict[str, Any] | None = None,
        process_group: Any = None,
        observer: Observer = ignore,
    ) -> Checkpoint:
        """Save and commit; every rank calls it and gets the checkpoint.

        The name is `step-<step>` unless given. Raises `UsageError` family before anything is written, also where
        ranks are out of step (another step or name), `AccessDenied`, `ToleranceError`, `ConflictError`,
        `CommitInDoubt`, `SaveStalled`; first what a background save of the run failed with, if nobody has been told.
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
        state_dict: dict[str, Any],
        *,
        step: int | None = None,
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
        state_dict: dict[str, Any],
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

    def checkpoints(self) -> list[Checkpoint]:
        """The live checkpoints, oldest first; the last one is the latest. Raises `CorruptError` if none is readable."""
        return [Checkpoint.of(c.manifest, c.tags) for c in live(self._history())]

    def latest(self) -> Checkpoint:
        """The newest session's last save. Raises `NotFoundError`; `CorruptError` if what there is isn't readable."""
        found = select_from(self._history(), Selector())
        return Checkpoint.of(found.manifest, found.tags)

    def verify(
        self,
        step: Which | None = None,
        *,
        read_data: bool = False,
        subset: float | str = 1.0,
        observer: Observer = ignore,
        **how: "Unpack[How]",
    ) -> "VerifyReport":
        """Check that all of one checkpoint, or of all, is there; with `read_data` every digest too. Writes nothing.

        `subset`: only 0.1 or "10%" or "200GiB" of the data, another part each day; or part "3/7". `how`: `How`.
        """
        from ckptstore.operations.telling import verified
        from ckptstore.operations.verify import verify

        selector = None if step is None else selector_of(step)
        kind = "verify_one" if selector else "verify_data" if read_data else "verify"
        options = {"read_data": read_data, "subset": subset, **how}
        with work(kind, self.name, observer=observer) as w:
            report = verify(self._opened, self.name, selector, observer=w.observe, **options)
            if selector is None:
                w.observe(verified(self.name, report))
        return report

    def repair(
        self,
        step: Which | None = None,
        *,
        replace: Mapping[str, str] | None = None,
        dry_run: bool = False,
        observer: Observer = ignore,
        **how: "Unpack[Work]",
    ) -> "RepairReport":
        """Put back what is missing or damaged, of one checkpoint or all. `replace`: {target gone: target instead}.

        Other runs may be on it too: those in the report's `still_on` are to be repaired likewise before it is taken out
        of store.toml. `dry_run`: say what would be done, and write nothing. `how`: `Work`. Raises `UsageError`.
        """
        from ckptstore.operations.repair import repair

        selector = None if step is None else selector_of(step)
        with work("repair", self.name, observer=observer, dry_run=dry_run) as w:
            options = {"replace": replace, "dry_run": dry_run, **how}
            report = repair(self._opened, self.name, selector, observer=w.observe, **options)
            w.bytes = sum(result.bytes for result in report.checkpoints)
        return report

    def drill(
        self,
        step: Which | None = None,
        *,
        every: bool = False,
        rounds: "Sequence[Round] | None" = None,
        sample: float = 1.0,
        seed: str | int | None = None,
        scratch: str | os.PathLike[str] | None = None,
        report_dir: str | os.PathLike[str] | None = None,
        observer: Observer = ignore,
    ) -> "DrillReport":
        """Find out whether the latest checkpoint, one, or `every` one comes back when targets are lost.

        Changes nothing. `rounds`: what to lose, as `[operations.drill.Round(lose=2)]`; else as much as [objectives] of
        store.toml say. The other arguments, and what is raised, are those of `operations.drill.drill`.
        """
        from ckptstore.operations.drill import drill

        return drill(
            self.config,
            self.name,
            None if step is None else selector_of(step),
            every=every,
            rounds=rounds,
            sample=sample,
            seed=seed,
            scratch=None if scratch is None else Path(scratch),
            report_dir=None if report_dir is None else Path(report_dir),
            observer=observer,
        )

    def copy(
        self,
        to: "Run",
        step: Which | None = None,
        *,
        every: bool = False,
        read_back: bool = False,
        dry_run: bool = False,
        observer: Observer = ignore,
    ) -> "CopyReport":
        """Copy a checkpoint, the latest unless told, or every one of the run, into a run of another store or this one.

        What is there already is not copied again. `read_back`: read every byte written before the commit. Raises as
        `operations.copying.copy`; `UsageError` for what is no run, or one checkpoint where `every` is asked for.
        """
        from ckptstore.operations.copying import copy

        if not isinstance(to, Run):
            raise UsageError(f"a run is copied into a Run, not a {type(to).__name__}", hint='store.run("pretrain-7b")')
        if every and step is not None:
            raise UsageError(f"every checkpoint is to be copied, and {step} is named", hint="leave one of them out")
        selector = None if every else selector_of(step)
        options = {"read_back": read_back, "dry_run": dry_run}
        return copy(self._opened, self.name, selector, shared(to.config), to.name, observer=observer, **options)

    def delete(self, step: Which) -> Checkpoint:
        """Hide a checkpoint: it is not listed any more, and doesn't load. Of several saves of a step the newest.

        By its key also one of which no manifest can be read any more, so that a prune can remove what is left of it.

        A mark is put on it and nothing else: its data stays until a `prune` after the grace period, and until then
        `undelete` takes the mark back. Raises `NotFoundError`, `CommitInDoubt`, `OutOfReach`, as do all that put marks.
        """
        from ckptstore.operations.marking import delete

        return delete(self._opened, self.name, the_one(step))

    def undelete(self, step: Which) -> Checkpoint:
        """Take the delete mark from a checkpoint: it is listed and loads again."""
        from ckptstore.operations.marking import undelete

        return undelete(self._opened, self.name, the_one(step))

    def prune(
        self,
        rules: Retention | None = None,
        *,
        sweep_only: bool = False,
        dry_run: bool = False,
        read_data: bool = False,
        unsafe_allow_remove_all: bool = False,
        observer: Observer = ignore,
        **keep: Unpack[Keep],
    ) -> "PruneReport":
        """Delete what the rules don't keep; remove what was deleted, given up or orphaned a grace period ago.

        `rules`, or `keep_last=3` and the other fields of `Retention`; else those of store.toml. `sweep_only`: delete
        nothing live. `read_data`: first read all of what will be the latest, no sample. Raises as `operations.prune`.
        """
        from ckptstore.operations.prune import prune

        with work("prune", self.name, observer=observer, dry_run=dry_run) as w:
            return prune(
                self._opened,
                self.name,
                rules_for(self.config.retention, rules, keep, sweep_only=sweep_only),
                sweep_only=sweep_only,
                dry_run=dry_run,
                read_data=read_data or self.config.retention.read_data,
                allow_nothing=unsafe_allow_remove_all,
                strict_tags=rules is not None or bool(keep.get("keep_tags")),
                observer=w.observe,
            )

    def tag(self, step: Which, tag: str) -> Checkpoint:
        """Give a checkpoint a tag, and take it from the one that had it: `load(step="tag:best")` finds it.

        Raises `UsageError` for what can't be a tag.
        """
        from ckptstore.operations import marking

        return marking.tag(self._opened, self.name, the_one(step), tag)

    def untag(self, tag: str) -> Checkpoint:
        """Take a tag from the checkpoint that has it, be it deleted. Raises `NotFoundError` where none has."""
        from ckptstore.operations.marking import untag

        return untag(self._opened, self.name, tag)
