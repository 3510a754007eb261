"""How many bytes and requests a read takes: `python -m benchmarks reads`. Counted, not timed."""

from collections.abc import Mapping
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Shard

import ckptstore
from benchmarks.sections import Line, Section, Table
from benchmarks.setting import MIB, State, directories, make_state, on_ranks, scratch
from ckptstore.config import Config
from ckptstore.opened import release, shared
from ckptstore.targets.meter import MeterTarget

SIZE = 1024 * MIB
ONE = 16 * MIB
MOST_RANKS = 8
ROWS, COLUMNS = 8192, 8192  # float32: 256 MiB, cut by rows
REPLICATED = 256 * MIB

TEXT = f"""One 16 MiB tensor out of 1 GiB, from an open store that has read nothing of this checkpoint yet. Then a
{ROWS * COLUMNS * 4 // MIB} MiB tensor, cut by rows over W ranks when it was saved, read by W' ranks: the bytes that all
of them read, over those that they want. Then state that every rank of a job wants alike, as under DDP."""

__all__ = ["measure"]


def measure() -> Section:
    """All three."""
    with scratch("/dev/shm") as folder:
        nbytes, requests = on_ranks(1, _one_tensor, str(folder / "one"))
    with scratch("/dev/shm") as folder:
        ratios: list[list[float]] = on_ranks(MOST_RANKS, _resharded, directories(folder))
    with scratch("/dev/shm") as folder:
        replicated: float = on_ranks(4, _replicated, directories(folder))
    head = ["W \\ W'", *map(str, range(1, MOST_RANKS + 1))]
    rows = [[str(saved), *(f"{ratio:.3f}" for ratio in row)] for saved, row in enumerate(ratios, 1)]
    counted = ", ".join(f"{count} {what}" for what, count in sorted(requests.items()))
    return Section(
        title="Bytes and requests",
        text=TEXT,
        command="python -m benchmarks reads",
        tables=[
            Table("one tensor of 16 MiB", [["", ""], ["bytes read", f"{nbytes:,}"], ["requests", counted]]),
            Table("bytes read / bytes wanted", [head, *rows]),
        ],
        lines=[
            Line("one tensor: bytes read / its bytes", nbytes / ONE, 1.1),
            Line("one tensor: requests for the index, the record and the data", requests["data"], 6),
            Line("resharding: bytes read / wanted, the worst of 64", max(map(max, ratios)), 1.05),
            Line("state that four ranks want alike: bytes read by all / its bytes", replicated, 1.05),
        ],
    )


def _one_tensor(folder: str) -> tuple[int, Mapping[str, int]]:
    config = directories(Path(folder))
    state: State = make_state(SIZE, each=ONE)
    run = ckptstore.open(config).run("bench")
    run.save(state, step=1)
    release(config)
    meters = _metered(config)
    shared(config).group.history("bench")
    for meter in meters.values():
        meter.reset()
    name = next(iter(state))
    into = {name: torch.zeros_like(state[name])}
    run.load(into, step=1, strict=False)
    assert torch.equal(into[name], state[name])
    paths = [path for meter in meters.values() for _, path in meter.paths]
    data = sum(path.startswith("data/") or "/index/" in path or "/shards/" in path for path in paths)
    return sum(meter.bytes_read for meter in meters.values()), {
        "data": data,
        "to choose the checkpoint": len(paths) - data,
    }


def _resharded(config: Config) -> list[list[float]]:
    """For every W the ratios for every W'; called by MOST_RANKS ranks, of which the first W or W' take part."""
    meters = _metered(config)
    run = ckptstore.open(config).run("bench")
    counts = range(1, MOST_RANKS + 1)
    groups = {count: dist.new_group(list(range(count))) for count in counts}
    meshes = {count: DeviceMesh("cpu", list(range(count))) for count in counts}
    ratios = []
    for saved in counts:
        if dist.get_rank() < saved:
            run.save({"w": _cut(meshes[saved])}, step=saved, process_group=groups[saved])
        dist.barrier()
        ratios.append([])
        for ranks in counts:
            for meter in meters.values():
                meter.reset()
            if dist.get_rank() < ranks:
                run.load({"w": _cut(meshes[ranks])}, step=saved, process_group=groups[ranks])
            ratios[-1].append(_read_by_all(meters) / (ROWS * COLUMNS * 4))
    return ratios


def _cut(mesh: DeviceMesh) -> DTensor:
    rows = -(-ROWS // mesh.size())
    mine = max(0, min(rows, ROWS - mesh.get_local_rank() * rows))
    local = torch.ones(mine, COLUMNS)
    return DTensor.from_local(
        local, mesh, [Shard(0)], run_check=False, shape=torch.Size((ROWS, COLUMNS)), stride=(COLUMNS, 1)
    )


def _replicated(config: Config) -> float:
    """What all ranks read together of a state that each of them wants whole, over its bytes."""
    state = make_state(REPLICATED)
    run = ckptstore.open(config).run("bench")
    run.save(state, step=1)
    meters = _metered(config)
    run.load(state, step=1)
    return _read_by_all(meters) / REPLICATED


def _read_by_all(meters: Mapping[str, MeterTarget]) -> int:
    """Bytes of fragments that all ranks have read."""
    total = torch.tensor(sum(meter.sizes["get_into"] for meter in meters.values()))
    dist.all_reduce(total)
    return int(total)


def _metered(config: Config) -> dict[str, MeterTarget]:
    opened = shared(config)
    meters = {name: MeterTarget(target) for name, target in opened.targets.items()}
    opened.targets = meters
    return meters
