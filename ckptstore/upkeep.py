"""What keeps the checkpoints of a run well, in the Python API: verify, repair, drill, copy, delete, prune, tag."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Self, Unpack

from ckptstore.checkpoint import Checkpoint, Which, selector_of, the_one
from ckptstore.config import Config
from ckptstore.errors import UsageError
from ckptstore.events import Observer, ignore
from ckptstore.names import check_run
from ckptstore.opened import Opened, shared
from ckptstore.retention import Keep, Retention, rules_for
from ckptstore.work import work

if TYPE_CHECKING:
    from ckptstore.operations.copying import CopyReport
    from ckptstore.operations.drill import DrillReport, Round
    from ckptstore.operations.pacing import How, Work
    from ckptstore.operations.prune import PruneReport
    from ckptstore.operations.repair import RepairReport
    from ckptstore.operations.report import StoreReport
    from ckptstore.operations.verify import VerifyReport

__all__ = ["Upkeep"]


class Upkeep:
    """One training run of a store, as whoever looks after it sees it. `ckptstore.run.Run` saves and loads as well."""

    def __init__(self, config: Config, name: str) -> None:
        self.config = config
        self.name = check_run(name)

    @property
    def _opened(self) -> Opened:
        return shared(self.config)

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
        with work(kind, self.name, observer=observer) as w:
            report = verify(
                self._opened, self.name, selector, read_data=read_data, subset=subset, observer=w.observe, **how
            )
            if selector is None:
                w.observe(verified(self.name, report, read_data=read_data))
        return report

    def repair(
        self,
        step: Which | None = None,
        *,
        replace: Mapping[str, str] | None = None,
        read_data: bool = True,
        dry_run: bool = False,
        observer: Observer = ignore,
        **how: "Unpack[Work]",
    ) -> "RepairReport":
        """Put back what is missing or damaged, of one checkpoint or all. `replace`: {target gone: target instead}.

        Every byte is read and checked first; without `read_data` what is missing is found by listing alone.

        Other runs may be on it too: those in the report's `still_on` are to be repaired likewise before it is taken out
        of store.toml. `dry_run`: say what would be done, and write nothing. `how`: `Work`. Raises `UsageError`.
        """
        from ckptstore.operations.repair import repair

        selector = None if step is None else selector_of(step)
        with work("repair", self.name, observer=observer, dry_run=dry_run) as w:
            report = repair(
                self._opened,
                self.name,
                selector,
                replace=replace,
                read_data=read_data,
                dry_run=dry_run,
                observer=w.observe,
                **how,
            )
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

        with work("drill", self.name, observer=observer) as w:
            report = drill(
                self.config,
                self.name,
                None if step is None else selector_of(step),
                every=every,
                rounds=rounds,
                sample=sample,
                seed=seed,
                scratch=None if scratch is None else Path(scratch),
                report_dir=None if report_dir is None else Path(report_dir),
                observer=w.observe,
            )
            w.outcome = "failed" if report.exit_code else "ok"
        return report

    def report(
        self,
        out: str | os.PathLike[str] | None = None,
        *,
        reports: str | os.PathLike[str] | None = None,
        read_data: bool = False,
        price: float | None = None,
        observer: Observer = ignore,
    ) -> "StoreReport":
        """Look at every checkpoint of this run, and write one HTML page to `out` if it is given. Changes nothing else.

        The arguments, and what is raised, are those of `operations.report.report`; `Store.report` is for all runs.
        """
        from ckptstore.operations.report import report

        return report(
            self.config,
            self.name,
            None if out is None else Path(out),
            reports=None if reports is None else Path(reports),
            read_data=read_data,
            price=price,
            observer=observer,
        )

    def copy(
        self,
        to: Self,
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

        if not isinstance(to, Upkeep):
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
