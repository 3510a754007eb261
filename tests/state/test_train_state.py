"""`TrainState` on one rank: all of a job comes back, bit for bit, or what doesn't is named."""

import copy
import random

import numpy as np
import pytest
import torch
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.optim import lr_scheduler
from torch.utils.data import DataLoader

import ckptstore
from ckptstore.dcp import CheckpointLoadPlanner, StoreReader, StoreWriter
from ckptstore.errors import CorruptError, KeyMismatch, NotFoundError, StateError, UnsupportedValue, UsageError
from ckptstore.opened import release
from ckptstore.state import TrainState
from ckptstore.state.text import from_text, to_text
from tests.dcp import folder
from tests.dcp.equality import same
from tests.state.support import Order
from tests.support import make_store

pytestmark = pytest.mark.filterwarnings("ignore:torch.distributed is disabled")


@pytest.fixture
def run(tmp_path):
    config = make_store(tmp_path).config
    yield ckptstore.open(config).run("r")
    release(config)


class Folder:
    """As a run, without a store's own work."""

    def __init__(self, path):
        self.path = path

    def save(self, state, step):
        folder.save(state if isinstance(state, dict) else state.state_at(step), self.path)

    def load(self, state, **options):
        return folder.load(state, self.path, **options)


@pytest.fixture
def plain(tmp_path):
    return Folder(tmp_path)


class Job:
    """A model with dropout, AdamW, a scheduler, a scaler, a loader, and random numbers of every kind."""

    def __init__(self, seed, optimizer=torch.optim.AdamW, **parts):
        torch.manual_seed(seed)
        self.model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 1))
        self.optimizer = optimizer(self.model.parameters(), lr=0.05)
        self.scheduler = lr_scheduler.MultiStepLR(self.optimizer, [2, 4], gamma=0.5)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=8.0, growth_interval=2)
        self.loader = Order()
        self.given = {
            "model": self.model,
            "optimizer": self.optimizer,
            "scheduler": self.scheduler,
            "scaler": self.scaler,
            "loader": self.loader,
            "values": {"best": 0.0},
            **parts,
        }
        self.state = TrainState(**self.given)

    def without(self, part):
        return TrainState(**{**self.given, part: False if part == "rng" else None})

    def step(self):
        x = torch.randn(3, 4) + random.random() + np.random.standard_normal()  # noqa: NPY002
        loss = self.model(x).square().mean()
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad()
        self.scheduler.step()
        self.loader.at += 1
        self.state.step += 1
        self.state.values["best"] = loss.item()
        return loss.item()


def everything(job):
    return copy.deepcopy(job.state.state_dict())


@pytest.mark.parametrize("background", [False, True])
def test_o64_three_steps_and_three_more_equal_six(run, background):
    job = Job(0)
    before = [job.step() for _ in range(3)]
    at_three = everything(job)
    if background:
        saving = run.save_async(job.state)
        straight = [job.step() for _ in range(3)]
        assert saving.result().step == 3
    else:
        assert run.save(job.state).step == 3
        assert same(everything(job), at_three), "a save draws no random number"
        straight = [job.step() for _ in range(3)]
    fresh = Job(1)
    report = run.load(fresh.state)
    assert report == type(report)()
    assert (fresh.state.step, fresh.loader.at, fresh.state.values["best"]) == (3, 3, before[-1])
    assert same(everything(fresh), at_three)
    assert [fresh.step() for _ in range(3)] == straight
    assert same(everything(fresh), everything(job))


def test_a_step_may_be_given_with_the_save_and_is_the_state_s_from_then_on(run):
    job = Job(0)
    assert run.save(job.state, 7).name == "step-7"
    assert job.state.step == 7
    tolerant = ckptstore.TolerantRun(run, tolerate_failures=1)
    assert tolerant.save(job.state, 8).step == 8
    assert tolerant.save_async(job.state).result().step == 8
    with pytest.raises(UsageError, match="step = -1"):
        run.save(job.state, -1)


def test_o53_a_save_before_the_first_step_steps_nothing(plain):
    job, straight = Job(0), Job(0)
    plain.save(job.state, 0)
    assert not job.optimizer.state
    losses = [straight.step() for _ in range(2)]
    stepped = Job(1)
    stepped.step()
    with pytest.warns(UserWarning, match="never been stepped"):
        plain.load(stepped.state)
    assert not stepped.optimizer.state
    assert [stepped.step() for _ in range(2)] == losses


class TwoHeads(nn.Module):
    def __init__(self):
        super().__init__()
        self.used, self.idle = nn.Linear(2, 2), nn.Linear(2, 2)


