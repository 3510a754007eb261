"""Every interleaving of small scenarios, by the code that runs in production; and with a rule left out, a violation.

`make soak` visits the larger ones. docs/commit.md has the numbers.
"""

import time

import mutants
import pytest
from explorer import Budget, Violation
from scenarios import (
    SESSION,
    Scenario,
    burier,
    clearer,
    collector,
    deleter,
    reader,
    repairer,
    retirer,
    saver,
    settler,
    tagger,
    undeleter,
    voider,
)

from tests.faults.report import Proof, keep

DELETED = {"committed": True, "deleted": True, "attempts": 1}
UNDELETING = frozenset({(SESSION, 1)})
PRUNING = {"committed": True, "attempts": 1, "pruning": frozenset({(SESSION, 1)})}

SAME_SESSION = {"S": [saver(step=1)], "Z": [saver(step=2)]}
TWO_SESSIONS = {"S": [saver()], "Z": [saver(session="000002.two")]}

SMALL = {
    "one register: a saver and a collector, every fault": Scenario(
        1,
        0,
        {"S": [saver()], "V": [voider()]},
        Budget(failures=1, lost=1, late=1, crashes=1),
        coarse=False,
    ),
    "two registers, request by request: a saver, a wipe, a repairer": Scenario(
        2, 1, {"S": [saver()], "R": [repairer("a")]}, Budget(wipes=1), coarse=False, attempts=1
    ),
    "two registers: a saver that tries again, a wipe, a late put": Scenario(
        2, 1, {"S": [saver()], "R": [repairer("a")]}, Budget(wipes=1, late=1)
    ),
    "two registers: a saver, a collector, a wipe": Scenario(
        2, 1, {"S": [saver()], "V": [voider()], "R": [repairer("a")]}, Budget(wipes=1), attempts=1
    ),
    "two registers: a reader, two targets wiped in turn": Scenario(
        2,
        1,
        {"X": [reader()], "R": [repairer("a")], "Q": [repairer("b")]},
        Budget(wipes=2),
        committed=True,
        attempts=1,
    ),
    "two registers: a delete, a wipe, a late put": Scenario(
        2, 1, {"D": [deleter()], "R": [repairer("a")]}, Budget(wipes=1, late=1), committed=True, attempts=1
    ),
    "two registers: a saver that dies, a writer that completes, a collector": Scenario(
        2,
        1,
        {"S": [saver()], "T": [settler()], "V": [voider()]},
        Budget(crashes=1, failures=1),
        attempts=1,
    ),
    "one register: a collector and an undeleter, every fault": Scenario(
        1,
        0,
        {"C": [collector()], "U": [undeleter()]},
        Budget(failures=2, lost=1, late=1, crashes=1),
        undeleting=UNDELETING,
        **DELETED,
    ),
    "two registers: a collector that clears, an undeleter": Scenario(
        2, 1, {"C": [collector(), clearer()], "U": [undeleter()]}, Budget(crashes=1), undeleting=UNDELETING, **DELETED
    ),
    "two registers: a collector that clears, a wipe, a repairer": Scenario(
        2, 1, {"C": [collector(), clearer()], "R": [repairer("a")]}, Budget(wipes=1), **DELETED
    ),
    "request by request: a collector that clears, a reader": Scenario(
        2, 1, {"C": [collector(), clearer()], "X": [reader()]}, Budget(crashes=1), coarse=False, **DELETED
    ),
    "two registers: a collector that clears, a writer that completes": Scenario(
        2, 1, {"C": [collector(), clearer()], "T": [settler()]}, Budget(late=1), **DELETED
    ),
    "one register: a pruner, another's collector, a tagger, a death": Scenario(
        1, 0, {"P": [retirer(), collector()], "C": [collector()], "T": [tagger()]}, Budget(crashes=1), **PRUNING
    ),
    "two registers: a pruner without grace, a tagger, a death": Scenario(
        2, 1, {"P": [retirer(), collector()], "T": [tagger()]}, Budget(crashes=1), **PRUNING
    ),
    "two registers: a saver, a burier that clears, a lost reply": Scenario(
        2, 1, {"S": [saver()], "B": [burier(), clearer()]}, Budget(lost=1, crashes=1), attempts=1
    ),
    "three registers, request by request: two savers of two sessions, a death": Scenario(
        3, 1, TWO_SESSIONS, Budget(crashes=1), coarse=False, attempts=1
    ),
    "three registers, request by request: two savers of one session, a death": Scenario(
        3, 1, SAME_SESSION, Budget(crashes=1), coarse=False, attempts=1
    ),
    "four registers: a saver, a wipe, a repairer": Scenario(
        4, 1, {"S": [saver()], "R": [repairer("a")]}, Budget(wipes=1), attempts=1
    ),
}

