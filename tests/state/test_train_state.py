"""`TrainState` on one rank: all of a job comes back, bit for bit, or what doesn't is named."""

import copy
import random
import warnings

import numpy as np
import pytest
import torch
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.optim import lr_scheduler

import ckptstore
from ckptstore.dcp import CheckpointLoadPlanner, StoreReader, StoreWriter
from ckptstore.errors import CkptStoreError, KeyMismatch, StateError, UnsupportedValue, UsageError
from ckptstore.opened import release
from ckptstore.state import TrainState
from tests.dcp.equality import same
from tests.dcp.folder import own_error
from tests.support import make_store

pytestmark = pytest.mark.filterwarnings("ignore:torch.distributed is disabled")


@pytest.fixture
def run(tmp_path):
    config = make_store(tmp_path).config
    yield ckptstore.open(config).run("r")
    release(config)


class Order:
    """A loader of the simplest kind: a position."""

    def __init__(self):
        self.at = 0

    def state_dict(self):
        return {"at": self.at}

    def load_state_dict(self, state):
        self.at = state["at"]


class Job:
    """A model with dropout, AdamW, a scheduler, a scaler, a loader, and random numbers of every kind."""

    def __init__(self, seed, optimizer=torch.optim.AdamW, **parts):
        torch.manual_seed(seed)
        self.model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 1))
        self.optimizer = optimizer(self.model.parameters(), lr=0.05)
        self.scheduler = lr_scheduler.MultiStepLR(self.optimizer, [2, 4], gamma=0.5)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=8.0, growth_interval=2)
        self.loader = Order()
        self.state = TrainState(
            model=self.model,
            optimizer=self.optimizer,
            scheduler=self.scheduler,
            scaler=self.scaler,
            loader=self.loader,
            values={"best": 0.0},
            **parts,
        )

    def step(self):
        x = torch.randn(3, 4) + random.random() + np.random.rand()
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


def test_o64_three_steps_and_three_more_equal_six(run):
    job = Job(0)
    before = [job.step() for _ in range(3)]
    assert run.save(job.state).step == 3
    straight = [job.step() for _ in range(3)]
    fresh = Job(1)
    report = run.load(fresh.state)
    assert (report.missing, report.unexpected, report.gaps, report.uncarried) == ((), (), (), ())
    assert (fresh.state.step, fresh.loader.at, fresh.state.values["best"]) == (3, 3, before[-1])
    assert [fresh.step() for _ in range(3)] == straight
    assert same(everything(fresh), everything(job))
