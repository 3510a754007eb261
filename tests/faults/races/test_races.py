"""Races between real processes, on local directories and on SeaweedFS (case O71)."""

import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

from tests.faults.crash.world import World, folder_world
from tests.faults.races.races import FROZEN, RACES
from tests.faults.report import Proof, keep


@pytest.mark.parametrize("name", ["two writers", "repair and delete"])
def test_o71_processes_at_once(name, tmp_path):
    RACES[name](folder_world(tmp_path / "s"))


@pytest.mark.parametrize(("name", "at"), [("zombie", 120), ("saver and prune", 100), ("reader and prune", 12)])
def test_o71_a_process_frozen_while_another_acts(name, at, tmp_path):
    assert FROZEN[name](folder_world(tmp_path / "s"), at, "after"), "it ended before it was frozen"


class Heat(NamedTuple):
    """One race to hold."""

    name: str
    hold: Callable[[World], object]


def heats(repeats: int, stride: int) -> Iterator[Heat]:
    """Every race, each so often; those with a frozen process at every `stride`th of its requests."""
    for name, race in RACES.items():
        yield from [Heat(name, race)] * repeats
    for name, frozen in FROZEN.items():
        for at in range(1, REQUESTS[name] + 1, stride):
            for when in ("before", "after"):
                yield Heat(name, lambda world, at=at, when=when, frozen=frozen: frozen(world, at, when))


def hold_all(new_world: Callable[[int], World], repeats: int, stride: int, record: str, where: str) -> None:
    began, held, failures = time.monotonic(), dict.fromkeys([*RACES, *FROZEN], 0), []
    for number, heat in enumerate(heats(repeats, stride)):
        held[heat.name] += 1
        try:
            heat.hold(new_world(number))
        except Exception as error:  # noqa: BLE001 - told with its race
            failures.append(f"{heat.name} ({number}): {error!r}")
    counts = {"races": sum(held.values()), "promises broken": len(failures)}
    title, rows = f"Races of processes on {where}", [["race", "held"], *held.items()]
    keep(record, Proof(title, COMMAND, TEXT, counts, time.monotonic() - began, [rows]))
    assert not failures, failures[:10]


@pytest.mark.soak
def test_o71_races_on_directories(tmp_path):
    hold_all(lambda number: folder_world(tmp_path / str(number)), 8, 6, "races-directories", "local directories")


@pytest.mark.soak
@pytest.mark.servers
def test_o71_races_on_seaweed(buckets):
    hold_all(lambda _: buckets(), 4, 15, "races-seaweed", "three SeaweedFS servers")


REQUESTS = {"zombie": 173, "saver and prune": 173, "reader and prune": 21}
COMMAND = ".venv/bin/pytest -m soak tests/faults/races --timeout 7200"
TEXT = """Code 2+1 on three targets; every process is a real one. Some start at once; in the last three one is frozen
by SIGSTOP at a request, the other acts to its end without any grace period, and the frozen one goes on. What was
reported committed is listed and holds that saver's bytes and no other's, what was refused was refused by a typed
error, the latest loads, and a prune leaves the latest alone and no object that it doesn't need."""
