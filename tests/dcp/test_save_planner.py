"""Saving with our planner: what is refused, what is stored once, what stock planners still find."""

import pickle

import pytest
import torch
import torch.distributed.checkpoint as dcp
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed.checkpoint import DefaultSavePlanner
from torch.distributed.checkpoint.planner import WriteItemType
from torch.nested import nested_tensor

from ckptstore.dcp.layout import Layout
from ckptstore.dcp.objects import decode
from ckptstore.dcp.save_planner import CheckpointSavePlanner
from ckptstore.errors import KeyCollision, ReplicaMismatch, UnsupportedValue
from tests.dcp.equality import same
from tests.dcp.folder import load, save

pytestmark = pytest.mark.filterwarnings("ignore")


def fake():
    with FakeTensorMode():
        return torch.zeros(2)


UNSUPPORTED = {
    "sparse": lambda: torch.eye(3).to_sparse(),
    "csr": lambda: torch.eye(3).to_sparse_csr(),
    "meta": lambda: torch.empty(3, device="meta"),
    "quantised": lambda: torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8),
    "nested": lambda: nested_tensor([torch.ones(2), torch.ones(3)]),
    "jagged": lambda: nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged),
    "fake": fake,
    "object": object,
    "sparse in a set": lambda: {torch.eye(3).to_sparse()},
}


@pytest.mark.parametrize("make", UNSUPPORTED.values(), ids=UNSUPPORTED.keys())
def test_o74_unsupported_values_are_refused_by_name_before_anything_is_written(tmp_path, make):
    good = {"a": torch.ones(2)}
    save(good, tmp_path / "old")
    with pytest.raises(UnsupportedValue) as caught:
        save({"a": torch.zeros(2), "deep": {"last": make()}}, tmp_path / "new")
    assert caught.value.key.startswith("deep.last")
    assert "deep.last" in str(caught.value)
    assert not (tmp_path / "new").exists()
    again = {}
    load(again, tmp_path / "old")
    assert same(again, good)


def test_o74_the_error_crosses_ranks_whole():
    with pytest.raises(UnsupportedValue) as caught:
        CheckpointSavePlanner().set_up_planner({"w": torch.empty(3, device="meta")})
    again = pickle.loads(pickle.dumps(caught.value))
    assert (again.key, str(again)) == ("w", str(caught.value))
    assert "to_empty" in again.hint


