"""A save of one process, or rank 0's part of it: begin, and when every shard is durable, write the index and commit."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import erasure
import manifests
from ckptstore.deadline import Deadline
from ckptstore.errors import UsageError
from ckptstore.events import Observer, ignore
from ckptstore.names import check_chosen
from ckptstore.opened import JOB, Opened
from ckptstore.placement import Place, Survives, survives
from ckptstore.protocolerrors import protocol_errors
from ckptstore.save.copies import copies_wanted, put_copies
from ckptstore.save.shard import SavedShard, ShardSaver
from ckptstore.selection import history_of
from ckptstore.tolerance import weakest
from manifests import Copy, FormatError, Index, Manifest, Missing, Reference, TensorTable, Tolerance, paths

__all__ = ["About", "Commit", "check_about", "described", "shard_saver"]


@dataclass(frozen=True)
class About:
    """What a checkpoint says of itself. `world`: the ranks that wrote it."""

    name: str
    checkpoint_id: str
    step: int | None
    world: int = 1
    user: dict[str, Any] = field(default_factory=dict)


def described(step: int | None, name: str | None) -> About:
    """What a checkpoint saved from files is called: `step-N` unless it has a name. Raises `UsageError` for neither."""
    if step is None and name is None:
        raise UsageError("a checkpoint needs a step or a name", hint="step=7, or --step 7")
    called = f"step-{step}" if name is None else check_chosen(name)
    return About(called, called, step)


def check_about(run: str, about: About) -> None:
    """Refuse what no manifest can say before anything is written: `UsageError` naming the field."""
    described = Manifest(
        kind="void",
        run=run,
        session="000001.x",
        ordinal=1,
        name=about.name,
        checkpoint_id=about.checkpoint_id,
        step=about.step,
        user=about.user,
    )
    try:
        manifests.decode(Manifest, manifests.encode(described))  # encoding alone takes `step=True`
    except (FormatError, TypeError, ValueError) as error:
        message = f"a checkpoint can't be described so: {error}"
        raise UsageError(message, hint="step: a whole number from 0; name: text; user: what JSON can hold") from error


@dataclass
class Commit:
    """One save. `begin` before any data is written, `finish` when all of it is durable."""

    opened: Opened
    run: str
    places: Sequence[Place]
    job: str = JOB
    session: str = ""
    ordinal: int = 0

    def begin(self) -> None:
        """Say that a save begins. Raises `OutOfReach`, `CommitInDoubt`.

        And `CorruptError` where the run has data and no vote is left: with this save in it the data would be orphaned.
        """
        with protocol_errors():
            if not (self.opened.sessions.is_saving(self.run) or self.opened.group.newest_session(self.run)):
                history_of(self.opened, self.run)  # raises where the run is not new, but has lost its votes
            self.session, self.ordinal = self.opened.sessions.next_save(self.run, self.job)
            self.opened.group.begin(self.run, self.session, self.ordinal)

    def finish(
        self,
        saved: Sequence[SavedShard],
        tensors: TensorTable,
        about: About,
        *,
        structure: Any = None,
        planner_data: Sequence[tuple[str, list[str | int]]] = (),
    ) -> Manifest:
        """Write the index and commit. Raises `ConflictError`, `CommitInDoubt`, `OutOfReach`, `ToleranceError`."""
        index = Index(
            session=self.session,
            ordinal=self.ordinal,
            shards=[shard.reference for shard in saved],
            tensors=tensors,
            structure=structure,
            planner_data=list(planner_data),
        )
        reached = min((shard.survives.targets for shard in saved), default=0)
        reference, copies = self._put_index(index, reached)
        manifest = self._manifest(index, reference, [copies, *(shard.survives for shard in saved)], saved, about)
        with protocol_errors():
            self.opened.group.commit(manifest)
        return manifest

    def _put_index(self, index: Index, tolerance: int) -> tuple[Reference, Survives]:
        packed, measures = manifests.pack(index)
        path = paths.index(self.run, paths.new_token())
        count = copies_wanted(tolerance, self.places)
        opened, least = self.opened, self.opened.config.require_tolerance + 1
        holding, _ = put_copies(path, packed, count, self.places, opened.targets, opened.executor, least=least)
        return Reference(path=path, targets=holding, **measures), survives(holding, 1, opened.domains)

    def _manifest(
        self, index: Index, reference: Reference, each: Sequence[Survives], saved: Sequence[SavedShard], about: About
    ) -> Manifest:
        votes = self.opened.votes_survive()
        reached = weakest([votes, *each])
        planned = weakest([votes, self.opened.reachable_tolerance(self.opened.places)])
        missing: Counter[str] = Counter()
        for shard in saved:
            missing.update(shard.missing)
        return Manifest(
            kind="save",
            run=self.run,
            session=self.session,
            ordinal=self.ordinal,
            name=about.name,
            checkpoint_id=about.checkpoint_id,
            step=about.step,
            world=about.world,
            bytes=sum(shard.length for shard in index.shards),
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            user=about.user,
            tolerance=Tolerance(targets=reached.targets, domains=reached.domains),
            planned=Tolerance(targets=planned.targets, domains=planned.domains),
            missing=[Missing(target=target, fragments=count) for target, count in sorted(missing.items())],
            copies=[Copy(tier="main", index=reference)],
        )


def shard_saver(
    opened: Opened,
    run: str,
    places: Sequence[Place],
    observer: Observer = ignore,
    deadline: Deadline | None = None,
) -> ShardSaver:
    """What writes shards of a run with the store's settings, until `deadline`."""
    config = opened.config
    return ShardSaver(
        run=run,
        code=erasure.Code(config.k, config.m),
        fragment_bytes=config.fragment_bytes,
        targets=opened.targets,
        places=places,
        require_tolerance=config.require_tolerance,
        buffers=opened.buffers,
        executor=opened.executor,
        observer=observer,
        deadline=deadline or Deadline(),
    )
