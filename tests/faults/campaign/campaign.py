"""Injections by seed, and what came of each."""

from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from random import Random

from tests.faults.campaign.checks import check_loads, check_repair, check_verify, load_by_key, load_or_refused
from tests.faults.campaign.expected import expected
from tests.faults.campaign.injections import WEIGHTS as OBJECTS
from tests.faults.campaign.injections import Writes, draw
from tests.faults.campaign.reproducible import reproducible
from tests.faults.campaign.saving import STEP, save_with_lies
from tests.faults.campaign.world import Truth, World

CODE_WEIGHTS = {"2+1": 3, "4+2": 4, "8+4": 1, "2+1, three blocks": 1}
WEIGHTS = OBJECTS | {"save": 3}


@dataclass(frozen=True)
class Outcome:
    """One injection. `load`: "bit-equal" or "refused"; `repair`: "byte-equal" or "left"; `silent`: what went wrong."""

    seed: int
    code: str
    what: str
    kind: str
    load: str = ""
    repair: str = ""
    silent: str = ""

    def __str__(self) -> str:
        again = f"python -m tests.faults.campaign {self.seed}"
        return f"seed {self.seed}: {self.code}, {self.what} {self.kind}: {self.silent}; again: {again}"


def run(seed: int) -> Outcome:
    """Damage a store as the seed says; load, verify, repair and verify it. What goes wrong is in the outcome."""
    rng = Random(seed)
    code = rng.choices(list(CODE_WEIGHTS), list(CODE_WEIGHTS.values()))[0]
    world = world_of(code)
    try:
        with reproducible(rng):
            return _run(world, rng, seed, code)
    finally:
        world.restore()


def run_all(seeds: Iterable[int], processes: int = 2) -> Iterator[Outcome]:
    """The outcomes of many seeds, on several processes."""
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        yield from pool.map(run, seeds, chunksize=50)


@cache
def world_of(code: str) -> World:
    """This process's store of a code: saved once, and put back after each injection."""
    return World(code, Path("/campaign") / code.replace(",", "").replace(" ", "-"))


def _run(world: World, rng: Random, seed: int, code: str) -> Outcome:
    what = rng.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
    if what == "save":
        return _run_save(world, rng, seed, code)
    injection = draw(world, rng, what)
    return _judge(world, world.truth, injection.writes, Outcome(seed, code, what, injection.kind))


def _run_save(world: World, rng: Random, seed: int, code: str) -> Outcome:
    saved = save_with_lies(world, rng)
    outcome = Outcome(seed, code, f"{saved.what} as put", saved.kind)
    if saved.noticed:
        return _judge_noticed(world, saved.noticed, outcome)
    if saved.truth is not None:
        return _judge(world, saved.truth, saved.writes, outcome)
    older = [load_by_key(world, older) for older in world.truth.live]
    return replace(outcome, load="save refused", silent="" if all(older) else "older checkpoints don't load")


def _judge_noticed(world: World, key: str, outcome: Outcome) -> Outcome:
    """What a save put elsewhere, as it was not kept: all that it says is there must come back, or be refused."""
    try:
        loaded = load_or_refused(world, key, world.arrays(STEP))
        older = [load_by_key(world, older) for older in world.truth.live]
    except Exception as error:  # noqa: BLE001 - as in `_judge`
        return replace(outcome, silent=f"{type(error).__name__}: {error}")
    load = "noticed by the save" if loaded else "refused"
    return replace(outcome, load=load, silent="" if all(older) else "older checkpoints don't load")


def _judge(world: World, truth: Truth, writes: Writes, outcome: Outcome) -> Outcome:
    for place, data in writes.items():
        world.put(place, data)
    now = world.objects()
    must = expected(world, truth, now)
    try:
        load = check_loads(world, truth, must, now)
        check_verify(world, must, now)
        repair = check_repair(world, truth, must, now)
    except Exception as error:  # noqa: BLE001 - an error of no type of ours is as wrong as a wrong byte
        return replace(outcome, silent=f"{type(error).__name__}: {error}")
    return replace(outcome, load=load, repair=repair)
