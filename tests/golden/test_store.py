"""The store of format 1.0 that is committed beside this file loads, whatever has changed since."""

import shutil
from pathlib import Path

import pytest
import torch

import ckptstore
from ckptstore.errors import NotFoundError
from ckptstore.opened import release
from tests.dcp.equality import same
from tests.golden.store import RUN, config_at, state

GOLDEN = Path(__file__).parent / "store-1.0"


@pytest.fixture
def run(tmp_path):
    shutil.copytree(GOLDEN, tmp_path / "store")
    config = config_at(tmp_path / "store")
    yield ckptstore.open(config).run(RUN)
    release(config)


def test_it_holds_what_was_saved(run):
    assert [(c.step, c.name, c.state, c.tolerance.targets, c.tags) for c in run.checkpoints()] == [
        (1, "step-1", "good", 2, ()),
        (2, "step-2", "good", 2, ()),
        (4, "step-4", "good", 2, ("best",)),
    ]
    assert run.checkpoints()[0].user == {"note": "first"}
    with pytest.raises(NotFoundError, match="undelete"):
        run.load({}, step=3)


@pytest.mark.parametrize("step", [1, 2, 4])
@pytest.mark.parametrize("gone", ["", "a", "bd"])
def test_every_checkpoint_loads_with_up_to_two_targets_gone(run, tmp_path, step, gone):
    for name in gone:
        shutil.rmtree(tmp_path / "store" / name)
    loaded: dict = {}
    run.load(loaded, step=step)
    assert same(loaded, state(step))
    assert loaded["model"]["emb"].data_ptr() == loaded["model"]["head"].data_ptr()
    assert loaded["odd/../name"] == torch.tensor(step)


def test_verify_finds_nothing_wrong(run):
    report = run.verify(read_data=True)
    assert report.exit_code == 0
    assert report.counts.expected == report.counts.checked
