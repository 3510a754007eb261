"""Our planners, and torch's, on a real store of six directories."""

from collections import OrderedDict

import numpy as np
import pytest
import torch
import torch.distributed.checkpoint as dcp

from ckptstore.config import Config
from ckptstore.dcp.load_planner import CheckpointLoadPlanner
from ckptstore.dcp.reader import StoreReader
from ckptstore.dcp.save_planner import CheckpointSavePlanner
from ckptstore.dcp.writer import StoreWriter
from ckptstore.errors import KeyCollision, UnsupportedValue
from ckptstore.opened import shared
from ckptstore.operations.setup import init
from tests.dcp.equality import same
from tests.dcp.folder import own_error
from tests.dcp.test_structure import ODD_KEYS


@pytest.fixture
def store(tmp_path):
    targets = "".join(f'[[targets]]\nname = "{name}"\nurl = "{tmp_path / name}"\n' for name in "abcdef")
    (tmp_path / "store.toml").write_text(f'name = "s"\ncode = "4+2"\nfragment_size = "64KiB"\n{targets}')
    config = Config.load(tmp_path / "store.toml")
    init(shared(config))
    yield config
    shared(config).close()


def save(store, state, name, planner=None):
    with own_error():
        dcp.save(
            state, storage_writer=StoreWriter(store), checkpoint_id=name, planner=planner or CheckpointSavePlanner()
        )


def load(store, state, name=None, **options):
    planner = CheckpointLoadPlanner(state, **options)
    with own_error():
        dcp.load({}, storage_reader=StoreReader(store), checkpoint_id=name, planner=planner)
    return planner.report


def everything():
    w = torch.randn(4, 4)
    return {
        **{key: {key: torch.full((2,), number), "n": number} for number, key in enumerate(ODD_KEYS)},
        "h": [{"a": 1}, {"b": 2}],
        "t": (1, torch.ones(2)),
        7: OrderedDict(z=torch.tensor(2.0), a={None: {3}}),
        "tied": {"emb": w, "head": w},
        "empty": {"d": {}, "l": [], "t": torch.zeros(0, 5)},
        "array": np.arange(20_000.0),
        "views": {"t": torch.randn(3, 4).t(), "e": torch.randn(4).expand(3, 4)},
    }


def test_o34_o35_o37_a_state_comes_back_from_a_store_with_and_without_a_template(store):
    state = everything()
    save(store, state, "step-1")
    again: dict = {}
    load(store, again)
    assert same(again, state)
    assert again["tied"]["emb"] is again["tied"]["head"]
    template = everything()
    template["tied"]["emb"].zero_()
    report = load(store, template, "step-1")
    assert same(template, state)
    assert template["tied"]["emb"] is template["tied"]["head"]
    assert report.missing == report.unexpected == ()


def test_o35_o74_a_refused_save_writes_nothing_and_leaves_the_old_one(store, tmp_path):
    good = {"a": torch.ones(2)}
    save(store, good, "step-1")
    before = objects(tmp_path)
    for state, error in [
        ({1: torch.ones(1), "1": torch.ones(1)}, KeyCollision),
        ({"a.b": torch.ones(1), "a": {"b": torch.ones(1)}}, KeyCollision),
        ({"a": torch.ones(1), "last": torch.empty(1, device="meta")}, UnsupportedValue),
    ]:
        with pytest.raises(error):
            save(store, state, "step-2")
    assert objects(tmp_path) == before
    again: dict = {}
    load(store, again)
    assert same(again, good)


def objects(folder):
    return sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())


def test_o35_keys_never_form_object_names(store, tmp_path):
    save(store, {"kkkk": torch.ones(1), "../kkkk": 1, "a/kkkk": torch.ones(1)}, "step-1")
    assert not [path for path in objects(tmp_path) if "kkkk" in str(path)]


@pytest.mark.parametrize("name", ["emb", "head"])
def test_o37_stock_planners_read_tied_tensors_under_either_name(store, name):
    w = torch.randn(4, 4)
    save(store, {"m": {"emb": w, "head": w}, "epoch": 7, "lr": (0.1, {2})}, "step-1")
    template = {"m": {name: torch.zeros(4, 4)}, "epoch": 0, "lr": None}
    with own_error():
        dcp.load(template, storage_reader=StoreReader(store))
    assert same(template, {"m": {name: w}, "epoch": 7, "lr": (0.1, {2})})


def test_our_planner_reads_what_stock_planners_saved(store):
    state = {"m": {"w": torch.ones(2), "l": [1, {"x": np.float64(2)}]}, "rng": np.random.get_state()}  # noqa: NPY002
    save(store, state, "step-1", dcp.DefaultSavePlanner())
    again: dict = {}
    load(store, again)
    assert same(again, state)


def test_o01_a_cast_that_was_asked_for_reaches_the_reader(store):
    save(store, {"w": torch.tensor([300.0, -5.0])}, "step-1")
    template = {"w": torch.zeros(2, dtype=torch.int64)}
    with pytest.warns(UserWarning, match="'w' is cast"):
        load(store, template, allow_cast=True)
    assert same(template["w"], torch.tensor([300, -5]))


def test_o52_plans_of_another_structure_are_never_taken_for_this_one(store):
    planner = CheckpointSavePlanner()
    states = [
        {"a": torch.ones(3)},
        {"a": torch.ones(3), "b": torch.ones(1)},
        {"a": torch.ones(5)},
        {"a": torch.ones(3)},
    ]
    for number, state in enumerate(states):
        save(store, state, f"step-{number}", planner)
    for number, state in enumerate(states):
        again: dict = {}
        load(store, again, f"step-{number}")
        assert same(again, state)
