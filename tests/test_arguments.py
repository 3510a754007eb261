"""What the Python API is given: a slip is refused in words that name the argument, and nothing is done."""

import msgspec
import numpy as np
import pytest
import torch

import ckptstore
from ckptstore.config import Config, TargetConfig
from ckptstore.dcp import StoreReader, StoreWriter
from ckptstore.errors import ConfigError, UsageError
from ckptstore.opened import shared
from ckptstore.retention import Retention
from tests.support import RUN, make_store, random_bytes

TARGETS = [TargetConfig(name="a", url="/a"), TargetConfig(name="b", url="/b")]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run with steps 1 and 2, which nothing here changes."""
    store = make_store(tmp_path_factory.mktemp("store"), names="abc", code="2+1", memory=True)
    for step in (1, 2):
        store.save({"x": random_bytes(1000, step)}, step=step)
    with ckptstore.open(store.config) as opened:
        yield opened.run(RUN)


def refused(ask, *words):
    """The call is refused as a slip of the caller, in these words."""
    with pytest.raises(UsageError) as caught:
        ask()
    assert all(word in str(caught.value) for word in words), str(caught.value)
    return caught.value


def test_nothing_is_marked_that_nobody_named(run):
    before = run.checkpoints()
    for what in ("delete", "undelete"):
        assert "run.latest()" in refused(lambda what=what: getattr(run, what)(None), "which checkpoint?").hint
    refused(lambda: run.tag(None, "best"), "which checkpoint?")
    assert run.checkpoints() == before
    assert len(run.verify().checkpoints) == 2
    assert len(run.repair(None, dry_run=True).checkpoints) == 2


@pytest.mark.parametrize("step", [True, False, np.True_, torch.tensor([1, 2]), torch.tensor(1.0), ""], ids=repr)
def test_what_is_no_step_and_no_name_names_no_checkpoint(run, step):
    asks = [
        lambda: run.load({}, step=step),
        lambda: run.delete(step),
        lambda: run.verify(step),
        lambda: run.repair(step),
    ]
    for ask in asks:
        refused(ask, "asked for by its step")


@pytest.mark.parametrize("step", [np.int64(1), torch.tensor(1)], ids=repr)
def test_whole_numbers_of_other_libraries_are_steps(run, step):
    assert [health.step for health in run.verify(step).checkpoints] == [1]


@pytest.mark.parametrize("name", [5, b"best", ""])
def test_a_name_is_text(run, name):
    refused(lambda: run.load({}, name=name), "name = ")


@pytest.mark.parametrize("checkpoint_id", [5, b"best"])
def test_a_checkpoint_id_is_text(run, checkpoint_id):
    reader = StoreReader(run.config, run=RUN)
    reader.reset(checkpoint_id)
    reader.read_metadata()
    refused(lambda: reader.set_up_storage_reader(None, is_coordinator=True), "a checkpoint's name is text")


@pytest.mark.parametrize("step", ["latest", "tag:best", "step-1"])
def test_a_checkpoint_is_named_once(run, step):
    refused(lambda: run.load({}, step=step, name="step-2"), "named in two ways", step, "step-2")
    refused(lambda: run.load({}, step=run.latest(), name="step-2"), "named in two ways")


@pytest.mark.parametrize(
    "subset", [0, -1, float("nan"), 1.5, float("inf"), True, None, "0%", "101%", "0/7", "8/7", "10", "0GiB", "-1%", "x"]
)
def test_a_subset_that_is_no_part_of_the_data_is_refused(run, subset):
    refused(lambda: run.verify(read_data=True, subset=subset), "subset = ", "at most 1")


def test_a_subset_of_what_is_not_read_is_refused(run):
    refused(lambda: run.verify(subset=0.5), "subset", "read_data")
    assert run.verify(read_data=True, subset=np.float32(1)).exit_code == 0


@pytest.mark.parametrize("rules", [{"keep_last": True}, {"keep_every": True}, {"keep_tags": [5]}])
def test_rules_of_other_types_are_refused(run, rules):
    refused(lambda: run.prune(dry_run=True, **rules), next(iter(rules)))


@pytest.mark.parametrize("wrong", [{"automatic": "no"}, {"read_data": 1}, {"keep_last": True}, {"keep_tags": [None]}])
def test_retention_of_other_types_is_refused(wrong):
    with pytest.raises(ConfigError, match=f"retention.{next(iter(wrong))}"):
        Retention(**wrong)


@pytest.mark.parametrize("name", [None, 5, b"x", ["x"]], ids=repr)
def test_names_that_are_no_text_are_refused(run, name):
    store = ckptstore.Store(run.config)
    makers = [StoreReader, StoreWriter]
    asks = [lambda: store.run(name), lambda: run.tag(1, name), lambda: run.untag(name)]
    asks += [lambda: ckptstore.Run(run.config, name)] + [
        lambda make=make: make(run.config, run=name) for make in makers
    ]
    for ask in asks:
        refused(ask, "can't be the name of")


@pytest.mark.parametrize("store", [5, b"/x", ["store.toml"], "a\0b"], ids=repr)
def test_what_names_no_store_is_refused(store):
    for ask in (ckptstore.open, Config.load, StoreReader, StoreWriter):
        with pytest.raises(ConfigError, match=r"store"):
            ask(store)


def test_what_is_no_config_is_refused():
    for ask in (lambda: ckptstore.Store("store.toml").runs(), lambda: ckptstore.Run(None, "r").latest()):
        refused(ask, "Config")


@pytest.mark.parametrize(
    "wrong",
    [
        {"code": None},
        {"name": 5},
        {"fragment_size": 1.5},
        {"window": None},
        {"window": True},
        {"require_tolerance": True},
        {"require_tolerance": "1"},
        {"save_timeout": "60"},
        {"targets": None},
        {"targets": ["/a", "/b"]},
        {"retention": {"keep_last": 1}},
        {"folder": "\udcff"},
    ],
    ids=str,
)
def test_a_config_of_other_types_names_the_key(wrong):
    with pytest.raises(ConfigError, match=next(iter(wrong))) as caught:
        Config(**{"name": "s", "code": "1+1", "targets": TARGETS, **wrong})
    assert caught.value.key == next(iter(wrong))


@pytest.mark.parametrize(
    "wrong",
    [{"url": None}, {"url": b"/a"}, {"name": 5}, {"domain": 1}, {"commit": "no"}, {"options": {"a": object()}}],
    ids=lambda wrong: next(iter(wrong)),
)
def test_a_target_of_other_types_names_the_key(wrong):
    key = f"targets.{next(iter(wrong))}"
    with pytest.raises(ConfigError, match=key) as caught:
        TargetConfig(**{"name": "a", "url": "/a", **wrong})
    assert caught.value.key == key


@pytest.mark.parametrize("observer", [None, 5])
def test_an_observer_is_called_and_so_must_be_callable(run, observer):
    before = run.checkpoints()
    asks = [run.verify, run.repair, lambda **options: run.prune(keep_last=1, **options)]
    asks += [
        lambda **options: run.load({}, **options),
        lambda **options: run.save({"w": torch.ones(1)}, step=3, **options),
    ]
    asks += [lambda **options: run.save_async({"w": torch.ones(1)}, step=3, **options).result()]
    for ask in asks:
        refused(lambda ask=ask: ask(observer=observer), f"observer = {observer}")
    assert run.checkpoints() == before


@pytest.mark.parametrize("replace", ["a=b", ["a"], {"a": 5}, {1: "b"}, 5], ids=repr)
def test_replacements_are_names_of_targets(run, replace):
    refused(lambda: run.repair(replace=replace), "replace", "{target gone: target instead}")


def test_a_target_does_not_take_its_own_place(run):
    refused(lambda: run.repair(replace={"a": "a"}), "a can't take its own place")


@pytest.mark.parametrize("times", [-1, True, 1.5, "2", None])
def test_tolerated_failures_are_counted(run, times):
    refused(lambda: ckptstore.TolerantRun(run, tolerate_failures=times), "tolerate_failures", "0 or more")


def test_only_a_run_is_tolerant(run):
    refused(lambda: ckptstore.TolerantRun(run.config, tolerate_failures=1), "store.run")


@pytest.mark.parametrize("grace", ["10", None, True])
def test_a_grace_that_is_no_number_is_refused(grace):
    refused(lambda: ckptstore.finish_on_sigterm(grace), "seconds from 0")


def test_a_config_survives_its_own_check(run):
    again = Config.from_dict(msgspec.to_builtins(run.config))
    assert again == run.config
    assert shared(run.config).config.targets == again.targets
