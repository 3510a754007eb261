"""Loading with our planner: in place, complete, nothing cast or missed unnoticed."""

import copy
from collections import OrderedDict

import numpy as np
import pytest
import torch
import torch.distributed.checkpoint as dcp
from torch import nn

from ckptstore.dcp.layout import Layout
from ckptstore.dcp.load_planner import CheckpointLoadPlanner
from ckptstore.dcp.save_planner import CheckpointSavePlanner
from ckptstore.errors import (
    CorruptError,
    DtypeMismatch,
    KeyMismatch,
    ReplicaMismatch,
    ShapeMismatch,
    UnsupportedValue,
)
from tests.dcp.equality import same
from tests.dcp.folder import load, own_error, save
from tests.dcp.test_structure import ODD_KEYS

pytestmark = pytest.mark.filterwarnings("ignore:torch.distributed", "error:.*never been stepped:UserWarning")


def filled(state, value):
    """A template: the same containers, other values in the tensors."""
    if isinstance(state, torch.Tensor):
        return torch.full_like(state, value)
    if isinstance(state, dict):
        return type(state)((key, filled(item, value)) for key, item in state.items())
    return type(state)(filled(item, value) for item in state) if isinstance(state, list | tuple) else state


# -- dtypes and shapes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("saved", "wanted"),
    [
        (torch.tensor([300, -5]), torch.zeros(2, dtype=torch.uint8)),
        (torch.tensor([16777217.0]), torch.zeros(1, dtype=torch.bfloat16)),
    ],
)
def test_o01_a_load_never_casts_unless_told_to(tmp_path, saved, wanted):
    save({"m": {"w": saved, "v": saved}}, tmp_path)
    template = {"m": {"w": wanted.clone(), "v": saved.clone()}}
    with pytest.raises(DtypeMismatch) as caught:
        load(template, tmp_path)
    assert caught.value.key == "m.w"
    assert str(saved.dtype).endswith(caught.value.saved)
    assert str(wanted.dtype).endswith(caught.value.wanted)
    assert same(template["m"]["w"], wanted), "untouched"
    with pytest.warns(UserWarning, match="cast") as warned:
        load(template, tmp_path, allow_cast=True)
    assert [str(each.message) for each in warned if "cast" in str(each.message)] == [
        f"'m.w' is cast from {caught.value.saved} to {caught.value.wanted}"
    ]
    assert same(template["m"]["w"], saved.to(wanted.dtype))


def test_o01_an_imaginary_part_is_never_dropped(tmp_path):
    save({"w": torch.ones(2, dtype=torch.complex64)}, tmp_path)
    with pytest.raises(DtypeMismatch):
        load({"w": torch.ones(2)}, tmp_path, allow_cast=True)


def test_a_tensor_cant_take_an_object(tmp_path):
    save({"n": 7}, tmp_path)
    with pytest.raises(DtypeMismatch) as caught:
        load({"n": torch.zeros(1)}, tmp_path)
    assert (caught.value.key, caught.value.saved) == ("n", "object")


def test_o74_another_shape_is_refused(tmp_path):
    save({"w": torch.ones(2, 3)}, tmp_path)
    with pytest.raises(ShapeMismatch) as caught:
        load({"w": torch.ones(3, 2)}, tmp_path)
    assert (caught.value.key, caught.value.saved, caught.value.wanted) == ("w", (2, 3), (3, 2))


@pytest.mark.parametrize("shape", [(), (1,), (0,), (0, 5), (6,), (1, 17)])
def test_o21_every_shape_comes_back(tmp_path, shape):
    state = {"w": torch.randn(shape), "n": torch.zeros(shape, dtype=torch.bool)}
    save(state, tmp_path)
    for template in (filled(state, 1), {}):
        load(template, tmp_path)
        assert same(template, state)


# -- keys ----------------------------------------------------------------------------------------------------


def test_o16_missing_and_unexpected_keys_are_named(tmp_path):
    save({"a": torch.ones(1), "z": torch.ones(1)}, tmp_path)
    template = {"a": torch.zeros(1), "b": torch.zeros(1)}
    with pytest.raises(KeyMismatch) as caught:
        load(template, tmp_path)
    assert (caught.value.missing, caught.value.unexpected) == (["b"], ["z"])
    assert "'b'" in str(caught.value)
    assert "'z'" in str(caught.value)
    assert same(template["a"], torch.zeros(1)), "nothing was loaded"


