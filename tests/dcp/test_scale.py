"""Case O68: 1,024 tensors of 1,024 chunks each: planning, and the index, in seconds."""

import json
import subprocess
import sys

import pytest

PLANNING = """
import json, resource, sys, time
import torch
from torch.distributed.checkpoint.metadata import ChunkStorageMetadata, MetadataIndex, TensorProperties
from torch.distributed.checkpoint.planner import SavePlan, TensorWriteData, WriteItem, WriteItemType
from ckptstore.dcp.save_planner import CheckpointSavePlanner

RANKS = int(sys.argv[1])
shape, sizes = torch.Size([4 * RANKS, 4096]), torch.Size([4, 4096])
offsets = [torch.Size([4 * chunk, 0]) for chunk in range(RANKS)]
names = [f"model.layers.{number}.weight" for number in range(1024)]
properties = TensorProperties(dtype=torch.bfloat16)
planner = CheckpointSavePlanner()
planner.set_up_planner({name: torch.empty(1) for name in names}, is_coordinator=True)
layout = planner.create_local_plan().planner_data

def plan_of(rank):
    data = TensorWriteData(ChunkStorageMetadata(offsets[rank], sizes), properties, shape)
    items = [WriteItem(MetadataIndex(name, offsets[rank]), WriteItemType.SHARD, tensor_data=data) for name in names]
    return SavePlan(items, planner_data=layout)

gathered = [plan_of(rank) for rank in range(RANKS)]
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
before, began = peak(), time.process_time()
plans, metadata = planner.create_global_plan(gathered)
print(json.dumps({
    "cpu": time.process_time() - began,
    "extra": peak() - before,
    "items": sum(len(plan.items) for plan in plans),
    "chunks": sum(len(entry.chunks) for entry in metadata.state_dict_metadata.values()),
}))
"""

GATHERING = """
import json, resource, sys, time
import msgspec, torch
from torch.distributed.checkpoint.metadata import ChunkStorageMetadata, Metadata, MetadataIndex
from torch.distributed.checkpoint.metadata import TensorProperties, TensorStorageMetadata
from torch.distributed.checkpoint.storage import WriteResult
from ckptstore.commit import About
from ckptstore.dcp.coordinator import Coordinator
from ckptstore.dcp.metadata import metadata_of
from ckptstore.dcp.ranks import RankReport
from ckptstore.placement import Survives
from ckptstore.save.shard import SavedShard
from manifests import Index, Reference, ShardReference, pack, paths, unpack

COUNT, TENSORS = 1024, int(sys.argv[1])
properties = TensorProperties(dtype=torch.bfloat16)
sizes = torch.Size([4, 4096])
offsets = [torch.Size([4 * chunk, 0]) for chunk in range(COUNT)]
names = [f"model.layers.{number}.weight" for number in range(TENSORS)]
def chunks():
    return [ChunkStorageMetadata(start, sizes) for start in offsets]

shape = torch.Size([4 * COUNT, 4096])
metadata = Metadata({name: TensorStorageMetadata(properties, shape, chunks()) for name in names})

def results_of(rank):
    shard_id = paths.new_token()
    record = Reference(path=paths.record("r", shard_id), size=100, raw_size=100, sha256="0" * 64, targets=["a", "b"])
    reference = ShardReference(shard_id=shard_id, rank=rank, length=10**9, record=record)
    report = RankReport(rank=rank, shards=[SavedShard(reference, Survives(2, 2), {})])
    results = [WriteResult(MetadataIndex(name, offsets[rank]), 32768, 0) for name in names]
    return [WriteResult(MetadataIndex(""), 0, msgspec.msgpack.encode(report)), *results]

results = [results_of(rank) for rank in range(COUNT)]
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
before, began = peak(), time.process_time()

coordinator = Coordinator(commit=None, about=About("n", "n", None))
shards, tensors = coordinator.gather(metadata, results, {})
index = Index(session="000001.abc", ordinal=1, shards=[shard.reference for shard in shards], tensors=tensors)
data, measures = pack(index)
again = unpack(Index, data, Reference(path=paths.index("r", paths.new_token()), targets=["a"], **measures))
found = metadata_of(again)
print(json.dumps({
    "cpu": time.process_time() - began,
    "extra": peak() - before,
    "stored": len(data),
    "chunks": sum(len(entry.chunks) for entry in found.state_dict_metadata.values()),
}))
"""


def run(script, *arguments):
    command = [sys.executable, "-W", "ignore", "-c", script, *arguments]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    return json.loads(answer.stdout)


@pytest.mark.parametrize("ranks", [128, pytest.param(1024, marks=pytest.mark.soak)])
def test_o68_a_million_chunks_are_planned_in_seconds(ranks):
    """An eighth of them in an eighth of the time and the memory; all of them in `make soak`."""
    measured = run(PLANNING, str(ranks))
    assert measured["items"] == measured["chunks"] == 1024 * ranks
    assert measured["cpu"] < 10 * ranks / 1024, f"{measured} s of CPU"
    assert measured["extra"] < ranks, f"{measured} MiB"


@pytest.mark.parametrize("tensors", [128, pytest.param(1024, marks=pytest.mark.soak)])
def test_o68_a_million_chunks_are_gathered_packed_and_read_in_seconds(tensors):
    measured = run(GATHERING, str(tensors))
    assert measured["chunks"] == 1024 * tensors
    assert measured["cpu"] < 10 * tensors / 1024, f"{measured} s of CPU"
    assert measured["extra"] < tensors, f"{measured} MiB"
    assert measured["stored"] < 8192 * tensors