def heads(*, stepped=(), optimizer=torch.optim.Adam):
    torch.manual_seed(3)
    model = TwoHeads()
    adam = optimizer(model.parameters(), lr=0.25)
    if stepped:
        sum(getattr(model, name)(torch.ones(2)).sum() for name in stepped).backward()
        adam.step()
        adam.zero_grad()
    return model, adam


def test_o53_a_parameter_that_was_never_stepped_is_reported_and_has_not_been_afterwards(plain):
    model, adam = heads(stepped=["used"])
    plain.save(TrainState(model=model, optimizer=adam), 1)
    for stepped in ([], ["used", "idle"]):
        model2, adam2 = heads(stepped=stepped)
        with pytest.warns(UserWarning, match=r"never been stepped.*idle\.weight"):
            report = plain.load(TrainState(model=model2, optimizer=adam2))
        assert {name.rpartition(".")[0] for name in report.gaps} == {
            f"optimizer.state.idle.{w}" for w in ("weight", "bias")
        }
        assert same(adam2.state_dict(), adam.state_dict())


@pytest.mark.parametrize("strict", [True, False])
def test_o53_a_moment_without_its_twin_is_an_error_and_nothing_is_touched(plain, strict):
    job = Job(0)
    job.step()
    state = job.state.state_dict()
    del state["optimizer"]["state"]["0.weight"]["exp_avg_sq"]
    plain.save(state, 1)
    fresh = Job(1)
    before = everything(fresh)
    with pytest.raises(KeyMismatch, match="in part") as caught:
        plain.load(fresh.state, strict=strict)
    assert "optimizer.state.0.weight.exp_avg_sq" in caught.value.missing
    assert same(everything(fresh), before)


PARTS = ["model", "optimizer", "scheduler", "scaler", "loader", "rng", "ema"]


@pytest.mark.parametrize("part", PARTS)
def test_o64_a_part_that_was_not_saved_is_an_error_naming_it_or_keeps_its_value(plain, part):
    job = Job(0, ema=nn.Linear(1, 1))
    job.step()
    state = job.state.state_dict()
    del (state["parts"] if part == "ema" else state)[part]
    plain.save(state, 1)
    fresh = Job(1, ema=nn.Linear(1, 1))
    before = everything(fresh)
    with pytest.raises(KeyMismatch) as caught:
        plain.load(fresh.state)
    assert any(part in name for name in caught.value.missing)
    assert same(everything(fresh), before)
    report = plain.load(fresh.state, strict=False)
    assert any(part in name for name in report.missing)
    after = everything(fresh)
    where = "parts" if part == "ema" else part
    assert same(after.pop(where), before[where])
    apart = {where, "about"}  # which counts the optimizer's state
    assert same(*({key: value for key, value in each.items() if key not in apart} for each in (after, everything(job))))


@pytest.mark.parametrize("part", ["scheduler", "scaler", "loader", "rng"])
def test_o64_a_part_that_was_saved_and_is_not_here_is_an_error_naming_it(plain, part):
    job = Job(0)
    plain.save(job.state, 1)
    with pytest.raises(KeyMismatch) as caught:
        plain.load(job.without(part))
    assert [name.partition(".")[0] for name in caught.value.unexpected] == [part]


def test_a_state_that_was_collected_by_hand_is_taken_as_far_as_it_goes(plain):
    job = Job(0)
    job.step()
    state = job.state.state_dict()
    plain.save({"model": state["model"], "optimizer": state["optimizer"], "loader": {"rank1": "x", "rank2": "y"}}, 1)
    fresh = Job(1)
    with pytest.warns(UserWarning, match="loader: the positions of 2 ranks can't be those of 1"):
        report = plain.load(fresh.state, strict=False)
    assert {"scheduler", "rng", "step", "values"} <= set(report.missing)
    assert "loader" in fresh.state.uncarried
    assert fresh.state.saved_on is None
    assert same(fresh.optimizer.state_dict(), job.optimizer.state_dict())


def test_o16_optimizer_state_of_parameters_that_are_not_here_is_named_before_anything_is_read(plain):
    job = Job(0)
    job.step()
    plain.save(job.state, 1)
    model = nn.Linear(4, 8)
    weight = model.weight.clone()
    with pytest.raises(KeyMismatch) as caught:
        plain.load(TrainState(model=model, optimizer=torch.optim.AdamW(model.parameters()), scheduler=job.scheduler))
    assert "0.weight" in caught.value.unexpected
    assert torch.equal(model.weight, weight)


