"""What grows with the number of ranks: `python -m benchmarks scale`. Sizes and times measured, a restart simulated."""

import math
import pickle
import time
from collections.abc import Callable
from dataclasses import dataclass, fields
from statistics import median
from typing import TypeVar

import torch
import torch.distributed as dist
from torch.distributed.checkpoint.default_planner import create_default_local_load_plan
from torch.distributed.checkpoint.planner import LoadPlan
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Shard, distribute_tensor

import ckptstore
from benchmarks.sections import Bars, Line, Section, Table
from benchmarks.setting import MIB, directories, on_ranks, scratch
from ckptstore.config import Config
from ckptstore.dcp.joint import JointReader
from ckptstore.dcp.load_planner import CheckpointLoadPlanner
from ckptstore.dcp.metadata import metadata_of
from ckptstore.dcp.outline import Outline
from ckptstore.opened import shared
from ckptstore.source import Source
from ckptstore.targets.meter import MeterTarget
from manifests import Index, Reference, ShardReference, TableBuilder, pack, paths, unpack
from manifests.testing import save_manifest

TENSORS = 300  # of a 100-layer model, each cut over all ranks
MEASURED = (1_000, 10_000)
RANKS = 16_384
BUCKET_GBIT = 400.0  # a bucket's bandwidth to one region, as large users see it
NODE_GBIT = 3.0  # a rank's eighth of a node's 25 Gbit/s
LATENCY = 0.05  # seconds to a target's first byte
HOP = 0.0005  # seconds from one rank to another
SHARD = 2 << 30  # bytes of a rank
ANSWERED = 200  # ranks, to time what rank 0 does for one

TEXT = f"""An index of {TENSORS} tensors, each cut by rows over all ranks, as FSDP2 does: its size, and the CPU-seconds
that its parts take on one core. Rank 0 encodes it at a save. At a `run.load` rank 0 reads and checks it and makes the
outline; a rank plans by that and asks for the references it needs (`asked` bytes). Beside it the same plan by DCP's own
planner, for which `read_metadata` must return every chunk to every rank. Then a restart of {RANKS:,} ranks, step by
step: rank 0 reads history (one LIST a target) and index, the outline goes down a tree of ranks, all plan at once,
rank 0 takes what each asks for and answers it, one after the other, and all read their data from six targets of
{BUCKET_GBIT:.0f} Gbit/s. A rank's link has {NODE_GBIT:.0f}; {LATENCY * 1000:.0f} ms to a target's first byte,
{HOP * 1000:.1f} ms from rank to rank."""

GROWS = """Where tensors are cut along one axis, what a rank does at a `run.load` doesn't grow with the number of ranks.
It asks the store for nothing but its own shard's record and data. Rank 0's part grows with the job: it reads the whole
index, and answers every rank. With DCP's stock planner (`dcp.load` with `StoreReader`) every rank reads the index and
does what *stock plan* says."""

LIMIT = """At a save rank 0 gathers a plan and a report of each rank. For 1,024 x 1,024 chunks DCP's own planner takes
23 s and ours about 6 (tests/dcp/test_scale.py): from about a thousand ranks on rank 0 is the limit, unless plans are
cached."""

__all__ = ["measure"]


@dataclass(frozen=True)
class Measured:
    """One size of job: `stored`, `raw` (of the index), `outline`, `asked` in bytes, the others in seconds of CPU.

    `read`: index and outline, on rank 0. `plan`: of any rank. `answer`: of rank 0, for one rank. `stock`: a rank's plan
    by DCP's own planner.
    """

    ranks: int
    stored: float
    raw: float
    outline: float
    asked: float
    encode: float
    read: float
    plan: float
    answer: float
    stock: float


