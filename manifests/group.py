"""The commit targets of a store, together: the protocol as plain blocking calls."""

from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime
from typing import Literal

import msgspec

from manifests import change, collect, commit, heal, marks, membership, paths
from manifests.attempts import with_view
from manifests.founding import by_name, checked_tolerance
from manifests.history import History
from manifests.log import Event, read_log
from manifests.paths import SaveKey
from manifests.problems import Problem
from manifests.quorum import Scope, View, survey
from manifests.reading import read_history
from manifests.registers import Register, Steps, T, drive
from manifests.schema import Manifest, Members
from manifests.standing import TargetStanding

Committed = commit.Committed


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


class Group:
    """The registers of one store. Blocking and thread-safe; holds no thread and no connection of its own.

    Everything raises `NoQuorum` where too few targets count or answer; `standings` says why for each.
    """

    def __init__(self, registers: Sequence[Register], view: View, random: Callable[[], str]) -> None:
        self._registers = by_name(registers)
        self._view = view
        self._scope = Scope(tuple(self._registers), view.store_id, random)
        self._committed: dict[str, commit.Committed] = {}

    @classmethod
    def open(
        cls,
        registers: Sequence[Register],
        *,
        store_id: str | None = None,
        random: Callable[[], str] = paths.new_token,
    ) -> "Group":
        """Read the standing of every target. Raises NotAStore; NoQuorum where no target that counts answers.

        Too few targets for a quorum are no error yet: `standings` tells, and `readmit` may mend it.
        """
        scope = Scope([register.name for register in registers], store_id, random)
        return cls(registers, drive(survey(scope), by_name(registers)), random)

    # -- the targets ---------------------------------------------------------------------------------------

    @property
    def store_id(self) -> str:
        """The store's random id."""
        return self._view.store_id

    @property
    def members(self) -> Members:
        """The commit targets and how many may be lost, as last read."""
        return self._view.members

    @property
    def standings(self) -> dict[str, TargetStanding]:
        """What each target opened counts for, and why, as last read."""
        return dict(self._view.standings)

    @property
    def can_read(self) -> bool:
        """Whether R targets counted when last read."""
        return self._view.can_read(self._view.valid)

    @property
    def can_save(self) -> bool:
        """Whether Q and R targets counted when last read."""
        return self.can_read and self._view.is_complete(self._view.valid)

    def refresh(self) -> None:
        """Read members and standings again.

        Raises NotAStore, NoQuorum where no target that counts answers.
        """
        self._view = self._drive(survey(self._scope))

    def readmit(self, target: str) -> tuple[Problem, ...]:
        """Make a wiped or damaged member valid again; see `membership.readmit`.

        Return what had no good copy.
        """
        problems = self._drive(membership.readmit(self._scope, target))
        self.refresh()
        return problems

    def change_members(self, targets: Sequence[str], t: int) -> None:
        """Make `targets`, all of them opened, the members; see `change.change_members`."""
        t = checked_tolerance(t, targets)
        self._drive(change.change_members(self._scope, targets, t))
        self.refresh()

    # -- saving --------------------------------------------------------------------------------------------

    def open_session(self, run: str, job: str = "") -> str:
        """Open `run` for saving and return the session's name; savers of older sessions are fenced from now on.

        Processes of one `job` (any token without a dash) don't fence each other. First completes the
        manifests and marks of the run that were seen on too few targets. Raises NoQuorum, InDoubt.
        """
        self.settle(run)
        return self._drive(commit.open_session(self._scope, run, _now(), job))

    def newest_session(self, run: str, besides: str = "") -> str:
        """Return the newest session of a run, other than those of the job `besides`; "" where there is none."""
        return self._attempt(lambda view: commit.newest_session(view, run, besides))

    def begin(self, run: str, session: str, ordinal: int) -> None:
        """Say that a save begins; call before any of its data is written. Raises NoQuorum, InDoubt."""
        self._drive(commit.begin(self._scope, run, session, ordinal, _now()))

    def commit(self, manifest: Manifest) -> Committed:
        """Commit a save: `manifest.version` 1, all it names durable. Raises as `commit.commit`."""
        committed = self._drive(commit.commit(self._scope, manifest))
        self._committed[manifest.run] = committed
        return committed

    def supersede(self, manifest: Manifest) -> Committed:
        """Put a new version (kind "repair" or "copy") of a save's manifest, numbered above all that were seen.

        Raises NoSuchCheckpoint, NotUnderstood, InDoubt.
        """
        key = manifest.session, manifest.ordinal
        _, found = self._drive(marks.find(self._scope, manifest.run, key))
        above = msgspec.structs.replace(manifest, version=found.versions[-1].version + 1)
        return self._drive(commit.supersede(self._scope, above))

    def void(self, run: str, session: str, ordinal: int) -> Literal["voided", "saved"]:
        """Close the register of a save given up, so that it can never commit; see `commit.void`."""
        return self._drive(commit.void(self._scope, run, session, ordinal, _now()))

    # -- reading -------------------------------------------------------------------------------------------

    def history(self, run: str, *, every_copy: bool = False) -> History:
        """Read what a run holds: one list a target, one get a manifest or mark; or a get for each copy of each vote.

        What was last committed by this object is asked for by its name: a listing that lags doesn't hide it.
        """
        own = self._committed.get(run)
        return self._attempt(lambda view: read_history(view, run, own=own, every_copy=every_copy))

    def glimpse(self, run: str) -> History:
        """Read what can be seen of a run with fewer targets than a reading takes; see `reading.read_history`."""
        return self._drive(with_view(self._scope, None, lambda view: read_history(view, run, glimpse=True), survey))

    def log(self, run: str) -> tuple[Event, ...]:
        """Read everything that happened in a run, in order."""
        return self._attempt(lambda view: read_log(view, run))

    # -- marks ---------------------------------------------------------------------------------------------

    def delete(self, run: str, session: str, ordinal: int) -> None:
        """Put a delete mark on a save; its data stays until pruned. Raises NoSuchCheckpoint, InDoubt."""
        self._drive(marks.delete(self._scope, run, (session, ordinal), _now()))

    def retire(self, run: str, saves: Sequence[SaveKey]) -> dict[SaveKey, marks.Retired]:
        """Delete saves as a pruner does: not those that have a tag, or get one meanwhile; see `marks.retire`."""
        return self._drive(marks.retire(self._scope, run, saves, _now()))

    def undelete(self, run: str, session: str, ordinal: int) -> None:
        """Undo every delete mark that stands on a save. Raises NoSuchCheckpoint, BeingCollected, InDoubt."""
        self._drive(marks.undelete(self._scope, run, (session, ordinal), _now()))

    def tag(self, run: str, session: str, ordinal: int, tag: str) -> None:
        """Give a save a tag, and take it from any other save of the run; see `marks.tag`.

        Raises Conflict, BeingCollected, NoSuchCheckpoint, InDoubt.
        """
        self._drive(marks.tag(self._scope, run, (session, ordinal), paths.check_label(tag), _now()))

    def untag(self, run: str, tag: str) -> None:
        """Take a tag from the save that has it; nothing happens where none has. Raises InDoubt."""
        self._drive(marks.untag(self._scope, run, paths.check_label(tag), _now()))

    # -- collecting ----------------------------------------------------------------------------------------

    def collect(self, run: str, of: SaveKey, deletes: Collection[str]) -> Literal["collected", "kept"]:
        """End a deleted save for good, by one of its marks `deletes`; see `collect.collect`."""
        return self._drive(collect.collect(self._scope, run, of, deletes, _now()))

    def bury(self, run: str, of: SaveKey) -> Literal["voided", "saved"]:
        """End a save given up, so that it can never commit; see `collect.bury`."""
        return self._drive(collect.bury(self._scope, run, of, _now()))

    def clear(self, run: str) -> int:
        """Remove what is left of the votes on saves that have ended; return how many copies."""
        return self._attempt(lambda view: collect.clear(view, run), fresh=True)

    # -- repair --------------------------------------------------------------------------------------------

    def settle(self, run: str) -> heal.Healed:
        """Complete what was seen on too few targets."""
        return self._attempt(lambda view: heal.settle(view, run), fresh=True)

    def heal(self, run: str) -> heal.Healed:
        """Read every copy of every vote of a run; put back what is missing or damaged on targets that count."""
        return self._attempt(lambda view: heal.heal(view, run), fresh=True)

    def unhealed(self, run: str) -> tuple[tuple[str, str], ...]:
        """(target, inner name) of each copy that `heal` would put; puts nothing."""
        return self._attempt(lambda view: heal.unhealed(view, run), fresh=True)

    # -- running -------------------------------------------------------------------------------------------

    def _drive(self, steps: Steps[T]) -> T:
        return drive(steps, self._registers)

    def _attempt(self, body: Callable[[View], Steps[T | None]], *, fresh: bool = False) -> T:
        """Run `body` on the view last read, if that is good enough, and on a fresh one whenever targets changed."""

        def remembering(view: View) -> Steps[T | None]:
            self._view = view
            return (yield from body(view))

        first = self._view if self.can_read and not fresh else None
        return self._drive(with_view(self._scope, first, remembering))
