"""How long `save_async` holds up training, and whether its upload holds up Python: `python -m benchmarks stall`."""

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed.checkpoint as dcp
import torch.multiprocessing as mp
from torch.distributed.checkpoint import FileSystemWriter
from torch.distributed.checkpoint.staging import DefaultStager, StagingOptions

import ckptstore
from benchmarks.sections import Bars, Line, Section, Table
from benchmarks.setting import MIB, NAMES, directories, make_state, on_ranks, scratch
from benchmarks.turns import Contender, Figures, take_turns

SIZE = 1024 * MIB
STAGING = ("use_pinned_memory", "use_shared_memory", "use_async_staging", "use_non_blocking_copy")  # all need a GPU
COUNTED = 10_000  # iterations between two looks at the clock

TEXT = """1 GiB of state in CPU memory, six directories on tmpfs at 4+2. The stall is the time until the call returns
and training goes on. The counter is a loop of pure Python that runs while the upload goes on in the same process, and
again while another process does the same upload, so that both have the same cores to share."""

__all__ = ["measure"]


def measure() -> Section:
    """Stalls, the first two of a process, and the counter."""
    with scratch("/dev/shm") as folder:
        stalls: dict[str, Figures] = on_ranks(1, _stalls, str(folder / "stalls"))
        firsts: list[tuple[float, float]] = [on_ranks(1, _first_two, str(folder / f"first-{i}")) for i in range(5)]
        rates: dict[str, list[float]] = on_ranks(1, _rates, str(folder / "rates"))
    ours, copy = stalls["ckptstore"].wall, stalls["memcpy"].wall
    second = sorted(second / first for first, second in firsts)[2]
    here, elsewhere = (sorted(rates[name])[len(rates[name]) // 2] for name in ("here", "elsewhere"))
    rows = [[name, f"{figures.wall:.3f}"] for name, figures in stalls.items()]
    return Section(
        title="Stall of training",
        text=TEXT,
        command="python -m benchmarks stall",
        tables=[
            Table("stall", [["", "seconds"], *rows]),
            Table(
                "a counter beside the upload",
                [["", "iterations per second"], ["upload here", f"{here:.4g}"], ["elsewhere", f"{elsewhere:.4g}"]],
            ),
        ],
        lines=[
            Line("stall / memcpy", ours / copy, 1.2),
            Line("stall / DCP's default async_save", ours / stalls["DCP async_save"].wall, 0.5),
            Line("stall / DCP with a reused stager", ours / stalls["DCP async_save, stager reused"].wall, 1.1),
            Line("stall of a process's second save / first", second, 1.0),
            Line("counter beside the upload here / elsewhere", here / elsewhere, 0.9, at_least=True),
        ],
        bars=[Bars("Stall of 1 GiB", "seconds", {"": {name: figures.wall for name, figures in stalls.items()}})],
    )


def _stalls(folder: str) -> dict[str, Figures]:
    torch.set_num_threads(torch.multiprocessing.cpu_count())
    root = Path(folder)
    run, clean = _run(root)
    state = make_state(SIZE)
    into = {name: torch.zeros_like(tensor) for name, tensor in state.items()}
    pending: list[Any] = []
    steps = iter(range(1, 1000))
    stager = DefaultStager(StagingOptions(**dict.fromkeys(STAGING, False)))

    def memcpy() -> None:
        for name, tensor in state.items():
            into[name].copy_(tensor)

    def ours() -> None:
        pending.append(run.save_async(state, step=next(steps)))

    def theirs(**options: Any) -> Callable[[], None]:
        def save() -> None:
            writer = FileSystemWriter(root / "dcp", overwrite=True)
            pending.append(dcp.async_save(state, storage_writer=writer, no_dist=True, **options))

        return save

    def settle() -> None:
        pending.pop().result()
        clean()

    return take_turns(
        {
            "memcpy": Contender(memcpy),
            "ckptstore": Contender(ours, after=settle),
            "DCP async_save": Contender(theirs(), after=settle),
            "DCP async_save, stager reused": Contender(theirs(async_stager=stager), after=settle),
        }
    )


def _first_two(folder: str) -> tuple[float, float]:
    run, clean = _run(Path(folder))
    state = make_state(SIZE)
    seconds = []
    for step in (1, 2):
        begun = time.perf_counter()
        handle = run.save_async(state, step=step)
        seconds.append(time.perf_counter() - begun)
        handle.result()
        clean()
    return seconds[0], seconds[1]


def _rates(folder: str) -> dict[str, list[float]]:
    run, clean = _run(Path(folder) / "here")
    state = make_state(SIZE)
    context = mp.get_context("spawn")
    mine, theirs = context.Pipe()
    other = context.Process(target=_upload_when_told, args=(str(Path(folder) / "elsewhere"), theirs))
    other.start()
    mine.recv()
    rates: dict[str, list[float]] = {"here": [], "elsewhere": []}
    for step in range(1, 7):
        handle = run.save_async(state, step=step)
        here = _count(handle.done)
        handle.result()
        clean()
        mine.send(step)
        mine.recv()  # it has its copy: from here on it uploads
        elsewhere = _count(mine.poll)
        mine.recv()
        if step > 1:
            rates["here"].append(here)
            rates["elsewhere"].append(elsewhere)
    mine.send(None)
    other.join()
    return rates


def _upload_when_told(folder: str, pipe: Any) -> None:
    torch.set_num_threads(1)
    run, clean = _run(Path(folder))
    state = make_state(SIZE)
    pipe.send("ready")
    while (step := pipe.recv()) is not None:
        handle = run.save_async(state, step=step)
        pipe.send("copied")
        handle.result()
        pipe.send("saved")
        clean()


def _count(is_over: Callable[[], bool]) -> float:
    """Iterations a second of a loop of pure Python until `is_over`."""
    begun, count = time.perf_counter(), 0
    while not is_over():
        for _ in range(COUNTED):
            count += 1
    return count / (time.perf_counter() - begun)


def _run(root: Path) -> tuple[Any, Callable[[], None]]:
    """A run of a new store, and what removes its data again."""
    run = ckptstore.open(directories(root / "store")).run("bench")

    def clean() -> None:
        for name in NAMES:
            shutil.rmtree(root / "store" / name / "data", ignore_errors=True)
        shutil.rmtree(root / "dcp", ignore_errors=True)

    return run, clean