LARGE = {
    "two registers: a saver and a collector, a lost reply, a late put": Scenario(
        2, 1, {"S": [saver()], "V": [voider()]}, Budget(late=1, lost=1)
    ),
    "two registers: two repairers of one target, wiped twice": Scenario(
        2,
        1,
        {"R": [repairer("a")], "Q": [repairer("a")]},
        Budget(wipes=2, late=1),
        committed=True,
        attempts=1,
    ),
    "three registers: a saver, failures, a wipe": Scenario(
        3, 1, {"S": [saver()], "R": [repairer("a")]}, Budget(wipes=1, failures=2), attempts=1
    ),
    "three registers, request by request: two savers of one session, a late put": Scenario(
        3, 1, SAME_SESSION, Budget(late=1), coarse=False, attempts=1
    ),
    "three registers, request by request: two savers of one session, a lost reply, a death": Scenario(
        3, 1, SAME_SESSION, Budget(lost=1, crashes=1), coarse=False, attempts=1
    ),
    "three registers, request by request: two savers of two sessions, a late put, a lost reply, a death": Scenario(
        3, 1, TWO_SESSIONS, Budget(late=1, lost=1, crashes=1), coarse=False, attempts=1
    ),
    "three registers: three savers of one session": Scenario(
        3, 1, {**SAME_SESSION, "Y": [saver(step=3)]}, Budget(), attempts=1
    ),
    "three registers: three savers of three sessions": Scenario(
        3, 1, {**TWO_SESSIONS, "Y": [saver(session="000003.three")]}, Budget(), attempts=1
    ),
    "three registers: a saver that dies, a writer that completes, a collector, a late put": Scenario(
        3, 1, {"S": [saver()], "T": [settler()], "V": [voider()]}, Budget(crashes=1, late=1), attempts=1
    ),
    "three registers: a collector that clears, an undeleter, a late put": Scenario(
        3, 1, {"C": [collector(), clearer()], "U": [undeleter()]}, Budget(late=1), undeleting=UNDELETING, **DELETED
    ),
    "three registers: a collector that clears, a wipe, a repairer, a lost reply": Scenario(
        3, 1, {"C": [collector(), clearer()], "R": [repairer("a")]}, Budget(wipes=1, lost=1), **DELETED
    ),
    "three registers: a saver, a burier that clears, a late put": Scenario(
        3, 1, {"S": [saver()], "B": [burier(), clearer()]}, Budget(late=1), attempts=1
    ),
    "two registers: two collectors that clear, a lost reply": Scenario(
        2, 1, {"C": [collector(), clearer()], "D": [collector(), clearer()]}, Budget(lost=1), **DELETED
    ),
    "three registers: a delete, two targets wiped in turn": Scenario(
        3,
        1,
        {"D": [deleter()], "R": [repairer("a")], "Q": [repairer("b")]},
        Budget(wipes=2),
        committed=True,
        attempts=1,
    ),
    "five registers, two may be lost: a saver, a wipe, a repairer": Scenario(
        5, 2, {"S": [saver()], "R": [repairer("a")]}, Budget(wipes=1), attempts=1
    ),
    "four registers: a saver, a collector, a late put": Scenario(
        4, 1, {"S": [saver()], "V": [voider()]}, Budget(late=1), attempts=1
    ),
    "three registers: a saver, two targets wiped in turn": Scenario(
        3, 1, {"S": [saver()], "R": [repairer("a")], "Q": [repairer("b")]}, Budget(wipes=2), attempts=1
    ),
    "two registers: two repairers of one target, wiped twice under a saver": Scenario(
        2, 1, {"S": [saver()], "R": [repairer("a")], "Q": [repairer("a")]}, Budget(wipes=2), attempts=1
    ),
    "three registers: a saver, a collector, a wipe": Scenario(
        3, 1, {"S": [saver()], "V": [voider()], "R": [repairer("a")]}, Budget(wipes=1), attempts=1
    ),
    "three registers, two may be lost: a saver, two targets wiped": Scenario(
        3, 2, {"S": [saver()], "R": [repairer("a")], "Q": [repairer("b")]}, Budget(wipes=2), attempts=1
    ),
}
EVERYTHING = SMALL | LARGE


