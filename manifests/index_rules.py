"""The rules of an index: references to the shards, and tensors that their chunks cover exactly once."""

import math
import os
from collections import defaultdict
from collections.abc import Sequence

from manifests import checks, paths
from manifests.errors import shown
from manifests.format_errors import MissingRange, OverlappingRange, UnsafeName
from manifests.manifest_rules import check_reference
from manifests.record_rules import OBJECT
from manifests.schema import Index, ShardReference
from manifests.table import Run, TensorTable

MAX_CHUNKS = 1 << 20
"""Most chunks of one tensor: reading its entry makes an object for each."""

_PRIME = 2**61 - 1


def check_index(index: Index) -> None:
    """Require a whole index."""
    checks.save(index.session, index.ordinal, "")
    for i, shard in enumerate(index.shards):
        _check_shard(shard, f"shards[{i}].")
    checks.unique((shard.shard_id for shard in index.shards), "shards.shard_id")
    if len(runs := {shard.record.path.split("/")[1] for shard in index.shards}) > 1:
        raise UnsafeName(f"the shards are of several runs: {sorted(runs)}", field="shards.record.path")
    check_table(index.tensors, len(index.shards))
    checks.json_value(index.structure, "structure")
    checks.unique((fqn for fqn, _ in index.planner_data), "planner_data")
    for fqn, path in index.planner_data:
        checks.numbers([part for part in path if isinstance(part, int)], f"planner_data of {shown(fqn)}")


def _check_shard(shard: ShardReference, field: str) -> None:
    checks.name(paths.check_token, shard.shard_id, f"{field}shard_id")
    checks.number(shard.rank, f"{field}rank")
    checks.number(shard.length, f"{field}length")
    check_reference(shard.record, "shards", f"{field}record.")
    name = shard.record.path.rpartition("/")[2]
    if name != shard.shard_id and not name.startswith(f"{shard.shard_id}-"):
        message = f"{field}record.path {shown(shard.record.path)} is not of shard {shard.shard_id}"
        raise UnsafeName(message, field=f"{field}record.path", name=shard.record.path)


# -- the tensor table ----------------------------------------


def check_table(table: TensorTable, shards: int) -> None:
    """Require columns of equal length, positions of existing shards, and chunks that tile every tensor."""
    _check_columns(table)
    checks.unique(table.fqn, "tensors.fqn")
    if shard := table.chunks.shard:
        checks.position(min(shard), shards, "tensors.chunks.shard")
        checks.position(max(shard), shards, "tensors.chunks.shard")
    tiling = _Tiling()
    for position, fqn in enumerate(table.fqn):
        field = f"tensors[{shown(fqn)}]"
        shape = table.shape[position]
        if table.dtype[position] == OBJECT:
            checks.count(len(shape), 0, f"{field}.shape")
        tiling.check(shape, list(table.runs_of(position)), field)


def _check_columns(table: TensorTable) -> None:
    tensors = len(table.fqn)
    for name, column in (("dtype", table.dtype), ("shape", table.shape), ("runs", table.runs)):
        checks.count(len(column), tensors, f"tensors.{name}")
    for shape in table.shape:
        checks.shape(shape, "tensors.shape")
    checks.numbers(table.runs, "tensors.runs", 1)
    columns = table.chunks
    for name, column in (("count", columns.count), ("axis", columns.axis)):
        checks.count(len(column), sum(table.runs), f"tensors.chunks.{name}")
    dimensions = sum(runs * len(shape) for runs, shape in zip(table.runs, table.shape, strict=True))
    for name, column in (("offsets", columns.offsets), ("sizes", columns.sizes)):
        checks.count(len(column), dimensions, f"tensors.chunks.{name}")
        checks.numbers(column, f"tensors.chunks.{name}")
    checks.numbers(columns.count, "tensors.chunks.count", 1, MAX_CHUNKS)
    checks.count(len(columns.shard), sum(columns.count), "tensors.chunks.shard")


class _Tiling:
    """Decides whether boxes cover a whole box exactly once, in time linear in boxes x dimensions.

    Give every coordinate of every dimension a random number r, and every box the product over the dimensions
    of r(start) - r(stop): a signed sum over the corners of the box. If the boxes tile the whole, corners inside
    cancel, and their products add up to the product of the whole. If they don't, the two sides are different
    polynomials in the r, which agree by chance with a probability of at most dimensions / 2^61 (Schwartz,
    "Fast probabilistic algorithms for verification of polynomial identities", J. ACM 27, 1980; Zippel 1979).
    """

    def __init__(self) -> None:
        self._random: defaultdict[int, defaultdict[int, int]] = defaultdict(lambda: defaultdict(_draw))

    def check(self, shape: Sequence[int], runs: Sequence[Run], field: str) -> None:
        """Require that the chunks of `runs` tile a tensor of `shape`."""
        checks.number(sum(run.length for run in runs), f"{field} chunks", 1, MAX_CHUNKS)
        total = volume = 0
        for run in runs:
            start, sizes = _box(run, shape, field)
            total += self._measure(start, sizes)
            volume += math.prod(sizes)
        expected = math.prod(shape)
        if volume < expected:
            raise MissingRange(f"{field}: chunks hold {volume} of {expected} elements", field=field)
        if volume > expected or (total - self._measure([0] * len(shape), shape)) % _PRIME:
            raise OverlappingRange(f"{field}: chunks overlap", field=field)

    def _measure(self, start: Sequence[int], sizes: Sequence[int]) -> int:
        product = 1
        for dimension, (at, size) in enumerate(zip(start, sizes, strict=True)):
            random = self._random[dimension]
            product = product * (random[at] - random[at + size]) % _PRIME
        return product


def _draw() -> int:
    return int.from_bytes(os.urandom(8)) % _PRIME


def _box(run: Run, shape: Sequence[int], field: str) -> tuple[Sequence[int], Sequence[int]]:
    """Return the box that the chunks of a run make up together: they lie side by side."""
    start, sizes = run.offsets, run.sizes
    if run.length > 1 or run.axis:
        checks.position(run.axis, len(shape), f"{field} axis")
        sizes = (*sizes[: run.axis], sizes[run.axis] * run.length, *sizes[run.axis + 1 :])
    for at, size, end in zip(start, sizes, shape, strict=True):
        if at + size > end:
            message = f"{field}: a run at {start} of sizes {sizes} leaves the shape {shape}"
            raise OverlappingRange(message, field=field)
    return start, sizes