@pytest.mark.parametrize("state", [{1: torch.ones(1), "1": 2}, {"a.b": torch.ones(1), "a": {"b": 2}}])
def test_o35_colliding_keys_are_refused_before_anything_is_written(tmp_path, state):
    with pytest.raises(KeyCollision):
        save(state, tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_objects_are_given_to_the_writer_as_typed_json():
    planner, plan = planned({"n": 7, "t": (1, 2)})
    found = {item.index.fqn: planner.resolve_data(item).getvalue() for item in plan.items}
    assert {name: decode(data) for name, data in found.items()} == {"n": 7, "t": (1, 2)}


def planned(state):
    planner = CheckpointSavePlanner()
    planner.set_up_planner(state, is_coordinator=True)
    return planner, planner.create_local_plan()


def test_o37_views_are_given_to_the_writer_with_their_logical_values():
    base = torch.randn(4, 4, dtype=torch.complex64)
    views = {
        "conj": base.conj(),
        "imag": base.conj().imag,
        "column": base[:, 1],
        "expanded": base[0].expand(3, 4),
    }
    planner, plan = planned(views)
    for item in plan.items:
        given = planner.resolve_data(item)
        assert same(given.clone(), views[item.index.fqn].resolve_conj().resolve_neg().clone())
        assert not given.is_conj()
        assert not given.is_neg()


def test_o37_tied_tensors_are_planned_once_and_known_by_all_names(tmp_path):
    w = torch.randn(8, 8)
    state = {
        "head": w,
        "emb": torch.nn.Parameter(w),
        "view": w[:4],
        "other": w.clone(),
        "empty": w[:0],
        "void": w[:0],
    }
    _, plan = planned(state)
    assert {item.index.fqn for item in plan.items} == {"emb", "view", "other", "empty", "void"}
    metadata = save(state, tmp_path)
    assert metadata.state_dict_metadata.keys() == state.keys()
    assert metadata.planner_data.keys() == state.keys()
    assert Layout.of(metadata).aliases == {"head": "emb"}


def test_the_same_memory_seen_differently_is_not_tied():
    w = torch.randn(4, 4)
    _, plan = planned({"w": w, "t": w.t(), "flat": w.view(-1), "bits": w.view(torch.int32)})
    assert len(plan.items) == 4


def test_stock_planners_find_their_paths_and_tensors(tmp_path):
    state = {"m": {"w": torch.randn(3), 1: [torch.randn(2), 3]}, "n": 1}
    metadata = save(state, tmp_path)
    stock = DefaultSavePlanner()
    stock.set_up_planner(state, is_coordinator=True)
    assert metadata.planner_data == stock.mappings
    template = {"m": {"w": torch.zeros(3), 1: [torch.zeros(2)]}}
    dcp.load(template, storage_reader=dcp.FileSystemReader(tmp_path))
    assert same(template["m"]["w"], state["m"]["w"])
    assert same(template["m"][1][0], state["m"][1][0])


def test_metadata_survives_the_broadcast(tmp_path):
    metadata = save({"a": {1: torch.ones(1)}, "e": {}}, tmp_path)
    again = pickle.loads(pickle.dumps(metadata))
    assert again.planner_data == metadata.planner_data
    assert again.planner_data.structure == metadata.planner_data.structure


def test_o52_a_new_key_or_shape_is_never_left_out(tmp_path):
    planner = CheckpointSavePlanner()
    states = [
        {"a": torch.ones(3)},
        {"a": torch.ones(3), "b": torch.zeros(2)},
        {"a": torch.ones(5)},
        {"a": torch.ones(3)},
        {"a": torch.ones(3, dtype=torch.int64)},
        {"a": torch.ones(3, dtype=torch.int64), "e": {}, "n": 1},
    ]
    for number, state in enumerate(states):
        writer = dcp.FileSystemWriter(tmp_path / str(number))
        dcp.save(state, storage_writer=writer, planner=planner)
    for number, state in enumerate(states):
        again: dict = {}
        load(again, tmp_path / str(number))
        assert same(again, state)


# -- several ranks, their plans made here --------------------------------------------------------------------


def plans_of(states):
    planners = [CheckpointSavePlanner() for _ in states]
    for rank, (planner, state) in enumerate(zip(planners, states, strict=True)):
        planner.set_up_planner(state, is_coordinator=rank == 0)
    return planners[0], [planner.create_local_plan() for planner in planners]


@pytest.mark.parametrize(
    "other",
    [torch.ones(4), torch.ones(3, dtype=torch.int32), 1, {"x": torch.ones(3)}, [torch.ones(3)]],
    ids=["shape", "dtype", "object", "dict", "list"],
)
def test_o15_ranks_that_hold_different_kinds_under_one_key_are_refused(other):
    planner, plans = plans_of([{"w": torch.ones(3)}, {"w": torch.ones(3)}, {"w": other}])
    with pytest.raises(ReplicaMismatch) as caught:
        planner.create_global_plan(plans)
    assert caught.value.key.startswith("w")


def test_o15_equal_content_is_stored_once():
    planner, plans = plans_of([{"w": torch.ones(3), "n": 1}] * 4)
    plans, _ = planner.create_global_plan(plans)
    assert sorted(item.index.fqn for plan in plans for item in plan.items) == ["n", "w"]


def test_o51_what_single_ranks_hold_is_noted():
    planner, plans = plans_of([{"w": torch.ones(3), "rng": {rank: torch.ones(rank + 1)}} for rank in range(4)])
    plans, metadata = planner.create_global_plan(plans)
    assert Layout.of(metadata).single == {f"rng.{rank}" for rank in range(4)}
    assert all(plan.planner_data is None for plan in plans), "structures don't travel back"


def test_a_key_tied_on_one_rank_only_is_stored_for_the_other():
    w = torch.ones(3)
    planner, plans = plans_of([{"emb": w, "head": w}, {"head": torch.ones(3)}])
    plans, metadata = planner.create_global_plan(plans)
    assert sorted(item.index.fqn for plan in plans for item in plan.items) == ["emb", "head"]
    assert Layout.of(metadata).aliases == {}


def test_ranks_choose_the_same_of_several_tied_keys():
    w = torch.ones(3)
    planner, plans = plans_of([{"a": w, "b": w}, {"b": w, "a": w}])
    plans, metadata = planner.create_global_plan(plans)
    assert [item.index.fqn for plan in plans for item in plan.items] == ["a"]
    assert Layout.of(metadata).aliases == {"b": "a"}
    assert all(item.type is WriteItemType.TENSOR for plan in plans for item in plan.items)