def test_o64_other_parameter_groups_are_an_error(plain):
    model, _ = heads()
    adam = torch.optim.Adam([{"params": model.used.parameters()}, {"params": model.idle.parameters(), "lr": 1.0}])
    plain.save(TrainState(model=model, optimizer=adam), 1)
    with pytest.raises(KeyMismatch, match="other parameters"):
        plain.load(TrainState(model=model, optimizer=torch.optim.Adam(model.used.parameters())))
    with pytest.raises(KeyMismatch, match="grouped otherwise"):
        plain.load(TrainState(model=model, optimizer=torch.optim.Adam(model.parameters())))


def test_o64_cuda_states_of_another_number_of_devices_are_reported(run):
    job = Job(0)
    state = job.state.state_dict()
    states = from_text(state["rng"]["rank0"], "rng")
    state["rng"]["rank0"] = to_text(
        {**states, "cuda": [torch.get_rng_state()] * (torch.cuda.device_count() + 1)}, "rng"
    )
    run.save(state, 1)
    torch.manual_seed(9)
    with pytest.warns(UserWarning, match=r"rng\.cuda: saved on 1 CUDA devices"):
        report = run.load(job.state)
    assert report.uncarried == tuple(job.state.uncarried) == ("rng.cuda",)
    assert torch.equal(torch.get_rng_state(), states["torch"])


def test_a_part_that_cant_take_what_was_saved_is_named(plain):
    job = Job(0)
    state = job.state.state_dict()
    plain.save({**state, "loader": {"rank0": to_text({"other": 1}, "loader")}}, 1)
    with pytest.raises(StateError, match="loader could not take") as caught:
        plain.load(job.state)
    assert caught.value.key == "loader"
    plain.save({**state, "rng": {"rank0": "{]"}}, 2)
    with pytest.raises(CorruptError, match=r"rng\.rank0"):
        plain.load(job.state)


def test_what_cant_be_stored_is_named_before_anything_is_written(run):
    state = TrainState(values={"deep": {"f": print}})
    with pytest.raises(UnsupportedValue, match=r"values.*deep.*f"):
        run.save(state, 1)
    with pytest.raises(NotFoundError):
        run.latest()


MODEL = nn.Linear(1, 1)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"model": 7}, "torch.nn.Module is wanted"),
        ({"optimizer": torch.optim.SGD(MODEL.parameters())}, "without a model"),
        ({"model": MODEL, "optimizer": "adam"}, "optimizer is a str"),
        ({"scheduler": 7}, "scheduler is a int without state_dict"),
        ({"best": 0.5}, "best is a float without state_dict"),
        ({"ema": None}, "ema is a NoneType without state_dict"),
        ({"step": 1.0}, "step = 1.0"),
        ({"loader": DataLoader([1])}, "without state_dict"),
    ],
)
def test_what_is_no_part_of_a_job_is_told_at_once(given, words):
    with pytest.raises(UsageError, match=words):
        TrainState(**given)


class StatefulLoader(DataLoader):
    state_dict = load_state_dict = print


def test_o64_a_loader_that_draws_from_the_global_generator_is_refused():
    with pytest.raises(UsageError, match="global generator"):
        TrainState(loader=StatefulLoader([1]))
    TrainState(loader=StatefulLoader([1]), rng=False)
    TrainState(loader=StatefulLoader([1], generator=torch.Generator()))


# -- torch.distributed.checkpoint --------------------------------------------------------------------------


def test_dcp_saves_and_loads_it_with_stock_planners(run):
    job, other = Job(0), Job(1)
    job.step()
    dcp.save({"train": job.state}, storage_writer=StoreWriter(run.config, run="r"), checkpoint_id="step-1")
    reader = StoreReader(run.config, run="r")
    fresh = Job(2)
    with pytest.raises(KeyMismatch, match="optimizer") as caught:  # a stock planner knows no empty dicts
        dcp.load({"train": fresh.state}, storage_reader=reader)
    assert caught.value.missing == ["optimizer.state"]
    other.step()
    dcp.load({"train": other.state}, storage_reader=reader)
    assert same(everything(other), everything(job))


def test_dcp_loads_it_into_a_fresh_job_with_our_planner(run):
    job, fresh = Job(0), Job(1)
    job.step()
    dcp.save({"train": job.state}, storage_writer=StoreWriter(run.config, run="r"), checkpoint_id="step-1")
    dcp.load({}, storage_reader=StoreReader(run.config, run="r"), planner=CheckpointLoadPlanner({"train": fresh.state}))
    assert same(everything(fresh), everything(job))