def measure() -> Section:
    """Measure at two sizes, take the line through them to RANKS, simulate."""
    found = [_measure(ranks) for ranks in MEASURED]
    whole = _extended(*found)
    restart = simulate(whole)
    with scratch("/dev/shm") as folder:
        lists, gets = on_ranks(2, _requests, directories(folder))
    head = ["ranks", "stored MiB", "raw MiB", "outline KiB", "asked KiB"]
    sizes = [
        [
            f"{m.ranks:,}",
            f"{m.stored / MIB:.1f}",
            f"{m.raw / MIB:.1f}",
            f"{m.outline / 1024:.0f}",
            f"{m.asked / 1024:.1f}",
        ]
        for m in [*found, whole]
    ]
    work = ["ranks", "encode", "read and outline", "plan", "answer", "stock plan"]
    times = [
        [
            f"{m.ranks:,}",
            f"{m.encode:.2f}",
            f"{m.read:.2f}",
            f"{m.plan:.3f}",
            f"{m.answer * 1e6:.0f} µs",
            f"{m.stock:.2f}",
        ]
        for m in [*found, whole]
    ]
    parts = [[name, f"{seconds:.1f}"] for name, seconds in restart.items()]
    small, large = found
    return Section(
        title="Scale",
        text=TEXT,
        command="python -m benchmarks scale",
        tables=[
            Table("bytes (last row: extended)", [head, *sizes]),
            Table("CPU-seconds (last row: extended)", [work, *times]),
            Table(f"restart of {RANKS:,} ranks, seconds", [["until the last rank has", "seconds"], *parts]),
        ],
        lines=[
            Line("LIST requests of a rank other than 0 at a restart", lists, 0),
            Line("GET requests of a rank outside its own record and data", gets, 1),
            Line(f"outline: bytes for {large.ranks:,} ranks / for {small.ranks:,}", large.outline / small.outline, 1.1),
            Line(f"plan of a rank: CPU of {large.ranks:,} ranks / of {small.ranks:,}", large.plan / small.plan, 1.2),
            Line(f"share of all but data in a restart of {RANKS:,} ranks", _share(restart), 0.1),
        ],
        bars=[Bars("Restart: until the last rank has …", "seconds", {"": restart})],
        notes=[GROWS, LIMIT],
    )


def _requests(config: Config) -> tuple[int, int]:
    """Of rank 1 in a load: its LISTs, and its GETs of anything but fragments and shard records."""
    mesh = DeviceMesh("cpu", [0, 1])
    state = {"w": distribute_tensor(torch.ones(1 << 20), mesh, [Shard(0)])}
    run = ckptstore.open(config).run("bench")
    run.save(state, step=1)
    opened = shared(config)
    opened.targets = {name: MeterTarget(target) for name, target in opened.targets.items()}
    run.load(state)
    asked = [each for meter in opened.targets.values() if isinstance(meter, MeterTarget) for each in meter.paths]
    lists = sum(verb.startswith("list") for verb, _ in asked)
    others = [path for verb, path in asked if verb.startswith("get") and "/shards/" not in path and path[:5] != "data/"]
    counts: list[tuple[int, int]] = [(0, 0), (0, 0)]
    dist.all_gather_object(counts, (lists, len(others)))
    return counts[1]


def simulate(job: Measured) -> dict[str, float]:
    """Seconds until the last rank has each part."""
    index = 2 * LATENCY + job.stored * 8 / 1e9 / NODE_GBIT + job.read  # the history before it
    levels = math.ceil(math.log2(RANKS))
    outline = index + levels * (HOP + job.outline * 8 / 1e9 / NODE_GBIT)
    asked = outline + job.plan + RANKS * (job.asked * 8 / 1e9 / NODE_GBIT + job.answer)
    data = min(6 * BUCKET_GBIT / RANKS, NODE_GBIT)  # Gbit/s of a rank where all six targets serve all ranks at once
    return {
        "the outline": outline,
        "its references": asked,
        "its data": asked + 2 * LATENCY + SHARD * 8 / 1e9 / data,
    }


def _share(restart: dict[str, float]) -> float:
    return restart["its references"] / restart["its data"]


def _measure(ranks: int) -> Measured:
    index = _index(ranks)
    (data, measures), encode = _timed(lambda: pack(index))
    reference = Reference(path=paths.index("bench", "0" * 32), targets=["a"], **measures)
    read, seconds = _timed(lambda: unpack(Index, data, reference))
    assert len(read.shards) == ranks
    manifest = save_manifest("bench", index.session, index.ordinal)
    outline, more = _timed(lambda: pickle.dumps(Outline.of(manifest, read)))
    stored, raw = len(data), reference.raw_size
    asked, plan, answer, stock = _plan(ranks, outline, read)
    return Measured(ranks, stored, raw, len(outline), asked, encode, seconds + more, plan, answer, stock)


