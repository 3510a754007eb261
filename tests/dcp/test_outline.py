"""What a rank needs of an index: the same whatever the number of ranks that saved, and enough to plan by."""

import pickle
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.distributed.checkpoint.metadata import Metadata, MetadataIndex, TensorStorageMetadata
from torch.distributed.checkpoint.planner_helpers import create_read_items_for_chunk_list

from ckptstore.dcp.metadata import SavedTensor, metadata_of
from ckptstore.dcp.outline import Outline, Stepwise
from manifests import Index, Reference, ShardReference, TableBuilder, paths
from manifests.testing import save_manifest

NAMES = [f"layers.{number}.weight" for number in range(20)]


def index_of(ranks: int) -> Index:
    """Of matrices cut by rows over all ranks, and one tensor that rank 0 holds whole."""
    table = TableBuilder()
    for name in NAMES:
        table.add(name, "bfloat16", (4 * ranks, 64), [((4 * rank, 0), (4, 64), rank) for rank in range(ranks)])
    table.add("scale", "float32", (), [((), (), 0)])
    return Index(session="000001.x", ordinal=1, shards=[shard(rank) for rank in range(ranks)], tensors=table.build())


def shard(rank: int) -> ShardReference:
    name = paths.new_token()
    record = Reference(path=paths.record("r", name), size=1, raw_size=1, sha256="0" * 64, targets=["a"])
    return ShardReference(shard_id=name, rank=rank, length=1, record=record)


def outline_of(index: Index) -> Outline:
    """As another rank receives it."""
    manifest = save_manifest("r", index.session, index.ordinal)
    return pickle.loads(pickle.dumps(Outline.of(manifest, index)))


@given(st.lists(st.one_of(st.integers(0, 9), st.integers(0, 1 << 40))).map(lambda found: found + found[::2]))
def test_a_column_comes_out_as_it_went_in(numbers):
    column = pickle.loads(pickle.dumps(Stepwise(numbers)))
    assert list(column) == numbers
    assert len(column) == len(numbers)
    assert column[1:-1] == numbers[1:-1]
    assert [column[-i] for i in range(1, len(numbers) + 1)] == numbers[::-1]
    with pytest.raises(IndexError):
        column[len(numbers)]


def test_columns_of_even_steps_are_small_whatever_their_length():
    rows = [list(range(0, 4096, 8)) * 100, list(range(4096)) * 3, [7] * 5000]
    for numbers in rows:
        assert list(Stepwise(numbers)) == numbers
        assert len(pickle.dumps(Stepwise(numbers))) < 3000


def test_an_outline_does_not_grow_with_the_job():
    manifest = save_manifest("r", "000001.x", 1)
    sizes = [len(pickle.dumps(Outline.of(manifest, index_of(ranks)))) for ranks in (64, 4096)]
    assert sizes[1] < 1.1 * sizes[0]


def test_an_outline_says_where_every_chunk_is():
    index = index_of(500)
    found = outline_of(index).index
    assert found.shards == []
    for name in index.tensors:
        assert found.tensors[name] == index.tensors[name]


@pytest.mark.parametrize("ranks", [64, 4096])
def test_a_rank_plans_with_as_many_chunks_as_it_reads(ranks):
    entry = metadata_of(outline_of(index_of(ranks)).index).state_dict_metadata[NAMES[3]]
    assert isinstance(entry, SavedTensor)
    mine = ([40, 0], [8, 64])  # rank 5 of half as many
    near = entry.within([mine])
    assert [tuple(chunk.offsets) for chunk in near.chunks] == [(40, 0), (44, 0)]
    assert "chunks" not in vars(entry), "nobody asked for all of them"


def test_what_is_near_gives_the_reads_that_all_chunks_give():
    entry = metadata_of(index_of(64)).state_dict_metadata[NAMES[0]]
    for box in [([0, 0], [256, 64]), ([7, 3], [9, 5]), ([255, 0], [1, 64]), ([0, 0], [0, 64])]:
        chunk = SimpleNamespace(offsets=torch.Size(box[0]), sizes=torch.Size(box[1]))
        reads = [create_read_items_for_chunk_list("w", each, [chunk]) for each in (entry, entry.within([box]))]
        every, near = ([without_hints(item) for item in items if item.lengths.numel()] for items in reads)
        assert near == every


def without_hints(item):
    return item.storage_offsets, item.dest_offsets, item.lengths, MetadataIndex("w", item.storage_index.offset)


def test_metadata_that_travels_lists_all_chunks():
    entry = metadata_of(index_of(64)).state_dict_metadata["layers.0.weight"]
    there = pickle.loads(pickle.dumps(Metadata({"w": entry}))).state_dict_metadata["w"]
    assert type(there) is TensorStorageMetadata
    assert (there.size, len(there.chunks), there.properties.dtype) == (entry.size, 64, torch.bfloat16)
    with pytest.raises(AttributeError):
        entry.nothing  # noqa: B018