def test_o16_not_strict_leaves_what_is_missing_and_returns_both_lists(tmp_path):
    save({"a": torch.ones(1), "z": torch.ones(1), "t": (1, torch.ones(1))}, tmp_path)
    template = {"a": torch.zeros(1), "b": torch.zeros(1), "t": (0, torch.zeros(1))}
    report = load(template, tmp_path, strict=False)
    assert (report.missing, report.unexpected) == (("b",), ("z",))
    assert same(template, {"a": torch.ones(1), "b": torch.zeros(1), "t": (1, torch.ones(1))})


def test_o16_unexpected_keys_alone_are_an_error_too(tmp_path):
    save({"model": {"w": torch.ones(1), "b": torch.ones(1)}}, tmp_path)
    with pytest.raises(KeyMismatch) as caught:
        load({"model": {"w": torch.zeros(1)}}, tmp_path)
    assert (caught.value.missing, caught.value.unexpected) == ([], ["model.b"])


def test_o16_other_containers_are_other_keys(tmp_path):
    save({"a": {"x": torch.ones(1)}, "b": [torch.ones(1)], "c": torch.ones(1)}, tmp_path)
    template = {"a": [torch.zeros(1)], "b": torch.zeros(1), "c": {"y": torch.zeros(1)}}
    with pytest.raises(KeyMismatch) as caught:
        load(template, tmp_path)
    assert caught.value.missing == ["a.0", "b", "c.y"]
    assert caught.value.unexpected == ["a.x", "b.0", "c"]
    before = copy.deepcopy(template)
    load(template, tmp_path, strict=False)
    assert same(template, before)


def test_o35_odd_keys_come_back(tmp_path):
    state = {key: {key: torch.full((2,), number), "n": number} for number, key in enumerate(ODD_KEYS)}
    save(state, tmp_path)
    for template in (filled(state, -1), {}):
        load(template, tmp_path)
        assert same(template, state)


# -- containers and objects ----------------------------------------------------------------------------------

CASE = {"h": [{"a": 1}, {"b": 2}], "epoch": 7, "t": (1, 2), "s": {3}, "n": None}


@pytest.mark.parametrize(
    "template",
    [
        {},
        {"h": [], "epoch": 0, "t": (), "s": set(), "n": None},
        {"h": [{}, {}, {"c": 3}], "epoch": None, "t": None, "s": None, "n": 5},
        {"h": [{"a": 0}], "epoch": 0, "t": (0,), "s": {1, 2}, "n": {}},
    ],
    ids=["none", "empty", "longer", "shorter"],
)
def test_o34_values_and_containers_come_back_whatever_size_they_had(tmp_path, template):
    save(CASE, tmp_path)
    load(template, tmp_path)
    assert same({key: template[key] for key in CASE}, CASE)


def test_o34_nothing_but_empty_containers_comes_back(tmp_path):
    save({"e": {}, "o": OrderedDict(a={})}, tmp_path)
    again: dict = {}
    load(again, tmp_path)
    assert same(again, {"e": {}, "o": OrderedDict(a={})})


def test_o34_the_templates_own_containers_are_filled(tmp_path):
    save({"d": {"l": [1, 2], "x": {"y": torch.ones(1)}, "t": [torch.ones(1)]}}, tmp_path)
    template = {"d": {"l": [], "x": {}, "t": [torch.zeros(1)]}}
    inner = [template["d"], template["d"]["l"], template["d"]["x"], template["d"]["t"], template["d"]["t"][0]]
    load(template, tmp_path)
    after = [template["d"], template["d"]["l"], template["d"]["x"], template["d"]["t"], template["d"]["t"][0]]
    assert all(one is other for one, other in zip(inner, after, strict=True))
    assert same(template, {"d": {"l": [1, 2], "x": {"y": torch.ones(1)}, "t": [torch.ones(1)]}})


def test_o34_lists_of_tensors_grow_and_shrink(tmp_path):
    save({"l": [torch.ones(2), torch.ones(3)], "t": (torch.ones(1),)}, tmp_path)
    for count in (0, 1, 2):
        template = {"l": [torch.zeros(n + 2) for n in range(count)], "t": ()}
        load(template, tmp_path)
        assert same(template, {"l": [torch.ones(2), torch.ones(3)], "t": (torch.ones(1),)})