@pytest.mark.parametrize("name", SMALL)
def test_o71_o72_every_interleaving_keeps_every_promise(name: str) -> None:
    explorer = SMALL[name].explore()
    assert explorer.ended > 10
    assert explorer.worlds > 500


@pytest.mark.soak
@pytest.mark.parametrize("name", LARGE)
def test_every_interleaving_of_larger_scenarios_keeps_every_promise(name: str) -> None:
    began = time.monotonic()
    VISITED[name] = LARGE[name].explore().worlds, time.monotonic() - began
    worlds = {name: count for name, (count, _) in VISITED.items()}
    counts = {"scenarios": len(worlds), "interleavings explored, as worlds": sum(worlds.values()), "promises broken": 0}
    seconds = sum(seconds for _, seconds in VISITED.values())
    keep("interleavings", Proof(TITLE, COMMAND, TEXT, counts, seconds, [[["scenario", "worlds"], *worlds.items()]]))
    assert worlds[name] > SMALLER.get(name, 50_000)


SMALLER = {
    "two registers: two repairers of one target, wiped twice": 20_000,
    "two registers: a saver and a collector, a lost reply, a late put": 500,
}
"""Slow for the number of their worlds."""
VISITED: dict[str, tuple[int, float]] = {}
TITLE = "Every interleaving of the commit protocol"
COMMAND = ".venv/bin/pytest -m soak tests/stateful/test_explorer.py --timeout 7200"
TEXT = """The code that runs in production, in every order in which the requests of several actors, wipes, failures,
lost replies, late puts and deaths can happen within the budget of a scenario (docs/commit.md). Each world, which is
what all registers hold and where every actor stands, is visited once, and every promise is checked in it, through every
set of targets that a reader may have to do with."""


BROKEN = [
    (mutants.votes_are_not_checked_again, "two registers: a saver that tries again, a wipe, a late put"),
    (mutants.votes_are_checked_one_by_one, "two registers: a saver that tries again, a wipe, a late put"),
    (mutants.votes_lie_outside_the_incarnation, "two registers: a saver, a collector, a wipe"),
    (mutants.a_copy_prefers_voids, "three registers: a saver, a collector, a wipe"),
    (mutants.a_valid_statement_needs_no_token, "two registers: two repairers of one target, wiped twice"),
    (mutants.a_vote_needs_one_less, "two registers: a saver that tries again, a wipe, a late put"),
    (mutants.a_vote_needs_one_less, "three registers, request by request: two savers of one session, a death"),
    (mutants.a_mark_counts_on_one_target, "two registers: a delete, a wipe, a late put"),
    (mutants.an_undelete_does_not_look_again, "two registers: a collector that clears, an undeleter"),
    (mutants.a_collector_does_not_look_again, "two registers: a collector that clears, an undeleter"),
    (mutants.a_tagger_does_not_look_again, "two registers: a pruner without grace, a tagger, a death"),
    (
        mutants.a_vote_that_vanished_is_not_missed,
        "request by request: a collector that clears, a reader",
    ),
    (mutants.votes_are_cleared_on_one_note, "two registers: a collector that clears, a wipe, a repairer"),
]


BROKEN_LATE = [
    (mutants.a_void_needs_only_a_quorum, "three registers: a saver, a collector, a wipe"),
    (mutants.a_pruner_does_not_look_again, "two registers: a pruner without grace, a tagger, a death"),
    (mutants.a_target_joins_without_a_token, "two registers: two repairers of one target, wiped twice under a saver"),
    (mutants.a_reading_needs_one_less, "three registers: a saver, failures, a wipe"),
]
"""Five to twenty seconds each until the violation is met: `make soak`."""


@pytest.mark.parametrize(
    ("mutant", "name"),
    [*BROKEN, *(pytest.param(*each, marks=pytest.mark.soak) for each in BROKEN_LATE)],
    ids=[mutant.__name__ for mutant, _ in [*BROKEN, *BROKEN_LATE]],
)
def test_leaving_out_a_rule_breaks_a_promise(mutant: mutants.Mutant, name: str) -> None:
    with mutant(), pytest.raises(Violation):
        EVERYTHING[name].explore()
