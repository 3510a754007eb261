"""Save to and load from six local directories, beside DCP's own files: `python -m benchmarks directories`."""

import shutil
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

import ckptstore
from benchmarks import alone, peers
from benchmarks.sections import Bars, Line, Section, Table
from benchmarks.setting import MIB, NAMES, State, directories, make_state, on_ranks, scratch
from benchmarks.turns import Contender, Figures, own_rank, take_turns
from ckptstore.config import Config

SIZE = 1024 * MIB
THREADS = (1, 2, 4)
COPIES = 3  # m + 1 of 4+2: what survives as many losses
SENT = 1.5  # n / k of 4+2
CORES = 2
WRITING = "writing 1.5 GiB, no more"
READING = "reading, checking and copying, no more"
PLACES = (("tmpfs", "/dev/shm", (False,)), ("disk", ".", (True, False)))
"""Where, below which folder, and with fsync or without: it means nothing on tmpfs."""
Found = dict[str, Figures]

__all__ = ["measure"]


def measure() -> Section:
    """Every place, number of ranks and way to sync."""
    saves: dict[str, Found] = {}
    loads: dict[str, Found] = {}
    for place, base, syncs in PLACES:
        for world in (1, 2):
            for fsync in syncs:
                title = f"{place}, {world} rank{'s' if world > 1 else ''}{', fsync' if fsync else ''}"
                with scratch(base) as folder:
                    saves[title], found = on_ranks(world, _measure, str(folder), fsync)
                if not fsync:
                    loads[title] = found
    return Section(
        title="Directories",
        text=TEXT,
        command="python -m benchmarks directories",
        tables=[*_tables("save", saves), *_tables("load", loads)],
        lines=[line for title, found in saves.items() for line in _save_lines(title, found)]
        + [line for title, found in loads.items() for line in _load_lines(title, found)],
        bars=[_bars("Save 1 GiB to directories", saves), _bars("Load 1 GiB from directories", loads)],
    )


TEXT = """1 GiB in 64 MiB tensors. ckptstore writes 1.5 GiB (4+2) to six directories, digests of all of it included, and
commits; a load checks every block before it is handed out. DCP's `FileSystemWriter` writes 1 GiB, unverified, and as
many copies as survive two losses in the row of three. *DCP's best* is the best of 1, 2 and 4 threads. The rows with
*no more* are the limits of this machine: as many bytes, by one thread a core, and nothing around them."""


def _measure(folder: str, fsync: bool) -> tuple[Found, Found]:
    root, world, rank = Path(folder), _world(), own_rank()
    share = SIZE // world
    state = make_state(share, first=rank * (share // (64 * MIB)))
    config = _store(root, fsync)
    run = ckptstore.open(config).run("bench")
    counter = iter(range(1, 1000))

    def ours() -> None:
        run.save(state, step=next(counter))

    def clean() -> None:
        for name in NAMES:
            shutil.rmtree(root / "store" / name / "data", ignore_errors=True)
        for peer in (root / "dcp", root / "torchsnapshot", *root.glob("alone-*")):
            shutil.rmtree(peer, ignore_errors=True)

    contenders = {"ckptstore 4+2": Contender(ours, after=clean)}
    for threads in THREADS:
        save = peers.dcp_files(state, root / "dcp", threads, fsync=fsync)
        contenders[f"DCP, {threads} thread{'s' if threads > 1 else ''}"] = Contender(save, after=clean)
    copies = peers.dcp_files(state, root / "dcp", THREADS[-1], fsync=fsync, copies=COPIES)
    contenders[f"DCP, {THREADS[-1]} threads, {COPIES} copies"] = Contender(copies, after=clean)
    by_torchsnapshot, _ = peers.torchsnapshot(state, root / "torchsnapshot")
    if not fsync:  # it knows none
        contenders["torchsnapshot"] = Contender(by_torchsnapshot, after=clean)
        contenders[WRITING] = Contender(alone.write(state, root / f"alone-{rank}", SENT, CORES // world), after=clean)
    saves = take_turns(contenders)
    return saves, _measure_loads(root, run, state, next(counter))


def _measure_loads(root: Path, run: Any, state: State, step: int) -> Found:
    run.save(state, step=step)
    peers.dcp_files(state, root / "dcp", 2, fsync=False)()
    into = {name: torch.zeros_like(tensor) for name, tensor in state.items()}
    peers.torchsnapshot(state, root / "torchsnapshot")[0]()
    beside = root / f"alone-{own_rank()}"
    alone.write(state, beside, 1.0, 1)()
    _, by_torchsnapshot = peers.torchsnapshot(into, root / "torchsnapshot")

    def forget() -> None:
        for tensor in into.values():
            tensor.zero_()

    def ours() -> None:
        run.load(into, step=step)

    names = ("ckptstore", "DCP", "ckptstore, m targets gone")
    found = take_turns(
        {
            names[0]: Contender(ours, before=forget),
            names[1]: Contender(peers.dcp_read_files(into, root / "dcp"), before=forget),
            "torchsnapshot": Contender(by_torchsnapshot, before=forget),
            READING: Contender(alone.read_and_check(into, beside, CORES // _world()), before=forget),
            names[2]: Contender(
                ours, before=lambda: (forget(), _move(root, "", ".away")), after=lambda: _move(root, ".away", "")
            ),
        }
    )
    ours()
    assert all(torch.equal(into[name], state[name]) for name in state)
    return found


def _move(root: Path, old: str, new: str) -> None:
    for name in NAMES[:2]:
        (root / "store" / f"{name}{old}").rename(root / "store" / f"{name}{new}")


def _store(root: Path, fsync: bool) -> Config:
    """Made by rank 0; all open it."""
    if not dist.is_initialized():
        return directories(root / "store", options={"fsync": fsync})
    made = [directories(root / "store", options={"fsync": fsync}) if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(made)
    assert made[0] is not None
    return made[0]


def _world() -> int:
    return dist.get_world_size() if dist.is_initialized() else 1


def _save_lines(title: str, found: Found) -> list[Line]:
    ours = found["ckptstore 4+2"].wall
    best = min(figures.wall for name, figures in found.items() if "thread" in name and "copies" not in name)
    copies = next(figures.wall for name, figures in found.items() if "copies" in name)
    return [
        Line(f"save, {title}: wall / DCP's best", ours / best, 1.5),
        Line(f"save, {title}: wall / DCP writing {COPIES} copies", ours / copies, 0.8),
    ]


def _load_lines(title: str, found: Found) -> list[Line]:
    ours = found["ckptstore"].wall
    return [
        Line(f"load, {title}: wall / DCP", ours / found["DCP"].wall, 0.4),
        Line(f"load, {title}: m targets gone / healthy", found["ckptstore, m targets gone"].wall / ours, 1.5),
    ]


def _tables(what: str, cells: dict[str, Found]) -> list[Table]:
    return [
        Table(
            f"{what}, {title}",
            [["", "wall s", "CPU-s"], *([name, f"{f.wall:.2f}", f"{f.cpu:.2f}"] for name, f in found.items())],
        )
        for title, found in cells.items()
    ]


def _bars(title: str, cells: dict[str, Found]) -> Bars:
    return Bars(title, "seconds", {cell: {name: f.wall for name, f in found.items()} for cell, found in cells.items()})