def test_o16_tensors_past_the_end_of_a_saved_list_are_missing(tmp_path):
    save({"l": [torch.ones(2)], "t": (torch.ones(1),), "none": []}, tmp_path)
    template = {
        "l": [torch.zeros(2), {"w": torch.zeros(3)}, 5],
        "t": (torch.zeros(1), torch.zeros(2)),
        "none": [torch.zeros(1)],
    }
    with pytest.raises(KeyMismatch) as caught:
        load(template, tmp_path)
    assert (caught.value.missing, caught.value.unexpected) == (["l.1.w", "none.0", "t.1"], ["none"])
    assert same(template["l"][0], torch.zeros(2)), "nothing was loaded"
    load(template, tmp_path, strict=False)
    assert same(template["l"], [torch.ones(2), {"w": torch.zeros(3)}]), "what is missing stays, also in its list"
    assert same(template["t"], (torch.ones(1), torch.zeros(2)))
    assert same(template["none"], [torch.zeros(1)])


def test_o16_arrays_and_stateful_objects_past_the_end_of_a_saved_list_are_missing(tmp_path):
    save({"l": [torch.ones(1)], "s": [Counting(7)], "o": [1]}, tmp_path)
    extra = Counting(0)
    template = {
        "l": [torch.zeros(1), "between", np.zeros(20_000), "after"],
        "s": [Counting(0), extra],
        "o": [0, np.zeros(20_000)],
    }
    with pytest.raises(KeyMismatch) as caught:
        load(template, tmp_path)
    assert caught.value.missing == ["l.1", "l.2", "o.0", "o.1", "s.1.history", "s.1.value"]
    assert caught.value.unexpected == ["o"]
    load(template, tmp_path, strict=False)
    assert same(template["l"], [torch.ones(1), "between", np.zeros(20_000)]), "what is missing stays where it was"
    assert same(template["o"], [0, np.zeros(20_000)])
    assert (template["s"][0].value, template["s"][1]) == (7, extra)
    assert extra.value == 0


def test_o34_typed_keys_and_ordered_dicts_come_back_without_a_template(tmp_path):
    state = {1: torch.ones(1), "o": OrderedDict(z=1, a=(2, {None: torch.ones(1)})), (1, 2): {}, "e": [[], ()]}
    save(state, tmp_path)
    again: dict = {}
    load(again, tmp_path)
    assert same(again, state)


def test_o34_numpy_arrays_come_back_as_arrays_large_ones_in_place(tmp_path):
    large, small = np.arange(20_000.0).reshape(100, 200), np.array([1, 2], dtype=np.int16)
    save({"large": large[:, ::-1], "small": small}, tmp_path)
    template = {"large": np.zeros((100, 200)), "small": np.zeros(2, dtype=np.int16)}
    own = template["large"]
    load(template, tmp_path)
    again: dict = {}
    load(again, tmp_path)
    for loaded in (template, again):
        assert same(loaded, {"large": np.ascontiguousarray(large[:, ::-1]), "small": small})
    assert template["large"] is own
    with pytest.raises(DtypeMismatch):
        load({"large": np.zeros((100, 200), dtype=np.float32), "small": small}, tmp_path)


class Counting:
    """Nested `Stateful`: DCP itself asks only those at the top."""

    def __init__(self, value):
        self.value = value

    def state_dict(self):
        return {"value": self.value, "history": [self.value]}

    def load_state_dict(self, state):
        self.value = state["value"]
        self.history = state["history"]


def test_o34_nested_stateful_objects_take_their_state(tmp_path):
    save({"top": Counting(1), "deep": [{"in": Counting(2), "w": torch.ones(1)}]}, tmp_path)
    template = {"top": Counting(0), "deep": [{"in": Counting(0), "w": torch.zeros(1)}]}
    top, deep = template["top"], template["deep"][0]["in"]
    load(template, tmp_path)
    assert (template["top"], template["deep"][0]["in"]) == (top, deep)
    assert (top.value, top.history, deep.value, deep.history) == (1, [1], 2, [2])


