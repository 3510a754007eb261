"""`ckpt verify`: would every checkpoint come back, and how much more may be lost? Writes nothing to the store.

Structure by default: every object that should be there is asked for by listing. `read_data` reads every byte (or
those of a `subset` of the stripes, another one each day) and checks its digest.
"""

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from typing import Unpack

from ckptstore.arguments import check_observer
from ckptstore.errors import UsageError
from ckptstore.events import Observer, Progress, ignore
from ckptstore.opened import THREADS, Opened
from ckptstore.operations.checking import check, look_at_votes
from ckptstore.operations.findings import Finding
from ckptstore.operations.health import (
    CheckpointHealth,
    VerifyReport,
    beside,
    recoverable,
    strangers,
    to_check,
    unreadable,
)
from ckptstore.operations.journal import Journal
from ckptstore.operations.pacing import How, check_pace, paced
from ckptstore.operations.subsets import NOTHING, Subset, Window, today
from ckptstore.placement import Survives
from ckptstore.protocolerrors import protocol_errors
from ckptstore.selection import Selector, refuse_lost_votes
from manifests import Checkpoint, History, ManifestError

LOOKS = 3  # at a checkpoint that gets a new version each time

__all__ = ["CheckpointHealth", "Looking", "Pass", "VerifyReport", "begun", "look", "read_votes", "verify"]


@dataclass(frozen=True)
class Looking:
    """How a pass looks. `read`: which part of the data, None for its structure only. `resume`: the file of a `Journal`.

    `limit_rate`: bytes a second. `jobs`: requests at once. `keep`: what was found of each stripe stays in the report.
    """

    read: Subset | None = None
    limit_rate: float | None = None
    jobs: int | None = None
    resume: str | os.PathLike[str] | None = None
    observer: Observer = ignore
    keep: bool = False

    @classmethod
    def of(cls, *, read_data: bool, subset: float | str, observer: Observer, how: How) -> "Looking":
        """Check what callers give. Raises `UsageError` that names what is wrong."""
        check_observer(observer)
        read, resume = Subset.of(subset), how.get("resume")
        if not read_data and subset != 1:
            raise UsageError(f"subset = {subset!r} of the data, and read_data is not set", hint="read_data=True")
        if not isinstance(resume, str | os.PathLike | None):
            raise UsageError(f"resume = {resume!r:.80}: the path of a file is wanted", hint='resume="verify.pass"')
        check_pace(how.get("limit_rate"), how.get("jobs"))
        return cls(read if read_data else None, how.get("limit_rate"), how.get("jobs"), resume, observer)


def verify(
    opened: Opened,
    run: str,
    selector: Selector | None = None,
    *,
    read_data: bool = False,
    subset: float | str = 1.0,
    observer: Observer = ignore,
    **how: Unpack[How],
) -> VerifyReport:
    """Check one checkpoint of a run, or all and those that could be undeleted. `subset`: the part that is read.

    Raises `NotFoundError` where there is none, `CorruptError` where there is data and not one record of a save,
    `UsageError` for what is no subset, rate or number of requests, and for a file to resume from that is another's.
    """
    return look(opened, run, selector, Looking.of(read_data=read_data, subset=subset, observer=observer, how=how))


def look(opened: Opened, run: str, selector: Selector | None, looking: Looking) -> VerifyReport:
    """The same, with everything that says how in one. Raises as `verify`."""
    with paced(opened, limit_rate=looking.limit_rate, jobs=looking.jobs) as view:
        history = read_votes(view, run)
        chosen = to_check(history, selector)
        both = [*chosen, *(recoverable(history) if selector is None else ())]
        with begun(view, looking, run, selector, both) as this:
            return this.look_at(history, chosen, everything=selector is None)


def read_votes(opened: Opened, run: str) -> History:
    """Every copy of every vote of a run, from targets whose standing is read anew. Raises as `verify`."""
    with protocol_errors():
        opened.group.refresh()  # what an open store knew of its targets may be old
        history = opened.group.history(run, every_copy=True)
    refuse_lost_votes(opened, history)
    return history


@contextmanager
def begun(
    opened: Opened, looking: Looking, run: str | None, selector: Selector | None, chosen: Sequence[Checkpoint]
) -> "Iterator[Pass]":
    """A pass over these checkpoints; of every run where `run` is None."""
    window = NOTHING if looking.read is None else looking.read.window(_stored(opened, chosen), today())
    if looking.resume is None:
        yield Pass(opened, looking, window)
        return
    about = {
        "store": opened.group.store_id,
        "targets": sorted({*opened.group.members.targets, *(place.target for place in opened.places)}),
        "run": run,
        "checkpoint": None if selector is None else str(selector),
        "read_data": looking.read is not None,
        "subset": looking.read.text if looking.read else None,
    }
    with Journal(looking.resume, about, window) as journal:
        yield Pass(opened, looking, journal.window, journal)


