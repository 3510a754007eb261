"""The commit protocol under random faults, against a model that is right because it does nothing but remember.

Operations are interleaved request by request. What the model holds is what callers were told; whatever may be
read, from every choice of targets that a reader may be left with, must agree with it.
"""

from itertools import combinations, islice

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from stepping import Fault, Operation, run

from manifests import change, collect, commit, heal, marks, membership, paths
from manifests.attempts import with_view
from manifests.errors import ManifestError, NoQuorum, NotAStore
from manifests.history import History, SaveKey, order
from manifests.quorum import Scope, survey
from manifests.reading import read_history
from manifests.registers import Steps
from manifests.schema import Members
from manifests.testing import MemoryRegister, save_manifest

RUN = "r"
FAULTS: st.SearchStrategy[Fault] = st.sampled_from(["none"] * 8 + ["fails", "lost", "late"])


class GroupMachine(RuleBasedStateMachine):
    """A store on 1 to 7 registers, any number of savers, collectors and repairers, and whatever may happen to them."""

    def __init__(self) -> None:
        super().__init__()
        self.count = iter(range(10**6))
        self.under_way: list[tuple[str, SaveKey | None, Operation]] = []
        self.sessions: list[str] = []
        self.begun: list[SaveKey] = []
        self.committed: set[SaveKey] = set()
        self.voided: set[SaveKey] = set()
        self.deleted: set[SaveKey] = set()
        self.unsure: set[SaveKey] = set()
        self.ended: set[SaveKey] = set()
        self.undeletes: dict[SaveKey, int] = {}
        self.checked: object = None

    @initialize(n=st.integers(1, 5), spare=st.integers(0, 2), data=st.data())
    def a_new_store(self, n: int, spare: int, data: st.DataObject) -> None:
        names = [f"t{i}" for i in range(n + spare)]
        self.registers = {name: MemoryRegister(name) for name in names}
        self.scope = Scope(names, "s", lambda: f"x{next(self.count)}")
        t = data.draw(st.integers(0, max(0, (n - 1) // 2)))
        run(membership.init_store(self.scope, Members(number=1, targets=names[:n], t=t)), self.registers)
        self.open_session(at_once=True)
        self.save(at_once=True, data=data)

    # -- what savers, collectors and repairers begin -----------------------------------------------------------

    def start(self, kind: str, of: SaveKey | None, steps: Steps[object], at_once: bool) -> None:
        operation = Operation(steps, self.registers)
        self.under_way.append((kind, of, operation))
        if at_once:
            operation.finish()
        self.take_ended()

    @rule(at_once=st.booleans())
    def open_session(self, at_once: bool) -> None:
        self.start("open", None, commit.open_session(self.scope, RUN, "now"), at_once)

    @precondition(lambda self: self.sessions)
    @rule(at_once=st.booleans(), data=st.data())
    def save(self, at_once: bool, data: st.DataObject) -> None:
        session = data.draw(st.sampled_from(self.sessions))
        save = session, sum(1 for of in self.begun if of[0] == session) + 1
        self.begun.append(save)
        self.start("save", save, commit.commit(self.scope, save_manifest(RUN, *save)), at_once)

    @precondition(lambda self: self.begun)
    @rule(at_once=st.booleans(), data=st.data())
    def void(self, at_once: bool, data: st.DataObject) -> None:
        save = data.draw(st.sampled_from(self.begun))
        self.start("void", save, collect.bury(self.scope, RUN, save, "now"), at_once)

    @precondition(lambda self: self.committed)
    @rule(at_once=st.booleans(), data=st.data())
    def delete(self, at_once: bool, data: st.DataObject) -> None:
        save = data.draw(st.sampled_from(sorted(self.committed)))
        self.unsure.add(save)
        self.start(
            f"delete after {self.undeletes.get(save, 0)}", save, marks.delete(self.scope, RUN, save, "now"), at_once
        )

    @precondition(lambda self: self.committed)
    @rule(at_once=st.booleans(), data=st.data())
    def undelete(self, at_once: bool, data: st.DataObject) -> None:
        save = data.draw(st.sampled_from(sorted(self.committed)))
        self.deleted.discard(save)
        self.undeletes[save] = self.undeletes.get(save, 0) + 1
        self.unsure.add(save)
        self.start("undelete", save, marks.undelete(self.scope, RUN, save, "now"), at_once)

    @precondition(lambda self: self.unsure)
    @rule(at_once=st.booleans(), data=st.data())
    def collect(self, at_once: bool, data: st.DataObject) -> None:
        save = data.draw(st.sampled_from(sorted(self.unsure)))
        deletes = data.draw(st.sampled_from([*self.marked(save), ""]))
        self.start("collect", save, collect.collect(self.scope, RUN, save, {deletes}, "now"), at_once)

    @rule(at_once=st.booleans())
    def clear(self, at_once: bool) -> None:
        self.start("clear", None, with_view(self.scope, None, lambda view: collect.clear(view, RUN)), at_once)

    def marked(self, save: SaveKey) -> list[str]:
        """The random parts of the marks on a save, wherever they are."""
        folder = f"/marks/{paths.save_name(*save)}/"
        return sorted({p.rpartition("/")[2] for r in self.registers.values() for p in r.objects if folder in p})

    @rule(at_once=st.booleans(), data=st.data())
    def readmit(self, at_once: bool, data: st.DataObject) -> None:
        target = data.draw(st.sampled_from(sorted(self.registers)))
        self.start("readmit", None, membership.readmit(self.scope, target), at_once)

    @rule(at_once=st.booleans(), everything=st.booleans())
    def heal(self, at_once: bool, everything: bool) -> None:
        work = heal.heal if everything else heal.settle
        self.start("heal", None, with_view(self.scope, None, lambda view: work(view, RUN)), at_once)

    @rule(at_once=st.booleans(), data=st.data())
    def change_members(self, at_once: bool, data: st.DataObject) -> None:
        names = sorted(self.registers)
        chosen = data.draw(st.lists(st.sampled_from(names), min_size=1, unique=True))
        t = data.draw(st.integers(0, (len(chosen) - 1) // 2))
        self.start("change", None, change.change_members(self.scope, chosen, t), at_once)

    # -- what happens to them ----------------------------------------------------------------------------------

    @precondition(lambda self: self.under_way)
    @rule(data=st.data(), steps=st.integers(1, 8), fault=FAULTS)
    def go_on(self, data: st.DataObject, steps: int, fault: Fault) -> None:
        operation = data.draw(st.sampled_from(self.under_way))[2]
        for _ in range(steps):
            if not operation.ended:
                operation.step(data.draw(st.integers(0, 6)), fault)
            fault = "none"
        self.take_ended()

    @precondition(lambda self: self.under_way)
    @rule(data=st.data())
    def finish(self, data: st.DataObject) -> None:
        data.draw(st.sampled_from(self.under_way))[2].finish()
        self.take_ended()

    @precondition(lambda self: self.under_way)
    @rule(data=st.data())
    def crash(self, data: st.DataObject) -> None:
        self.under_way.remove(data.draw(st.sampled_from(self.under_way)))

    @rule(data=st.data())
    def outage(self, data: st.DataObject) -> None:
        self.registers[data.draw(st.sampled_from(sorted(self.registers)))].down = True

    @rule()
    def outages_end(self) -> None:
        for register in self.registers.values():
            register.down = False

    @rule(data=st.data())
    def late_puts_land(self, data: st.DataObject) -> None:
        self.registers[data.draw(st.sampled_from(sorted(self.registers)))].land()

    @rule(data=st.data())
    def wipe(self, data: st.DataObject) -> None:
        """Wipe a target, unless more than t of any set of members would then be lost."""
        register = self.registers[data.draw(st.sampled_from(sorted(self.registers)))]
        before = dict(register.objects)
        register.objects.clear()
        if not self.within_tolerance():
            register.objects.update(before)

    def within_tolerance(self) -> bool:
        with Everybody(self.registers):
            try:
                view = run(survey(self.scope), self.registers)
            except ManifestError:
                return False
        return all(sum(not view.is_valid(name) for name in m.targets) <= m.t for m in view.sets)

    def take_ended(self) -> None:
        """Remember what the callers of ended operations were told."""
        for kind, of, operation in [item for item in self.under_way if item[2].ended]:
            self.under_way.remove((kind, of, operation))
            if operation.error is not None and kind != "undelete":
                continue
            match kind:
                case "open":
                    self.sessions.append(operation.result)
                case "save":
                    self.committed.add(of)
                case "void" if operation.result == "voided":
                    self.voided.add(of)
                case "collect" if operation.result == "collected":
                    self.ended.add(of)
                case "undelete":
                    self.undeletes[of] += 1
                case _ if kind == f"delete after {self.undeletes.get(of, 0)}" and not self.undeleting(of):
                    self.deleted.add(of)

    def undeleting(self, of: SaveKey) -> bool:
        """Whether some undelete may still undo a delete mark that is put now."""
        return any(kind == "undelete" and other == of for kind, other, _ in self.under_way)

    # -- what must hold ----------------------------------------------------------------------------------------

    @invariant()
    def promises_hold(self) -> None:
        told = tuple(map(len, (self.committed, self.voided, self.deleted, self.unsure, self.ended)))
        world = (told, *(frozenset(register.objects) for register in self.registers.values()))
        if world == self.checked:
            return
        self.checked = world
        names = sorted(self.registers)
        for size in range(len(names), 0, -1):
            for heard in islice(combinations(names, size), 6):
                history = self.read(heard)
                if history is not None:
                    self.check(history)

    def read(self, heard: tuple[str, ...]) -> History | None:
        with Everybody(self.registers, heard):
            try:
                return run(with_view(self.scope, None, lambda view: read_history(view, RUN)), self.registers)
            except (NoQuorum, NotAStore):
                return None

    def check(self, history: History) -> None:
        live = {checkpoint.key for checkpoint in history.checkpoints}
        dead = {checkpoint.key for checkpoint in history.deleted}
        ended = set(history.collected)
        assert ended <= self.unsure | set(self.begun) - self.committed, "a save ended that nobody deleted or gave up"
        assert self.committed - ended <= live | dead, "a committed save is not there"
        assert not self.ended & (live | dead), "a collected save came back"
        assert self.committed - self.unsure <= live, "a save was deleted that nobody deleted"
        assert not self.voided & (live | dead), "a voided save came back"
        assert not self.deleted & live, "a deleted save came back"
        floor = max((order(save) for save in self.committed - self.unsure), default=None)
        assert floor is None or order(history.latest.key) >= floor, "latest moved backwards"
        assert not [problem for problem in history.problems if problem.fatal]

    def teardown(self) -> None:
        """After the faults: repair, then a new save must succeed, and be the latest."""
        if not hasattr(self, "registers") or not self.within_tolerance():
            return
        with Everybody(self.registers):
            for target in run(survey(self.scope), self.registers).targets:
                run(membership.readmit(self.scope, target), self.registers)
            run(with_view(self.scope, None, lambda view: heal.settle(view, RUN)), self.registers)
            session = run(commit.open_session(self.scope, RUN, "now"), self.registers)
            run(commit.commit(self.scope, save_manifest(RUN, session, 1)), self.registers)
            self.committed.add((session, 1))
            self.check(run(with_view(self.scope, None, lambda view: read_history(view, RUN)), self.registers))


class Everybody:
    """While it lasts, only those heard (all, by default) are in reach."""

    def __init__(self, registers: dict[str, MemoryRegister], heard: tuple[str, ...] | None = None) -> None:
        self.registers = registers
        self.heard = registers.keys() if heard is None else heard

    def __enter__(self) -> None:
        self.before = {name: register.down for name, register in self.registers.items()}
        for name, register in self.registers.items():
            register.down = name not in self.heard

    def __exit__(self, *_: object) -> None:
        for name, register in self.registers.items():
            register.down = self.before[name]


COMMON = {"deadline": None, "suppress_health_check": list(HealthCheck), "derandomize": True}

TestGroupMachine = GroupMachine.TestCase
TestGroupMachine.settings = settings(max_examples=25, stateful_step_count=50, **COMMON)


@pytest.mark.soak
class TestGroupMachineLong(GroupMachine.TestCase):
    settings = settings(
        max_examples=3000, stateful_step_count=120, deadline=None, suppress_health_check=list(HealthCheck)
    )
