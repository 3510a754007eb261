"""Every optimizer and every scheduler of torch, and what else may change unnoticed, goes on bit for bit."""

import pytest
import torch
from torch import nn
from torch.optim import lr_scheduler

from ckptstore.state import TrainState
from tests.dcp.equality import same
from tests.dcp.folder import load, save

pytestmark = pytest.mark.filterwarnings(
    "ignore:torch.distributed is disabled", "ignore:The epoch parameter", "ignore:.*`lr_scheduler.step"
)


def model(seed):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5), nn.Linear(4, 2))


def train(net, optimizer, schedulers=(), steps=2):
    for _ in range(steps):

        def closure():
            optimizer.zero_grad()
            loss = net(torch.ones(2, 3)).square().sum()
            loss.backward()
            return loss

        optimizer.step(closure)
        for scheduler in schedulers:
            scheduler.step(*[1.0] * isinstance(scheduler, lr_scheduler.ReduceLROnPlateau))


OPTIMIZERS = {
    "Adadelta": {},
    "Adafactor": {},
    "Adagrad": {},
    "Adam": {"amsgrad": True},
    "AdamW": {"lr": torch.tensor(0.1), "foreach": False},
    "Adamax": {},
    "ASGD": {},
    "LBFGS": {"history_size": 2, "max_iter": 3},
    "NAdam": {},
    "RAdam": {},
    "RMSprop": {"momentum": 0.5},
    "Rprop": {},
    "SGD": {"lr": 0.1, "momentum": 0.9},
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_o64_every_optimizer_goes_on_bit_for_bit(tmp_path, name):
    def job(seed):
        net = model(seed)
        optimizer = getattr(torch.optim, name)(net.parameters(), **OPTIMIZERS[name])
        return net, optimizer, TrainState(model=net, optimizer=optimizer)

    net, optimizer, state = job(0)
    train(net, optimizer)
    save(state.state_dict(), tmp_path)
    train(net, optimizer)
    net2, optimizer2, state2 = job(1)
    report = load(state2, tmp_path)
    assert report == type(report)()
    train(net2, optimizer2)
    assert same(dict(net2.state_dict()), dict(net.state_dict()))
    assert same(optimizer2.state_dict(), optimizer.state_dict())


SCHEDULERS = {
    "ConstantLR": {},
    "CosineAnnealingLR": {"T_max": 3},
    "CosineAnnealingWarmRestarts": {"T_0": 2},
    "CyclicLR": {"base_lr": 0.1, "max_lr": 0.5, "step_size_up": 2},
    "ExponentialLR": {"gamma": 0.5},
    "LambdaLR": {"lr_lambda": lambda step: 1 / (1 + step)},
    "LinearLR": {},
    "MultiStepLR": {"milestones": [1, 3, 3]},
    "MultiplicativeLR": {"lr_lambda": lambda step: 0.5},
    "OneCycleLR": {"max_lr": 0.5, "total_steps": 9},
    "PolynomialLR": {},
    "ReduceLROnPlateau": {"patience": 1},
    "StepLR": {"step_size": 2},
}


def build(name, optimizer):
    make = {
        "SequentialLR": lambda: lr_scheduler.SequentialLR(
            optimizer, [build("LinearLR", optimizer), build("MultiStepLR", optimizer)], [1]
        ),
        "ChainedScheduler": lambda: lr_scheduler.ChainedScheduler(
            [build("LinearLR", optimizer), build("StepLR", optimizer)]
        ),
    }
    return make[name]() if name in make else getattr(lr_scheduler, name)(optimizer, **SCHEDULERS[name])


@pytest.mark.parametrize("name", [*SCHEDULERS, "SequentialLR", "ChainedScheduler"])
def test_o64_every_scheduler_goes_on(tmp_path, name):
    def job(seed):
        net = model(seed)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.5)
        scheduler = build(name, optimizer)
        return net, optimizer, scheduler, TrainState(model=net, optimizer=optimizer, scheduler=scheduler)

    net, optimizer, scheduler, state = job(0)
    train(net, optimizer, [scheduler])
    save(state.state_dict(), tmp_path)
    net2, optimizer2, scheduler2, state2 = job(1)
    load(state2, tmp_path)
    for _ in range(4):
        train(net, optimizer, [scheduler], steps=1)
        train(net2, optimizer2, [scheduler2], steps=1)
        assert optimizer2.param_groups[0]["lr"] == optimizer.param_groups[0]["lr"]
    assert same(state2.state_dict()["scheduler"], state.state_dict()["scheduler"])


def test_several_optimizers_and_schedulers_are_carried(tmp_path):
    def job(seed):
        net = model(seed)
        optimizers = [torch.optim.Adam(net[0].parameters()), torch.optim.SGD(net[2].parameters(), momentum=0.5)]
        schedulers = [lr_scheduler.StepLR(each, 1) for each in optimizers]
        return net, optimizers, TrainState(model=net, optimizer=optimizers, scheduler=schedulers)

    net, optimizers, state = job(0)
    net(torch.ones(1, 3)).sum().backward()
    for each in (*optimizers, *state.schedulers):
        each.step()
    save(state.state_dict(), tmp_path)
    _, optimizers2, state2 = job(1)
    load(state2, tmp_path)
    assert same([each.state_dict() for each in optimizers2], [each.state_dict() for each in optimizers])
    assert same(dict(state2.model.state_dict()), dict(net.state_dict()))


def test_moments_of_another_dtype_than_their_parameters_and_of_frozen_ones_are_carried(tmp_path):
    """Torch's own `load_state_dict` casts the one, its helpers drop the other."""
    net, net2 = model(0).bfloat16(), model(1).bfloat16()
    adam = torch.optim.Adam(net.parameters())
    for param in net.parameters():
        adam.state[param] = {
            "step": torch.tensor(3.0),
            **{slot: torch.rand(param.shape) for slot in ("exp_avg", "exp_avg_sq")},
        }
    for each in (net, net2):
        each[0].requires_grad_(requires_grad=False)
    save(TrainState(model=net, optimizer=adam).state_dict(), tmp_path)
    adam2 = torch.optim.Adam(net2.parameters())
    load(TrainState(model=net2, optimizer=adam2), tmp_path)
    for param, other in zip(net.parameters(), net2.parameters(), strict=True):
        assert same(adam2.state[other], adam.state[param])


def test_o37_tied_weights_stay_tied(tmp_path):
    def job():
        net = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
        net[1].weight = net[0].weight
        return net, torch.optim.Adam(net.parameters())

    net, adam = job()
    train(net, adam, steps=1)
    save(TrainState(model=net, optimizer=adam).state_dict(), tmp_path)
    net2, adam2 = job()
    load(TrainState(model=net2, optimizer=adam2), tmp_path)
    assert net2[1].weight is net2[0].weight
    assert same(dict(net2.state_dict()), dict(net.state_dict()))
    assert same(adam2.state_dict(), adam.state_dict())