def test_dcp_may_pass_the_state_itself(tmp_path):
    save({"m": {"w": torch.ones(1)}, "n": 7, "t": (torch.ones(1), 2)}, tmp_path)
    state = {"m": nn.ParameterDict({"w": nn.Parameter(torch.zeros(1))}), "n": 0, "t": (torch.zeros(1), 0)}
    dcp.load(state, storage_reader=dcp.FileSystemReader(tmp_path), planner=CheckpointLoadPlanner())
    assert same(dict(state["m"].state_dict()), {"w": torch.ones(1)})
    assert same({"n": state["n"], "t": state["t"]}, {"n": 7, "t": (torch.ones(1), 2)})


def test_pickled_objects_load_only_where_that_is_allowed(tmp_path):
    save({"c": Counting(3)}, tmp_path / "stateful")
    save({"c": slice(1, 2)}, tmp_path / "pickled", allow_pickle=True)
    with pytest.raises(UnsupportedValue) as caught:
        load({}, tmp_path / "pickled")
    assert caught.value.key == "c"
    again: dict = {}
    load(again, tmp_path / "pickled", allow_pickle=True)
    assert again == {"c": slice(1, 2)}


# -- views and ties ------------------------------------------------------------------------------------------


def test_o37_overlapping_and_disjoint_views_of_one_storage_come_back(tmp_path):
    base = torch.arange(10.0)
    state = {
        "all": base,
        "overlapping": base[2:7],
        "left": base[:5],
        "right": base[5:],
        "t": base.view(2, 5).t(),
    }
    expected = {key: value.clone() for key, value in state.items()}
    save(state, tmp_path)
    base.zero_()
    for template in (state, {}):
        load(template, tmp_path)
        assert all(torch.equal(template[key], expected[key]) for key in expected)


def test_o37_a_tied_template_stays_tied(tmp_path):
    w = torch.randn(4)
    save({"emb": w, "head": w}, tmp_path)
    v = nn.Parameter(torch.zeros(4))
    template = {"emb": v, "head": v}
    load(template, tmp_path)
    assert template["emb"] is template["head"] is v
    assert torch.equal(v, w)
    fresh: dict = {}
    load(fresh, tmp_path)
    assert fresh["emb"] is fresh["head"]
    apart = {"emb": torch.zeros(4), "head": torch.zeros(4)}
    load(apart, tmp_path)
    assert torch.equal(apart["emb"], w)
    assert torch.equal(apart["head"], w)


@pytest.mark.parametrize("name", ["emb", "head"])
def test_o37_each_name_of_a_tied_tensor_loads_alone(tmp_path, name):
    w = torch.randn(4)
    save({"emb": w, "head": w}, tmp_path)
    template = {name: torch.zeros(4)}
    load(template, tmp_path)
    assert torch.equal(template[name], w)


def test_o37_a_tied_template_is_whole_where_one_name_was_saved(tmp_path):
    save({"emb": torch.ones(4)}, tmp_path)
    v = torch.zeros(4)
    load({"emb": v, "head": v}, tmp_path)
    assert torch.equal(v, torch.ones(4))


def test_o37_values_that_differ_cant_be_loaded_into_a_tied_template(tmp_path):
    save({"emb": torch.ones(4), "head": torch.ones(4)}, tmp_path / "equal")
    save({"emb": torch.ones(4), "head": torch.zeros(4)}, tmp_path / "different")
    v = torch.zeros(4)
    template = {"emb": v, "head": v}
    load(template, tmp_path / "equal")
    assert template["emb"] is template["head"] is v
    assert torch.equal(v, torch.ones(4))
    with pytest.raises(ReplicaMismatch) as caught:
        load(template, tmp_path / "different")
    assert caught.value.keys == ("emb", "head")


def test_o37_expanded_and_conjugate_templates_take_their_values(tmp_path):
    row = torch.randn(4, dtype=torch.complex64)
    save({"e": row.expand(3, 4), "c": row.conj(), "s": row[::2]}, tmp_path)
    template = {
        "e": torch.zeros(4, dtype=torch.complex64).expand(3, 4),
        "c": torch.zeros(4, dtype=torch.complex64).conj(),
        "s": torch.zeros(4, dtype=torch.complex64)[::2],
    }
    load(template, tmp_path)
    assert template["c"].is_conj()
    assert template["e"].stride() == (0, 1)
    assert same(template["e"].clone(), row.expand(3, 4).clone())
    assert same(template["c"].resolve_conj(), row.conj().resolve_conj())
    assert same(template["s"].clone(), row[::2].clone())


