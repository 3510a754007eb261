"""A restore while one read in a hundred takes ten times as long: `python -m benchmarks tail`."""

import random
import statistics
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

import ckptstore
from benchmarks.sections import Bars, Line, Section, Table
from benchmarks.setting import MIB, State, directories, make_state, on_ranks, scratch
from ckptstore.config import Config
from ckptstore.load.patience import Patience
from ckptstore.opened import shared
from ckptstore.targets.base import Target
from ckptstore.targets.wrapper import Wrapper

T = TypeVar("T")

SIZE = 8 * MIB
RESTORES = 200
USUAL = 0.1  # seconds of a read
SLOW = 10.0  # times that
SHARE = 0.01

TEXT = f"""{RESTORES} restores of {SIZE // MIB} MiB in 1 MiB fragments, 4+2 over six directories, on one open store.
Every read takes {USUAL * 1000:.0f} ms, one in a hundred ten times as long, drawn anew for each read. *Waiting* is the
same load without patience: it waits for all data fragments. Restores of both take turns."""

__all__ = ["measure"]


def measure() -> Section:
    """Both, and what the other fragments cost."""
    with scratch("/dev/shm") as folder:
        seconds, requests = on_ranks(1, _measure, str(folder))
    ranks = {name: statistics.quantiles(times, n=100, method="inclusive") for name, times in seconds.items()}
    p99 = {name: values[98] for name, values in ranks.items()}
    rows = [
        [name, *(f"{ranks[name][at - 1]:.2f}" for at in (50, 95, 99)), f"{requests[name] / RESTORES:.2f}"]
        for name in seconds
    ]
    return Section(
        title="Tail",
        text=TEXT,
        command="python -m benchmarks tail",
        tables=[Table("seconds of a restore", [["", "median", "p95", "p99", "reads per restore"], *rows])],
        lines=[
            Line("p99 of a restore: waiting / hedging", p99["waiting"] / p99["hedging"], 4.0, at_least=True),
            Line("reads: hedging / waiting", requests["hedging"] / requests["waiting"], 1.1),
        ],
        bars=[Bars("p99 of a restore", "seconds", {"": p99})],
    )


def _measure(folder: str) -> tuple[dict[str, list[float]], dict[str, int]]:
    config = directories(Path(folder), fragment_size="1MiB")
    run = ckptstore.open(config).run("bench")
    state: State = make_state(SIZE, each=SIZE)
    run.save(state, step=1)
    slow = _slowed(config)
    seconds: dict[str, list[float]] = {"hedging": [], "waiting": []}
    requests = dict.fromkeys(seconds, 0)
    learned = Patience.seconds
    for number in range(2 * RESTORES + 2):
        name = ("hedging", "waiting")[number % 2]
        Patience.seconds = learned if name == "hedging" else _endless  # type: ignore[method-assign]
        before = sum(target.reads for target in slow)
        begun = time.perf_counter()
        run.load(state, step=1)
        if number >= 2:
            seconds[name].append(time.perf_counter() - begun)
            requests[name] += sum(target.reads for target in slow) - before
    return seconds, requests


def _endless(_patience: Patience, _nbytes: int) -> float | None:
    return None


class _Slow(Wrapper):
    """Every read of data takes USUAL, some SLOW times as long."""

    def __init__(self, inner: Target, seed: int) -> None:
        super().__init__(inner)
        self.reads = 0
        self._chance = random.Random(seed)

    def call(self, verb: str, path: str, operation: Callable[[], T]) -> T:
        if verb == "get_into" and path.startswith("data/"):
            self.reads += 1
            time.sleep(USUAL * (SLOW if self._chance.random() < SHARE else 1.0))
        return operation()


def _slowed(config: Config) -> list[_Slow]:
    targets: Mapping[str, Target] = shared(config).targets
    slow = {name: _Slow(target, number) for number, (name, target) in enumerate(targets.items())}
    shared(config).targets = slow
    return list(slow.values())
