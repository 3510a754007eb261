"""A process that dies at any request of a save, delete, undelete, repair or prune (cases O49, O59, O60).

What was committed loads, what is listed is right, the next process goes on, and no object is left that nobody needs.
"""

import multiprocessing
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from functools import cache
from typing import NamedTuple

import pytest

from tests.faults.crash.killing import When, one_by_one
from tests.faults.crash.sweeps import SWEEPS, expected_kinds, requests_of, sweep_point
from tests.faults.crash.world import World, kinds, memory_world
from tests.faults.report import Proof, keep

SMALL, LARGE = ("abc", "2+1"), ("abcdef", "4+2")


class Point(NamedTuple):
    """One place to die. `threads`: requests overlap as in production, so that `at` is another one each time."""

    sweep: str
    store: tuple[str, str]
    threads: bool
    at: int
    when: When


@cache
def prepared(name: str, store: tuple[str, str]) -> tuple[World, int, Mapping[str, int]]:
    """The store that the process finds, how many requests it makes, and what is left where it doesn't die."""
    sweep = SWEEPS[name]
    with one_by_one():
        pristine = sweep.prepared(memory_world(*store))
        return pristine, requests_of(sweep, pristine), expected_kinds(sweep, pristine)


def die_at(point: Point) -> None:
    pristine, _, expected = prepared(point.sweep, point.store)
    with nullcontext() if point.threads else one_by_one():
        left = kinds(sweep_point(SWEEPS[point.sweep], pristine, point.at, point.when))
    assert left == expected, f"too many: {Counter(left) - Counter(expected)}; too few: {Counter(expected) - left}"


@pytest.mark.parametrize("name", SWEEPS)
def test_o49_o59_o60_a_process_that_dies_at_a_request_leaves_all_as_it_was_or_as_it_will_be(name):
    _, requests, _ = prepared(name, SMALL)
    assert requests > 60
    for number in range(4):
        at = requests * (2 * number + 1) // 8
        die_at(Point(name, SMALL, number % 2 == 0, at, "after" if number % 2 else "before"))


def test_the_sweep_finds_an_object_too_many():
    pristine, requests, expected = prepared("save", SMALL)
    world = sweep_point(SWEEPS["save"], pristine, requests // 2, "after")
    world.open().raw["a"].put(f"data/00/demo/{'0' * 32}/000000.000", b"stray")
    assert kinds(world) != expected


def points(name: str) -> Iterator[Point]:
    """Every request of the small store, before and after; every seventh of the large one, where requests overlap."""
    for store, threads, stride in ((SMALL, False, 1), (LARGE, True, 7)):
        _, requests, _ = prepared(name, store)
        for at in range(1, requests + 1, stride):
            yield from (Point(name, store, threads, at, when) for when in ("before", "after"))


def outcome(point: Point) -> str | None:
    """What went wrong, if anything."""
    try:
        die_at(point)
    except Exception as error:  # noqa: BLE001 - told with its point
        return f"{point}: {error!r}"
    return None


@pytest.mark.soak
def test_o49_o59_o60_every_request_of_everything_that_writes():
    began, rows, failures = time.monotonic(), [], []
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        for name in SWEEPS:
            swept = [*points(name)]
            failures += [failure for failure in pool.map(outcome, swept, chunksize=8) if failure]
            rows.append([name, prepared(name, SMALL)[1], prepared(name, LARGE)[1], len(swept)])
    counts = {"points died at": sum(row[-1] for row in rows), "promises broken": len(failures)}
    keep("crashes", Proof(TITLE, COMMAND, TEXT, counts, time.monotonic() - began, [[HEADINGS, *rows]]))
    assert not failures, failures[:10]


TITLE = "A process that dies"
COMMAND = ".venv/bin/pytest -m soak tests/faults/crash/test_crash_sweep.py --timeout 7200"
HEADINGS = ["what dies", "requests at 2+1", "requests at 4+2", "points"]
TEXT = """The process dies before or after one request: every request of a store of code 2+1 on three targets, one after
the other; every seventh at 4+2 on six targets, overlapping. Each time the store is opened anew: the steps listed are
those from before or those from after, each loads bit for bit, what was reported is so, what was begun can be ended,
the next save succeeds, and two days later a prune leaves exactly the objects that it leaves where nothing died."""