def test_o37_an_expanded_template_refuses_values_that_differ(tmp_path):
    save({"e": torch.arange(6.0).view(2, 3)}, tmp_path)
    with pytest.raises(ReplicaMismatch) as caught:
        load({"e": torch.zeros(3).expand(2, 3)}, tmp_path)
    assert caught.value.key == "e"


def test_a_meta_template_is_made_real(tmp_path):
    save({"w": torch.ones(3)}, tmp_path)
    template = {"w": torch.empty(3, device="meta")}
    load(template, tmp_path)
    assert same(template["w"], torch.ones(3))


# -- optimizers ----------------------------------------------------------------------------------------------


class TwoHeads(nn.Module):
    def __init__(self):
        super().__init__()
        self.used, self.idle = nn.Linear(2, 2), nn.Linear(2, 2)


def trained(*, all_used, optimizer=torch.optim.Adam):
    model = TwoHeads()
    adam = optimizer(model.parameters(), lr=0.25)
    x = model.used(torch.ones(2))
    (model.idle(x) if all_used else x).sum().backward()
    adam.step()
    return model, adam


def state_of(model, adam):
    return {"model": model, "optimizer": adam}


def test_o53_a_parameter_that_was_never_stepped_is_a_gap_to_be_reported(tmp_path):
    model, adam = trained(all_used=False)
    save(state_of(model, adam), tmp_path)
    model2, adam2 = trained(all_used=True)
    with pytest.warns(UserWarning, match="never been stepped") as warned:
        report = load(state_of(model2, adam2), tmp_path)
    assert any("optimizer.state.2.exp_avg" in str(each.message) for each in warned)
    slots = ("exp_avg", "exp_avg_sq", "step")
    assert report.gaps == tuple(f"optimizer.state.{number}.{slot}" for number in (2, 3) for slot in slots)
    assert same(adam2.state_dict()["state"][0], adam.state_dict()["state"][0])
    assert same(dict(model2.state_dict()), dict(model.state_dict()))


@pytest.mark.parametrize("used", [None, False])
def test_o53_a_fresh_or_partly_stepped_optimizer_takes_all_of_the_state(tmp_path, used):
    model, adam = trained(all_used=True)
    save(state_of(model, adam), tmp_path)
    model2 = TwoHeads()
    adam2 = torch.optim.Adam(model2.parameters(), lr=0.5)
    if used is not None:
        model2, adam2 = trained(all_used=used)
    report = load(state_of(model2, adam2), tmp_path)
    assert report.gaps == ()
    assert same(adam2.state_dict(), adam.state_dict())
    assert adam2.param_groups[0]["lr"] == 0.25
    adam2.step()


@pytest.mark.parametrize("template", ["used", "fresh"])
@pytest.mark.parametrize("strict", [True, False])
def test_o53_a_moment_without_its_twin_is_an_error(tmp_path, template, strict):
    model, adam = trained(all_used=True)
    state = {"model": model.state_dict(), "optimizer": adam.state_dict()}
    del state["optimizer"]["state"][1]["exp_avg_sq"]
    save(state, tmp_path)
    model2, adam2 = trained(all_used=True)
    if template == "fresh":
        adam2 = torch.optim.Adam(model2.parameters())
    before = copy.deepcopy(adam2.state_dict())
    with pytest.raises(KeyMismatch, match="in part") as caught:
        load(state_of(model2, adam2), tmp_path, strict=strict)
    assert "optimizer.state.1.exp_avg_sq" in caught.value.missing
    assert same(adam2.state_dict(), before)


def test_o53_flattened_optimizer_states_are_known_too(tmp_path):
    def flat(*names):
        state = {f"state.{name}.{slot}": torch.ones(1) for name in names for slot in ("exp_avg", "exp_avg_sq")}
        return {"optim": state | {f"param_groups.{name}.amsgrad": False for name in ("l.weight", "l.bias")}}

    save(flat("l.weight"), tmp_path / "gap")
    with pytest.warns(UserWarning, match="never been stepped"):
        report = load(flat("l.weight", "l.bias"), tmp_path / "gap")
    assert report.gaps == ("optim.state.l.bias.exp_avg", "optim.state.l.bias.exp_avg_sq")
    torn = flat("l.weight", "l.bias")
    del torn["optim"]["state.l.bias.exp_avg_sq"]
    save(torn, tmp_path / "torn")
    for template in (flat("l.weight", "l.bias"), {}):
        with pytest.raises(KeyMismatch, match="in part"):
            load(template, tmp_path / "torn")


