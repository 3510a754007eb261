"""The training job on real ranks: 10 steps, a checkpoint and 10 more equal 20; the same state on 4 ranks."""

from types import SimpleNamespace

import pytest

from ckptstore.demo.backings import DirectoryBackings
from ckptstore.demo.commands import Commands
from ckptstore.demo.jobs import Job

pytestmark = pytest.mark.soak  # a minute of CPU; tests/state has the like on one rank


@pytest.fixture(scope="module")
def jobs(tmp_path_factory):
    """A run of 20 steps; one of 10 that saves; from there one to 20."""
    folder = tmp_path_factory.mktemp("resume")
    store = folder / "store.toml"
    ckpt = Commands(store, DirectoryBackings(folder / "targets", "abcdef"))
    ckpt.write_settings()
    assert ckpt("init").code == 0
    twenty = Job(folder, "twenty", 2, "--steps=20", "--digest-at", "10", "20")
    ten = Job(folder, "ten", 2, "--steps=10", f"--store={store}", "--save-every=10")
    assert [twenty.wait(), ten.wait()] == [0, 0], (twenty.log.read_text(), ten.log.read_text())
    more = Job(folder, "more", 2, "--steps=20", f"--store={store}", "--resume", "--digest-at", "20")
    assert more.wait() == 0, more.log.read_text()
    return SimpleNamespace(folder=folder, store=store, twenty=twenty, ten=ten, more=more)


@pytest.fixture(scope="module")
def four(jobs):
    """From step 10 to 12 on 4 ranks."""
    four = Job(jobs.folder, "four", 4, "--steps=12", f"--store={jobs.store}", "--resume")
    assert four.wait() == 0, four.log.read_text()
    return four


def test_o64_ten_steps_and_ten_more_equal_twenty(jobs):
    resumed = {**jobs.ten.steps(), **jobs.more.steps()}
    assert len(resumed) == 20
    assert resumed == jobs.twenty.steps()
    assert jobs.more.digests()[20] == jobs.twenty.digests()[20] != jobs.twenty.digests()[10]


def test_o64_four_ranks_load_the_state_that_two_saved(jobs, four):
    [loaded] = four.events("loaded")
    assert (loaded["step"], loaded["saved_on"]) == (10, 2)
    assert loaded["digest"] == jobs.twenty.digests()[10]


def test_four_ranks_read_the_samples_in_the_order_of_two(jobs, four):
    reference = jobs.twenty.steps()
    assert list(four.steps()) == [11, 12]
    for number, step in four.steps().items():
        assert step["samples"] == reference[number]["samples"]
        assert float.fromhex(step["loss"]) == pytest.approx(float.fromhex(reference[number]["loss"]), rel=0.05)
