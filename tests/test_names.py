"""Names of checkpoints: what can't be read in a list, or would mean another one where it is asked for, is refused."""

import pytest
import torch
import torch.distributed.checkpoint as dcp

import ckptstore
from ckptstore.dcp import StoreWriter
from ckptstore.errors import UsageError
from tests.support import make_store

UNREADABLE = ["", " ", "a\nb", "a\0", "\x1b[31m", "a\u2028b", "\u202egpj", "\ud800", "x" * 256]
MISLEADING = ["latest", "7", "0", "٣", "tag:best", "tag:", "000001.ab.000002", "a/b", "step-1/"]
FINE = ["best", "step-1", "é 日本", "latest-1", "7b", "x" * 255, "tag", "-1", "1.5"]
STATE = {"w": torch.ones(4)}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    store = make_store(tmp_path_factory.mktemp("store"), names="abc", code="2+1", memory=True)
    with ckptstore.open(store.config) as opened:
        yield opened.run("r")


@pytest.mark.parametrize("name", UNREADABLE + MISLEADING, ids=ascii)
def test_a_name_that_would_mislead_is_refused_and_nothing_is_begun(run, name):
    before = run.checkpoints()
    for save in (run.save, run.save_async, ckptstore.TolerantRun(run, tolerate_failures=1).save):
        with pytest.raises(UsageError, match="can't be the name of a checkpoint") as caught:
            save(STATE, name=name, step=3)
        assert caught.value.hint
    assert run.checkpoints() == before


@pytest.mark.parametrize("name", FINE, ids=ascii)
def test_what_is_saved_under_a_name_is_found_by_it(run, name):
    saved = run.save(STATE, name=name)
    assert saved.name == name
    assert [health.key for health in run.verify(name).checkpoints] == [saved.key]


@pytest.mark.parametrize("name", ["x/a\nb", "x" * 256, "a\x1b"], ids=ascii)
def test_dcp_names_are_readable_too(run, name):
    with pytest.raises(BaseException, match="can't be the name of a checkpoint"):
        dcp.save(STATE, storage_writer=StoreWriter(run.config, run="d"), checkpoint_id=name)


@pytest.mark.parametrize("name", ["ckpt/latest", "ckpt/1000"])
def test_dcp_names_its_folders_as_it_likes(run, name):
    dcp.save(STATE, storage_writer=StoreWriter(run.config, run="d"), checkpoint_id=name)
