"""What grows with the number of ranks: `python -m benchmarks scale`. Sizes and times measured, a restart simulated."""

import heapq
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import Shard, distribute_tensor

import ckptstore
from benchmarks.sections import Bars, Line, Section, Table
from benchmarks.setting import MIB, directories, on_ranks, scratch
from ckptstore.config import Config
from ckptstore.opened import shared
from ckptstore.targets.meter import MeterTarget
from manifests import Index, Reference, ShardReference, TableBuilder, pack, paths, unpack

TENSORS = 300  # of a 100-layer model, each cut over all ranks
MEASURED = (1_000, 10_000)
RANKS = 16_384
COPIES = 3  # of the index, at 4+2
BUCKET_GBIT = 400.0  # a bucket's bandwidth to one region, as large users see it
NODE_GBIT = 3.0  # a rank's eighth of a node's 25 Gbit/s
LATENCY = 0.05  # seconds to the first byte
SHARD = 2 << 30  # bytes of a rank

TEXT = f"""An index of {TENSORS} tensors, each cut by rows over all ranks, as FSDP2 does. Its size, and what encoding
and reading it (decompression, parsing, every check of docs/format.md) take on one core. Then a restart of {RANKS:,}
ranks as a discrete-event model: every rank gets the index from one of {COPIES} targets, then its shard record and its
data; a target gives {BUCKET_GBIT:.0f} Gbit/s in all and a rank takes {NODE_GBIT:.0f}, {LATENCY * 1000:.0f} ms to the
first byte. Rank 0 alone reads the history (one LIST a target) and passes the manifest on."""

GROWS = """The index grows with the number of ranks, and every rank reads all of it: DCP's `read_metadata` must return
it whole. So the manifest work of a rank isn't constant, it is small: see the share above. Parts of an index, of which a
rank reads those that name its own tensors, would make it constant."""

LIMIT = """At a save rank 0 gathers a plan and a report of each rank. For 1,024 x 1,024 chunks DCP's own planner takes
23 s and ours about 6 (tests/dcp/test_scale.py): from about a thousand ranks on rank 0 is the limit, unless plans are
cached."""

__all__ = ["measure"]


@dataclass(frozen=True)
class Measured:
    """One index: bytes as it is stored, and seconds of CPU."""

    ranks: int
    stored: int
    raw: int
    encode: float
    read: float


def measure() -> Section:
    """Measure at two sizes, take the line through them to RANKS, simulate."""
    found = [_measure(ranks) for ranks in MEASURED]
    whole = _extended(*found)
    restart = simulate(whole)
    with scratch("/dev/shm") as folder:
        lists, gets = on_ranks(2, _requests, directories(folder))
    rows = [
        [f"{m.ranks:,}", f"{m.stored / MIB:.1f}", f"{m.raw / MIB:.1f}", f"{m.encode:.2f}", f"{m.read:.2f}"]
        for m in [*found, whole]
    ]
    head = ["ranks", "stored MiB", "raw MiB", "encode CPU-s", "read and check CPU-s"]
    parts = [[name, f"{seconds:.1f}"] for name, seconds in restart.items()]
    return Section(
        title="Scale",
        text=TEXT,
        command="python -m benchmarks scale",
        tables=[
            Table("the index (last row: extended)", [head, *rows]),
            Table(f"restart of {RANKS:,} ranks, seconds", [["until the last rank has", "seconds"], *parts]),
        ],
        lines=[
            Line("LIST requests of a rank other than 0 at a restart", lists, 0),
            Line("GET requests of a rank outside its own record and data", gets, 1),
            Line(f"the index's share of a restart of {RANKS:,} ranks", _share(restart), 0.1),
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


def simulate(index: Measured) -> dict[str, float]:
    """Seconds until the last rank has each part. Targets serve in turn, each rank is bound by its own link."""
    targets = [0.0] * COPIES
    heapq.heapify(targets)
    per_index = index.stored * 8 / 1e9
    arrived = []
    for _ in range(RANKS):  # all ask at once; a target's link is shared, so its answers end one after another
        free = heapq.heappop(targets)
        done = free + per_index / BUCKET_GBIT
        heapq.heappush(targets, done)
        arrived.append(LATENCY + max(done, per_index / NODE_GBIT))
    parsed = [at + index.read for at in arrived]
    data = 6 * BUCKET_GBIT / RANKS  # Gbit/s of a rank where all six targets serve all ranks at once
    loaded = [at + 2 * LATENCY + SHARD * 8 / 1e9 / min(data, NODE_GBIT) for at in parsed]
    return {"the index": max(arrived), "the index parsed": max(parsed), "its data": max(loaded)}


def _share(restart: dict[str, float]) -> float:
    return restart["the index parsed"] / restart["its data"]


def _measure(ranks: int) -> Measured:
    index = _index(ranks)
    (data, measures), encode = _timed(lambda: pack(index))
    reference = Reference(path=paths.index("bench", "0" * 32), targets=["a"], **measures)
    read, seconds = _timed(lambda: unpack(Index, data, reference))
    assert len(read.shards) == ranks
    return Measured(ranks, len(data), reference.raw_size, encode, seconds)


def _timed(work: Callable[[], object]) -> tuple[object, float]:
    begun = time.process_time()
    result = work()
    return result, time.process_time() - begun


def _index(ranks: int) -> Index:
    table = TableBuilder()
    for number in range(TENSORS):
        chunks = [((4 * rank, 0), (4, 8192), rank) for rank in range(ranks)]
        table.add(f"model.layers.{number}.weight", "bfloat16", (4 * ranks, 8192), chunks)
    return Index(session="000001.abc", ordinal=1, shards=[_shard(rank) for rank in range(ranks)], tensors=table.build())


def _shard(rank: int) -> ShardReference:
    shard_id = paths.new_token()
    record = Reference(
        path=paths.record("r", shard_id), size=9000, raw_size=30000, sha256="0" * 64, targets=["a", "b", "c"]
    )
    return ShardReference(shard_id=shard_id, rank=rank, length=SHARD, record=record)


def _extended(one: Measured, other: Measured) -> Measured:
    def at(name: str) -> float:
        low, high = getattr(one, name), getattr(other, name)
        return low + (high - low) * (RANKS - one.ranks) / (other.ranks - one.ranks)

    return Measured(RANKS, round(at("stored")), round(at("raw")), at("encode"), at("read"))
