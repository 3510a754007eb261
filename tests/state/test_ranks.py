"""`TrainState` on 2, 4 and 1 gloo ranks under FSDP2: optimizer state and the order of data are exact."""

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

from ckptstore.errors import StateError
from ckptstore.state import ShuffledBatches, TrainState
from tests.dcp.equality import same
from tests.dcp.ranks import assert_held, run_on_ranks
from tests.state.support import Order

pytestmark = pytest.mark.soak


class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return 40

    def __getitem__(self, index):
        return index, torch.randn(6)


class Job:
    """Of the first `size` ranks."""

    def __init__(self, ranks, size, seed, **parts):
        torch.manual_seed(seed)
        self.group = ranks.groups[size]
        self.model = nn.Sequential(nn.Linear(6, 7), nn.Dropout(0.5), nn.Linear(7, 3))
        for layer in (self.model[0], self.model[2], self.model):
            fully_shard(layer, mesh=ranks.meshes[size])
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.05)
        self.scheduler = torch.optim.lr_scheduler.StepLR(self.optimizer, 2)
        self.batches = ShuffledBatches(Numbers(), 8, process_group=self.group)
        self.state = TrainState(
            model=self.model,
            optimizer=self.optimizer,
            scheduler=self.scheduler,
            process_group=self.group,
            **{"loader": self.batches, **parts},
        )

    def train(self, steps):
        """The indices of each batch of the job."""
        seen = []
        while len(seen) < steps:
            for indices, x in self.batches:
                self.model(x).square().mean().backward()
                self.optimizer.step()
                self.optimizer.zero_grad()
                self.scheduler.step()
                self.state.step += 1
                parts = [None] * dist.get_world_size(self.group)
                dist.all_gather_object(parts, indices.tolist(), group=self.group)
                seen.append([index for part in parts for index in part])
                if len(seen) == steps:
                    break
        return seen

    def whole(self):
        return {key: value for key, value in _whole(self.state.state_dict()).items() if key not in {"about", "rng"}}


def _whole(value):
    if isinstance(value, dict):
        return {key: _whole(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_whole(item) for item in value]
    whole = value.full_tensor() if isinstance(value, DTensor) else value
    return whole.clone() if isinstance(whole, torch.Tensor) else whole


def from_rank_0(value):
    box = [value]
    dist.broadcast_object_list(box, src=0)
    return box[0]


def check_two_four_one(ranks):
    run, order, two = ranks.run("resize"), None, None
    if ranks.rank == 0:
        straight = ShuffledBatches(Numbers(), 8, process_group=ranks.groups[1])
        order = [indices.tolist() for _ in range(2) for indices, _ in straight]
    if ranks.rank < 2:
        job = Job(ranks, 2, seed=0)
        seen = job.train(3)
        two = job.whole()
        run.save(job.state, process_group=job.group)
        assert ranks.rank or seen == order[:3]
    order, two = from_rank_0((order, two))
    four = Job(ranks, 4, seed=1)
    report = run.load(four.state, process_group=four.group)
    assert report.uncarried == ("rng",)
    assert (four.state.step, four.state.saved_on) == (3, 2)
    assert all(isinstance(each["exp_avg"], DTensor) for each in four.optimizer.state.values())
    assert same(four.whole(), two)
    first = torch.get_rng_state()
    run.load(four.state, process_group=four.group)
    assert torch.equal(torch.get_rng_state(), first), "derived alike at every try"
    drawn = [None] * 4
    dist.all_gather_object(drawn, torch.rand(1).item())
    assert len(set(drawn)) == 4, "and for each rank another way"
    assert four.train(3) == order[3:6]
    run.save(four.state, process_group=four.group)
    after = four.whole()
    if ranks.rank == 0:
        one = Job(ranks, 1, seed=2)
        run.load(one.state, process_group=one.group)
        assert same(one.whole(), after)
        assert one.train(3) == order[6:9]


def check_the_same_ranks_go_on_bit_for_bit(ranks):
    run, job, fresh = ranks.run("same"), Job(ranks, 4, seed=0), Job(ranks, 4, seed=1)
    job.train(2)
    run.save(job.state)
    job.train(4)
    report = run.load(fresh.state)
    assert report == type(report)()
    fresh.train(4)
    assert same(fresh.whole(), job.whole())
    assert same(fresh.state.state_dict()["rng"], job.state.state_dict()["rng"])


def check_o51_a_rank_s_own_loader_cant_be_another_number_of_ranks_(ranks):
    run, own = ranks.run("own"), Order()
    if ranks.rank < 2:
        own.at = 3 + ranks.rank
        run.save(Job(ranks, 2, 0, loader=own).state, 1, process_group=ranks.groups[2])
        own.at = 0
        run.load(Job(ranks, 2, 1, loader=own).state, process_group=ranks.groups[2])
        assert own.at == 3 + ranks.rank
    dist.barrier()
    job = Job(ranks, 4, 1, loader=Order())
    with pytest.raises(StateError, match="positions of 2 ranks"):
        run.load(job.state)
    report = run.load(job.state, strict=False)
    assert set(report.uncarried) == {"loader", "rng"}
    assert job.state.loader.at == 0


CHECKS = [
    check_two_four_one,
    check_the_same_ranks_go_on_bit_for_bit,
    check_o51_a_rank_s_own_loader_cant_be_another_number_of_ranks_,
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return run_on_ranks(CHECKS, tmp_path_factory)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_o64_on_ranks(folder, check):
    assert_held(check, folder)