def _plan(ranks: int, outline: bytes, index: Index) -> tuple[int, float, float, float]:
    """As rank 7 plans: bytes that it asks rank 0 with, and seconds: of its plan, of the answer, of a stock plan."""
    from torch.testing._internal.distributed.fake_pg import FakeStore  # any world in one process

    dist.init_process_group("fake", rank=7, world_size=ranks, store=FakeStore())
    try:
        with scratch("/dev/shm") as folder:
            state = _state(DeviceMesh("cpu", range(ranks)), ranks)
            config = directories(folder)
            _ask(config, outline, state)  # what is imported and built once is not counted
            plans = [_timed(lambda: _ask(config, outline, state)) for _ in range(5)]
            asked, plan = plans[0][0], median(seconds for _, seconds in plans)
            answer = _timed(lambda: _answer(config, asked, index))[1] / ANSWERED
            stock = _timed(lambda: create_default_local_load_plan(state, metadata_of(index)))[1]
    finally:
        dist.destroy_process_group()
    return len(asked), plan, answer, stock


def _state(mesh: DeviceMesh, ranks: int) -> dict[str, DTensor]:
    rows, shape = torch.empty(4, 8192, dtype=torch.bfloat16), torch.Size((4 * ranks, 8192))
    return {
        name: DTensor.from_local(rows.clone(), mesh, [Shard(0)], run_check=False, shape=shape, stride=(8192, 1))
        for name in _names()
    }


def _ask(config: Config, outline: bytes, state: dict[str, DTensor]) -> bytes:
    """All that a rank does between the outline and what it sends to rank 0."""
    planner = CheckpointLoadPlanner(state)
    reader = JointReader(config, "bench", pickle.loads(outline), dist.group.WORLD)
    planner.set_up_planner({}, reader.read_metadata())
    return pickle.dumps(reader.prepare_local_plan(planner.create_local_plan()))


def _answer(config: Config, asked: bytes, index: Index) -> None:
    """What rank 0 does for ANSWERED ranks that want nothing alike."""
    manifest = save_manifest("bench", index.session, index.ordinal)
    reader = JointReader(config, "bench", Source(shared(config), manifest, index), None)
    reader.read_metadata()
    own = reader.prepare_local_plan(LoadPlan([]))
    for plan in reader.prepare_global_plan([own, *(pickle.loads(asked) for _ in range(ANSWERED))]):
        pickle.dumps(plan)


T = TypeVar("T")


def _timed(work: Callable[[], T]) -> tuple[T, float]:
    begun = time.process_time()
    result = work()
    return result, time.process_time() - begun


def _names() -> list[str]:
    return [f"model.layers.{number}.weight" for number in range(TENSORS)]


def _index(ranks: int) -> Index:
    table = TableBuilder()
    for name in _names():
        chunks = [((4 * rank, 0), (4, 8192), rank) for rank in range(ranks)]
        table.add(name, "bfloat16", (4 * ranks, 8192), chunks)
    shards = [_shard(rank) for rank in range(ranks)]
    return Index(
        session="000001.abc",
        ordinal=1,
        shards=shards,
        tensors=table.build(),
        planner_data=[(name, [name]) for name in _names()],
    )


def _shard(rank: int) -> ShardReference:
    shard_id = paths.new_token()
    record = Reference(
        path=paths.record("r", shard_id), size=9000, raw_size=30000, sha256="0" * 64, targets=["a", "b", "c"]
    )
    return ShardReference(shard_id=shard_id, rank=rank, length=SHARD, record=record)


def _extended(one: Measured, other: Measured) -> Measured:
    def at(name: str) -> float:
        low, high = getattr(one, name), getattr(other, name)
        return float(low + (high - low) * (RANKS - one.ranks) / (other.ranks - one.ranks))

    names = [field.name for field in fields(Measured) if field.name != "ranks"]
    return Measured(RANKS, **{name: at(name) for name in names})