def test_o53_an_optimizer_with_one_moment_is_whole(tmp_path):
    state = {"state": {0: {"exp_avg": torch.ones(1)}}, "param_groups": [{"lr": 0.1, "params": [0]}]}
    save({"lion": state}, tmp_path)
    again: dict = {}
    load(again, tmp_path)
    assert same(again, {"lion": state})


def test_o16_a_whole_optimizer_that_nobody_wants_is_unexpected(tmp_path):
    model, adam = trained(all_used=True)
    save(state_of(model, adam), tmp_path)
    with pytest.raises(KeyMismatch) as caught:
        load({"model": TwoHeads()}, tmp_path)
    assert "optimizer.state.0.exp_avg" in caught.value.unexpected


# -- several ranks, their plans made here --------------------------------------------------------------------


def per_rank(rank):
    return {"w": torch.ones(3), "rng": {rank: torch.full((2,), rank)}, f"seen.{rank}": rank}


def metadata_of(states):
    planners = [CheckpointSavePlanner() for _ in states]
    for planner, state in zip(planners, states, strict=True):
        planner.set_up_planner(state)
    return planners[0].create_global_plan([planner.create_local_plan() for planner in planners])[1]


def report_of(metadata, templates, **options):
    planners = [CheckpointLoadPlanner(template, **options) for template in templates]
    for planner in planners:
        planner.set_up_planner({}, metadata)
    plans = planners[0].create_global_plan([planner.create_local_plan() for planner in planners])
    return plans[0].planner_data


def test_o51_on_fewer_ranks_what_single_ranks_saved_is_listed_as_unread():
    metadata = metadata_of([per_rank(rank) for rank in range(4)])
    report = report_of(metadata, [per_rank(rank) for rank in range(2)])
    assert report.unread == ("rng.2", "rng.3", "seen.2", "seen.3")
    assert report.missing == report.unexpected == ()


def test_o51_on_more_ranks_what_was_not_saved_is_named():
    metadata = metadata_of([per_rank(rank) for rank in range(4)])
    with pytest.raises(KeyMismatch) as caught:
        report_of(metadata, [per_rank(rank) for rank in range(8)])
    assert caught.value.missing == sorted(f"{key}.{rank}" for key in ("rng", "seen") for rank in range(4, 8))
    assert caught.value.unexpected == []


def test_o16_what_one_rank_wants_is_not_unexpected_on_the_others():
    metadata = metadata_of([{"a": torch.ones(1), "b": torch.ones(1), "c": 1}] * 2)
    templates = [{"a": torch.zeros(1)}, {"b": torch.zeros(1)}]
    assert report_of(metadata, templates, strict=False).unexpected == ("c",)


# -- hostile metadata ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        {"tree": {"exec": []}},
        {"tree": {"dict": [["w", "tensor"], ["n", "tensor"]]}},
        {"aliases": {"w": "../x"}},
        {"aliases": {"w": "n", "n": "w"}},
        {"aliases": 7},
        {"single": [{}]},
    ],
    ids=str,
)
def test_o62_a_malformed_layout_is_refused(tmp_path, change):
    metadata = save({"w": torch.ones(1), "n": 1}, tmp_path)
    metadata.planner_data.structure |= change
    with pytest.raises(CorruptError):
        CheckpointLoadPlanner({}).set_up_planner({}, metadata)


def test_o62_a_layout_without_its_parts_is_refused(tmp_path):
    metadata = save({"w": torch.ones(1)}, tmp_path)
    for document in ({}, [], 7, {"tree": "tensor"}):
        metadata.planner_data.structure = document
        with pytest.raises(CorruptError):
            Layout.of(metadata)


def test_checkpoints_of_stock_planners_load(tmp_path):
    state = {"m": {0: {"w": torch.ones(2)}, "l": [torch.ones(1), {"x": torch.ones(3)}]}}
    with own_error():
        dcp.save(state, storage_writer=dcp.FileSystemWriter(tmp_path))
    template = filled(state, 0)
    load(template, tmp_path)
    assert same(template, state)
    whole: dict = {}
    load(whole, tmp_path)
    assert same(whole, {"m": {"0": {"w": torch.ones(2)}, "l": [torch.ones(1), {"x": torch.ones(3)}]}})
