"""Nested state dicts: what becomes a leaf, what it is called, and that nesting it again is exact."""

import json
from collections import OrderedDict

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.distributed.checkpoint import DefaultSavePlanner

from ckptstore.dcp.structure import flatten, leaf_kind, unflatten
from ckptstore.dcp.structure_json import (
    merge,
    structure_from_json,
    structure_from_paths,
    structure_to_json,
    torch_paths,
)
from ckptstore.errors import CorruptError, KeyCollision, ReplicaMismatch, UnsupportedValue
from tests.dcp.equality import same

T = torch.zeros(2)
ODD_KEYS = ["", "../x", "a/b", "a\nb", "a\0b", "k" * 5000, "ключ-鍵", "object:x", "w@0,1", " "]


def through_json(state):
    """Flatten, send the structure through JSON, unflatten."""
    flat = flatten(state)
    document = json.loads(json.dumps(structure_to_json(flat.root)))
    return unflatten(structure_from_json(document), flat.leaves)


@pytest.mark.parametrize(
    "state",
    [
        {"h": [{"a": 1}, {"b": 2}], "epoch": 7, "t": (1, 2), "s": {3}, "n": None},
        {"a": {}, "b": [], "c": (), "d": {"e": {}}, "f": [{}], "g": OrderedDict()},
        {0: T, -1: [T], True: (T, 1), (1, "x"): {2.5: T}, None: T, b"k": T},
        OrderedDict(z=T, a=OrderedDict(w=T)),
        {"deep": [(T, [{"x": (T,)}])], "mixed": [1, T, "a", None]},
        dict.fromkeys(ODD_KEYS, T),
        {"array": np.zeros(1 << 16), "small": np.zeros(3)},
    ],
    ids=["case", "empty", "typed keys", "ordered", "nested", "odd keys", "arrays"],
)
def test_o34_o35_state_comes_back_with_its_containers_and_keys(state):
    assert same(through_json(state), state)


keys = st.text(max_size=3) | st.integers(-2, 2) | st.none() | st.tuples(st.integers(0, 1))
states = st.dictionaries(
    keys,
    st.recursive(
        st.none() | st.integers() | st.text(max_size=3) | st.just(T),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.lists(inner, max_size=3).map(tuple)
            | st.dictionaries(keys, inner, max_size=3)
            | st.dictionaries(keys, inner, max_size=3).map(OrderedDict)
        ),
        max_leaves=8,
    ),
    max_size=4,
)


@given(states)
def test_o34_o35_any_state_comes_back_or_its_names_collide(state):
    try:
        again = through_json(state)
    except KeyCollision:
        return
    assert same(again, state)


@pytest.mark.parametrize(
    "state",
    [
        {1: T, "1": T},
        {"a.b": T, "a": {"b": T}},
        {"a": [T], "a.0": T},
        {"x": {None: 1, "None": 2}},
        {"a": {"": T}, "a.": T},
        {1: {"x": T}, "1": {"y": T}},
    ],
)
def test_o35_colliding_keys_are_refused_naming_both(state):
    with pytest.raises(KeyCollision) as caught:
        flatten(state)
    assert len(caught.value.paths) == 2
    assert caught.value.paths[0] != caught.value.paths[1]
    assert all(repr(path) in str(caught.value) for path in caught.value.paths)


def test_o35_a_key_that_cant_be_stored_is_refused():
    with pytest.raises(UnsupportedValue, match="object object"):
        flatten({"a": {object(): T}})


def test_a_state_that_contains_itself_is_refused():
    state: dict = {"a": [T]}
    state["a"].append(state)
    with pytest.raises(UnsupportedValue, match="contains itself"):
        flatten(state)


def test_long_containers_without_tensors_are_one_object():
    state = {"loss": list(range(10_000)), "vocab": {str(i): i for i in range(5000)}, "log": [{"x": 1}] * 5000}
    assert list(flatten(state).leaves) == ["loss", "vocab", "log"]
    assert len(flatten({"ema": [T] * 5000}).leaves) == 5000, "tensors are leaves however many"


