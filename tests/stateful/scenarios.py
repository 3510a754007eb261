"""What the explorer explores: stores, actors, and the promises that every world is checked for."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any
from unittest import mock

from actors import Fact, Phase
from explorer import Budget, Explorer, World

from manifests import attempts, collect, commit, heal, marks, membership
from manifests.attempts import with_view
from manifests.errors import ManifestError
from manifests.founding import init_store
from manifests.group import Group
from manifests.history import History
from manifests.quorum import Scope, View
from manifests.reading import read_history
from manifests.registers import Steps, drive
from manifests.schema import Mark
from manifests.testing import MemoryRegister, save_manifest

RUN = "r"
SESSION = "000001.one"
VOTES = frozenset({"votes"})
Save = tuple[str, int]


class Anything(tuple[str, ...]):
    """Contains whatever it is asked for: every delete mark is past its grace period."""

    __slots__ = ()

    def __contains__(self, item: object) -> bool:
        return True


ANY = Anything()


def a_store(n: int, t: int) -> dict[str, MemoryRegister]:
    """Return the registers of a new store."""
    registers = [MemoryRegister(name) for name in "abcdefg"[:n]]
    count = iter(range(1000))
    init_store(registers, t=t, store_id="s", random=lambda: f"i{next(count)}")
    return {register.name: register for register in registers}


# -- actors ------------------------------------------------------------------------------------------------


def saver(ordinal: int = 1, session: str = SESSION, step: int | None = None) -> Phase:
    """Commit a save of a session that is open already. `step`: what is saved, where others save under the same name."""
    manifest = save_manifest(RUN, session, ordinal, step=step)
    reported = ("committed", (session, ordinal)) if step is None else ("won", ((session, ordinal), step))

    def fact(outcome: Any) -> Fact | None:
        return reported if isinstance(outcome, commit.Committed) else None

    return Phase(lambda scope: commit.commit(scope, manifest), fact, VOTES)


def voider(ordinal: int = 1, session: str = SESSION) -> Phase:
    """Close the register of a save."""

    def fact(outcome: Any) -> Fact | None:
        return ("voided", (session, ordinal)) if outcome == "voided" else None

    return Phase(lambda scope: commit.void(scope, RUN, session, ordinal, "now"), fact, VOTES)


def deleter(ordinal: int = 1, session: str = SESSION) -> Phase:
    """Put a delete mark on a save."""
    mark = Mark(kind="delete", of=(session, ordinal))

    def fact(outcome: Any) -> Fact | None:
        return ("deleted", (session, ordinal)) if isinstance(outcome, str) else None

    return Phase(lambda scope: commit.put_mark(scope, RUN, mark), fact, VOTES)


def undeleter(ordinal: int = 1, session: str = SESSION) -> Phase:
    """Take back the delete marks of a save."""

    def fact(outcome: Any) -> Fact | None:
        return ("undeleted", (session, ordinal)) if outcome is None else None

    return Phase(lambda scope: marks.undelete(scope, RUN, (session, ordinal), "now"), fact, VOTES)


def tagger(ordinal: int = 1, session: str = SESSION) -> Phase:
    """Give a save a tag."""

    def fact(outcome: Any) -> Fact | None:
        return ("tagged", (session, ordinal)) if outcome is None else None

    return Phase(lambda scope: marks.tag(scope, RUN, (session, ordinal), "best", "now"), fact, VOTES)


def retirer(ordinal: int = 1, session: str = SESSION) -> Phase:
    """Delete a save as a pruner does."""
    save = session, ordinal

    def fact(outcome: Any) -> Fact | None:
        return ("retired", save) if outcome == {save: "deleted"} else None

    return Phase(lambda scope: marks.retire(scope, RUN, [save], "now"), fact, VOTES)


def collector(ordinal: int = 1, session: str = SESSION) -> Phase:
    """End a save whose delete marks are all past their grace period."""

    def fact(outcome: Any) -> Fact | None:
        return ("collected", (session, ordinal)) if outcome == "collected" else None

    return Phase(lambda scope: collect.collect(scope, RUN, (session, ordinal), ANY, "now"), fact, VOTES)


def burier(ordinal: int = 1, session: str = SESSION) -> Phase:
    """End a save that was given up."""

    def fact(outcome: Any) -> Fact | None:
        return ("voided", (session, ordinal)) if outcome == "voided" else None

    return Phase(lambda scope: collect.bury(scope, RUN, (session, ordinal), "now"), fact, VOTES)


def clearer() -> Phase:
    """Remove what is left of the votes on ended saves."""
    return Phase(lambda scope: with_view(scope, None, _clear), lambda outcome: None, VOTES)


def _clear(view: View) -> Steps[int | None]:
    return collect.clear(view, RUN)


def repairer(target: str) -> Phase:
    """Re-admit a target."""
    writes = VOTES | {f"standing of {target}"}
    return Phase(lambda scope: membership.readmit(scope, target), lambda outcome: None, writes)


def settler() -> Phase:
    """Complete what was seen on too few targets."""
    return Phase(lambda scope: with_view(scope, None, lambda view: heal.settle(view, RUN)), lambda outcome: None, VOTES)


def reader() -> Phase:
    """Read the history; what it saw is checked against what had been reported when it began, by `Promises`."""

    def fact(outcome: Any) -> Fact | None:
        if not isinstance(outcome, History):
            return None
        return ("read", frozenset(c.key for c in outcome.checkpoints))

    return Phase(lambda scope: with_view(scope, None, lambda view: read_history(view, RUN)), fact)


Reading = tuple[set[Save], set[Save], set[Save]]
FACTS = ("committed", "voided", "deleted", "undeleted", "collected", "tagged", "retired")


# -- promises ----------------------------------------------------------------------------------------------


class Promises:
    """Checks a world, through every set of targets that a reader may have to do with."""

    def __init__(self, t: int, undeleting: frozenset[Save], pruning: frozenset[Save]) -> None:
        self.t, self.undeleting, self.pruning = t, undeleting, pruning
        self._seen: dict[tuple[int, ...], list[Reading]] = {}
        self._ends: dict[tuple[tuple[int, ...], frozenset[Fact]], str | None] = {}

    def check(self, explorer: Explorer, world: World) -> str | None:
        """Check what was reported against what can be read now, at once, from any R targets that count."""
        if not world.facts:
            return None
        saves = {kind: {save for what, save in world.facts if what == kind} for kind in FACTS}
        won = [value for what, value in world.facts if what == "won"]
        saves["committed"] |= {save for save, _ in won}
        for live, dead, ended in self._readings(explorer, world.contents):
            if lost := saves["committed"] - live - dead - (ended & (saves["deleted"] | self.pruning)):
                return f"lost: {lost} was reported committed"
            if back := (saves["voided"] | saves["collected"]) & (live | dead):
                return f"back: {back} was reported voided or collected"
            if back := (saves["deleted"] & live) - self.undeleting:
                return f"back: {back} was reported deleted"
            if gone := (saves["undeleted"] - live) | (saves["tagged"] - live - dead):
                return f"gone: {gone} was reported undeleted or tagged"
        return self._check_winners(won) or self._check_pruned(saves) or self._check_reads(explorer, world)

    @staticmethod
    def _check_pruned(saves: dict[str, set[Save]]) -> str | None:
        """Check that what was reported tagged was not reported deleted by a pruner."""
        if both := saves["tagged"] & saves["retired"]:
            return f"a tagger and a pruner were both told that they have {both}"
        return None

    @staticmethod
    def _check_winners(won: Sequence[tuple[Save, int]]) -> str | None:
        """Check that of the savers of one name at most one was told that it committed."""
        if len({save for save, _ in won}) < len(won):
            return f"two savers of one name were told that they had committed: {won}"
        return None

    @staticmethod
    def _check_reads(explorer: Explorer, world: World) -> str | None:
        """Check what readers saw, request by request, against what had been reported before they began."""
        before = {kind: {save for what, save in explorer.first.facts if what == kind} for kind in FACTS}
        for what, read in world.facts:
            if what == "read" and not before["committed"] - before["deleted"] <= read:
                return f"a reader saw {set(read)} and not what had been committed before"
            if what == "read" and read & before["deleted"]:
                return f"a reader saw {set(read)}, which had been deleted before"
        return None

    def _readings(self, explorer: Explorer, contents: tuple[int, ...]) -> list[Reading]:
        """Return (live, deleted, ended) as read from each smallest set of targets that a reading may be made from."""
        if contents not in self._seen:
            valid = explorer.tables.valid(contents)
            need = len(explorer.names) - self.t
            registers = explorer.tables.registers(contents)
            self._seen[contents] = [self._read(registers, names) for names in combinations(valid, need)]
        return self._seen[contents]

    @staticmethod
    def _read(registers: dict[str, MemoryRegister], names: Sequence[str]) -> Reading:
        for name, register in registers.items():
            register.down = name not in names
        scope = Scope([*registers], "s", lambda: "unused")
        history = drive(with_view(scope, None, lambda view: read_history(view, RUN)), registers)
        return {c.key for c in history.checkpoints}, {c.key for c in history.deleted}, {*history.collected}

    def check_end(self, explorer: Explorer, world: World) -> str | None:
        """After the faults: repair once, then a new save must succeed at the first try, with nothing lost."""
        key = world.contents, world.facts
        if key not in self._ends:
            self._ends[key] = self._recover(explorer, world)
        return self._ends[key]

    def _recover(self, explorer: Explorer, world: World) -> str | None:
        registers = explorer.tables.registers(world.contents)
        count = iter(range(1000))
        try:
            group = Group.open([*registers.values()], store_id="s", random=lambda: f"end{next(count)}")
            for name in registers:
                group.readmit(name)
            session = group.open_session(RUN)
            group.commit(save_manifest(RUN, session, 1))
        except ManifestError as error:
            return f"no recovery: {error!r}"
        latest = group.history(RUN).latest
        if latest is None or latest.session != session:
            return f"latest is {latest}, not the save just made"
        return None


@dataclass(frozen=True)
class Scenario:
    """N registers of which t may be lost, what acts on them, and how often each fault may happen.

    `committed`: save 1 is committed before anything else happens; `deleted`: and deleted. `undeleting`: the saves that
    somebody tries to undelete, `pruning`: those that a pruner may delete. `coarse`: see `Explorer`. At most `attempts`
    are made by each operation.
    """

    n: int
    t: int
    actors: dict[str, list[Phase]]
    budget: Budget
    committed: bool = False
    deleted: bool = False
    undeleting: frozenset[Save] = frozenset()
    pruning: frozenset[Save] = frozenset()
    coarse: bool = True
    attempts: int = 2

    def explore(self, *, max_worlds: int = 5_000_000) -> Explorer:
        """Visit every world; raise Violation if a promise is broken in any."""
        registers = a_store(self.n, self.t)
        facts = frozenset[Fact]()
        if self.committed:
            scope = Scope([*registers], "s", lambda: "unused")
            drive(commit.commit(scope, save_manifest(RUN, SESSION, 1)), registers)
            facts = frozenset({("committed", (SESSION, 1))})
        if self.deleted:
            scope = Scope([*registers], "s", lambda: "deleted")
            drive(commit.put_mark(scope, RUN, Mark(kind="delete", of=(SESSION, 1))), registers)
            facts |= {("deleted", (SESSION, 1))}
        contents = {name: register.objects for name, register in registers.items()}
        with mock.patch.object(attempts, "ATTEMPTS", self.attempts):
            explorer = Explorer(
                self.t, contents, self.actors, self.budget, facts, coarse=self.coarse, max_worlds=max_worlds
            )
            promises = Promises(self.t, self.undeleting, self.pruning)
            explorer.check, explorer.check_end = promises.check, promises.check_end
            explorer.run()
        return explorer