def _stored(opened: Opened, checkpoints: Sequence[Checkpoint]) -> int:
    """About how many bytes of fragments they have: by the store's code, since what they were saved with isn't read."""
    code = opened.config
    return int(sum(checkpoint.bytes for checkpoint in checkpoints) * Fraction(code.k + code.m, code.k))


@dataclass
class Pass:
    """One going through: which part it reads, and what it has seen."""

    opened: Opened
    looking: Looking
    window: Window
    journal: Journal | None = None

    def look_at(
        self, history: History, chosen: Sequence[Checkpoint], *, everything: bool, total: int | None = None
    ) -> VerifyReport:
        """Look at these checkpoints; at what else a run holds too, where `everything` is asked for."""
        deleted = recoverable(history) if everything else []
        each = total or len(chosen) + len(deleted)
        report = VerifyReport(self._look(history, chosen, each))
        if everything:
            report.checkpoints += unreadable(history)
            report.history, report.strange = beside(history), strangers(history)
            report.deleted = [health for health in self._look(history, deleted, each) if health.state != "changed"]
        return report

    def _look(self, history: History, chosen: Sequence[Checkpoint], total: int) -> list[CheckpointHealth]:
        """Several at a time, so that all the requests that may be under way at once are."""
        workers = max((self.looking.jobs or THREADS) // max(len(self.opened.targets), 1), 1)
        pool = ThreadPoolExecutor(workers, thread_name_prefix="ckptstore-verify")
        found = []
        try:
            for checkpoint, health in zip(chosen, pool.map(lambda c: self._first(history, c), chosen), strict=True):
                if self.journal is not None and health.state == "good":
                    self.journal.add(checkpoint, health)
                found.append(health)
                self.looking.observer(Progress("verify", 1, total))
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
        return self._settled(history, list(chosen), found)

    def _first(self, history: History, checkpoint: Checkpoint) -> CheckpointHealth:
        """Check it, unless an earlier part of the pass did, and its votes are all there still."""
        health = None if self.journal is None else self.journal.find(checkpoint)
        if health is not None:
            known = health.counts.expected, health.counts.checked
            look_at_votes(self.opened, history, checkpoint, health)
            health.counts.expected, health.counts.checked = known
            if not health.findings:
                return health
        return self._check(history, checkpoint)

    def _check(self, history: History, checkpoint: Checkpoint) -> CheckpointHealth:
        health = check(self.opened, history, checkpoint, self.window)
        if not self.looking.keep:
            health.shards = []  # of each stripe, so that a report over a fleet would need gigabytes
        return health

    def _settled(
        self, history: History, chosen: list[Checkpoint], found: list[CheckpointHealth]
    ) -> list[CheckpointHealth]:
        """Where something is amiss, see whether it was repaired or deleted meanwhile: that is no damage.

        Of a deleted one, whether it is being removed. The votes are read again once for all of them.
        """
        doubtful = [i for i, health in enumerate(found) if health.state != "good"]
        for _ in range(LOOKS):
            if not doubtful:
                break
            try:
                history = self.opened.group.history(history.run, every_copy=True)
            except ManifestError:
                break  # too few targets answer now: what was found stands
            again = []
            for i in doubtful:
                now = _standing(history, chosen[i])
                if now is None:
                    found[i] = _changed(found[i])
                elif now.manifest != chosen[i].manifest:
                    chosen[i], found[i] = now, self._check(history, now)
                    again.append(i)
            doubtful = [i for i in again if found[i].state != "good"]
        return found


def _standing(history: History, checkpoint: Checkpoint) -> Checkpoint | None:
    """The checkpoint as it stands now; None where it was deleted, or a deleted one can't be undeleted any more."""
    now = history.find(*checkpoint.key)
    if now is None or (now not in recoverable(history) if checkpoint.deleted else now.deleted):
        return None
    return now


def _changed(health: CheckpointHealth) -> CheckpointHealth:
    health.state, health.tolerance = "changed", Survives(-1, -1)
    health.findings = [Finding("changed", "manifest", "", health.key, "deleted while it was being looked at")]
    return health