def test_large_arrays_travel_as_tensors_and_small_or_strange_ones_as_objects():
    large = np.zeros(1 << 16)
    kinds = {
        "large": large,
        "small": large[:9],
        "swapped": large.astype(">f8"),
        "text": np.array(["x" * (1 << 16)]),
    }
    assert {name: leaf_kind(value) for name, value in kinds.items()} == {
        "large": "ndarray",
        "small": "object",
        "swapped": "object",
        "text": "object",
    }


def test_stateful_values_are_asked_for_their_state_wherever_they_stand():
    model = torch.nn.Linear(2, 2)
    state = {"a": [{"m": model}], "m": model}
    assert set(flatten(state).leaves) == {"a.0.m.weight", "a.0.m.bias", "m.weight", "m.bias"}


def optimizer_state():
    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(2)).sum().backward()
    optimizer.step()
    return {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "rng": torch.get_rng_state(),
        "n": 1,
    }


def test_names_and_paths_are_those_of_torch():
    state = optimizer_state()
    stock = DefaultSavePlanner()
    stock.set_up_planner(state, is_coordinator=True)
    flat = flatten(state)
    assert flat.leaves.keys() == stock.state_dict.keys()
    assert torch_paths(flat.root) == stock.mappings


def test_a_structure_is_made_for_what_stock_planners_saved():
    root = flatten({"a": {"b": [T, {"c": T}], "n": 1}, "x.y": T}).root
    kinds = {"a.b.1.c": "tensor", "a.b.0": "tensor", "a.n": "object", "x.y": "tensor", "no.path": "object"}
    paths = {name: path for name, path in torch_paths(root).items() if name != "no.path"}
    again = structure_from_paths(paths, kinds)
    assert structure_to_json(again) == {
        "dict": [
            ["a", {"dict": [["b", {"list": ["tensor", {"dict": [["c", "tensor"]]}]}], ["n", "object"]]}],
            ["x.y", "tensor"],
            ["no.path", "object"],
        ]
    }


def test_dropped_empty_dicts_keep_their_position_in_a_stock_list():
    again = structure_from_paths({"a.2.c": ("a", 2, "c")}, {"a.2.c": "tensor"})
    assert unflatten(again, {"a.2.c": 7}) == {"a": [{}, {}, {"c": 7}]}


# -- several ranks -------------------------------------------------------------------------------------------


def test_structures_of_ranks_are_merged():
    ranks = [{"w": T, "rng": {rank: rank}, "h": [T] * rank if rank else [T]} for rank in range(4)]
    merged = merge([flatten(state).root for state in ranks])
    assert unflatten(merged, {name: name for name, _ in torch_paths(merged).items()}) == {
        "w": "w",
        "rng": {rank: f"rng.{rank}" for rank in range(4)},
        "h": ["h.0", "h.1", "h.2"],
    }


def test_o15_ranks_with_different_kinds_of_value_under_one_key_are_refused():
    with pytest.raises(ReplicaMismatch) as caught:
        merge([flatten({"a": {"b": T}}).root, flatten({"a": {"b": 1}}).root])
    assert caught.value.key == "a.b"


def test_o35_keys_of_different_ranks_that_collide_are_refused():
    with pytest.raises(KeyCollision):
        merge([flatten({1: T}).root, flatten({"1": T}).root])


# -- hostile structures --------------------------------------------------------------------------------------


def deep(levels: int):
    document = "tensor"
    for _ in range(levels):
        document = {"list": [document]}
    return document


@pytest.mark.parametrize(
    "document",
    [
        None,
        [],
        "pickle",
        {},
        {"dict": [], "list": []},
        {"exec": []},
        {"dict": [["a"]]},
        {"dict": [[{"list": []}, "tensor"]]},
        {"dict": [["a", "tensor"], ["a", "tensor"]]},
        {"dict": [[1, "tensor"], ["1", "tensor"]]},
        {"dict": 7},
        {"list": {"a": "b"}},
        deep(300),
    ],
)
def test_o62_a_malformed_structure_is_refused(document):
    with pytest.raises(CorruptError):
        structure_from_json(document)


def test_o62_a_list_position_can_not_exhaust_memory():
    with pytest.raises(CorruptError):
        structure_from_paths({"a": ("a", 1 << 60)}, {"a": "tensor"})
