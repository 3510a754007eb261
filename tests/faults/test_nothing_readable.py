"""Data of which nothing can be loaded is an error, and never a run that has no checkpoints yet (case O07)."""

import shutil

import pytest

import ckptstore
from ckptstore.errors import CorruptError, NotFoundError
from ckptstore.opened import release
from ckptstore.selection import Selector
from tests.cli.support import Ckpt, write_tensors
from tests.faults.crash.killing import Killed, Killer
from tests.faults.crash.sweeps import save
from tests.faults.crash.world import memory_world
from tests.operations.test_prune_races import on_first
from tests.support import RUN, make_store, reopen

EVERYTHING = [Selector(), Selector(step=1), Selector(step=99), Selector(name="step-2"), Selector(tag="best")]


@pytest.fixture
def ckpt(tmp_path) -> Ckpt:
    """The command, on a store of one checkpoint in run `default`."""
    ckpt = Ckpt(tmp_path, "abc", "2+1")
    write_tensors(tmp_path / "in.safetensors")
    assert ckpt("init").code == 0
    assert ckpt("save", tmp_path / "in.safetensors", "--step", 7).code == 0
    return ckpt


@pytest.mark.parametrize("selector", EVERYTHING, ids=str)
def test_o07_a_load_where_no_manifest_is_readable_does_not_say_that_there_is_none(selector, tmp_path):
    store = make_store(tmp_path, "abc", "2+1")
    save(store, 1, 2)
    for path in tmp_path.glob("*/runs/*/commit/*/manifests/*/*"):
        path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(CorruptError, match="can't be told"):
        store.load(selector)


def test_o07_who_resumes_by_the_latest_is_not_told_that_there_is_none(tmp_path):
    store = make_store(tmp_path, "abc", "2+1")
    save(store, 1, 2)
    run = ckptstore.open(store.config).run(RUN)
    assert run.latest().step == 2
    for path in tmp_path.glob("*/runs/*/commit/*/manifests/*/*"):
        path.write_bytes(path.read_bytes()[:-9])
    for ask in (run.latest, run.checkpoints, lambda: run.load({})):
        with pytest.raises(CorruptError, match="can't be told"):
            ask()
    for name in "abc":
        shutil.rmtree(tmp_path / name / "runs" / RUN / "commit")
    for ask in (run.latest, run.checkpoints, lambda: run.load({})):
        with pytest.raises(CorruptError, match="every record of its saves is gone"):
            ask()
    release(store.config)


def test_o07_ls_where_no_manifest_is_readable_fails(ckpt):
    for path in ckpt.folder.glob("*/runs/*/commit/*/manifests/*/*"):
        path.write_bytes(b"")
    answer = ckpt("ls", "--json")
    assert (answer.code, answer.summary["checkpoints"]) == (4, [])
    assert "no checkpoints yet" not in answer.err
    assert "none of the run's checkpoints is readable" in answer.err
    assert ckpt("restore", ckpt.folder / "out", "--step", 7).code == 4
    assert ckpt("verify").code == 4


def test_o07_data_whose_commit_records_are_gone_is_no_fresh_start(ckpt):
    for target in "abc":
        shutil.rmtree(ckpt.folder / target / "runs" / "default" / "commit")
    restore = ["restore", ckpt.folder / "out"]
    rest = (["show"], ["verify"], ["repair"], ["prune", "--sweep"], ["prune", "--keep-last", 1, "--dry-run"])
    save = ["save", ckpt.folder / "in.safetensors", "--step", 8]
    for command in (["ls"], save, restore, [*restore, "--step", 7], *rest):
        answer = ckpt(*command, "--json")
        assert (answer.code, answer.summary["kind"]) == (4, "CorruptError")
        assert "every record of its saves is gone" in answer.err


def test_o07_a_run_whose_first_save_died_says_so():
    world = memory_world()
    with pytest.raises(Killed):
        save(world.open(Killer(125)), 1)
    with pytest.raises(NotFoundError, match="1 begun and not committed"):
        world.open().load()


@pytest.mark.parametrize("verb", ["list", "list_folders"])
def test_o07_a_first_save_beside_another_first_save_is_no_run_that_lost_its_votes(verb, tmp_path):
    store = make_store(tmp_path, "abc", "2+1")
    beside = reopen(store.root, store.config)
    on_first(store, verb, f"runs/{RUN}/", lambda: save(beside, 1))
    save(store, 2)
    assert [checkpoint.manifest.step for checkpoint in store.opened.group.history(RUN).checkpoints] == [1, 2]
