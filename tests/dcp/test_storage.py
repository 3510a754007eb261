"""`StoreWriter` and `StoreReader` under torch's own planners: the facts of DCP that they rest on, each held."""

import pickle

import numpy as np
import pytest
import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.default_planner import DefaultSavePlanner

import ckptstore
from ckptstore.dcp import StoreReader, StoreWriter
from ckptstore.dtypes import DTYPES, OBJECT
from ckptstore.errors import (
    DtypeMismatch,
    KeyCollision,
    KeyMismatch,
    NotFoundError,
    OutOfReach,
    ReplicaMismatch,
    ShapeMismatch,
    UnsupportedValue,
    UsageError,
)
from ckptstore.opened import release, shared
from ckptstore.targets import MeterTarget
from tests.dcp.folder import own_error
from tests.operations.test_restore import chunks_of, save_pieces
from tests.support import RUN, make_store

pytestmark = pytest.mark.filterwarnings("ignore:torch.distributed is disabled")


@pytest.fixture
def config(tmp_path):
    config = make_store(tmp_path).config
    yield config
    release(config)


def save(config, state, name="step-1", **options):
    writer = StoreWriter(config, run="r", **options.pop("writer", {}))
    with own_error():
        return dcp.save(state, storage_writer=writer, checkpoint_id=name, **options), writer


def load(config, state, name=None, **options):
    with own_error():
        dcp.load(state, storage_reader=StoreReader(config, run="r", **options), checkpoint_id=name)
    return state


def test_a_stock_save_and_load_give_every_value_back(config):
    state = {"w": torch.randn(300, 300), "opt": {"lr": 0.1, "betas": [0.9, 0.95], "step": torch.tensor(7)}}
    save(config, state)
    template = {"w": torch.zeros(300, 300), "opt": {"lr": 0.0, "betas": [0.0, 0.0], "step": torch.tensor(0)}}
    load(config, template)
    assert torch.equal(template["w"], state["w"])
    assert template["opt"] == {"lr": 0.1, "betas": [0.9, 0.95], "step": torch.tensor(7)}


def test_a_save_needs_a_name_and_a_load_takes_the_latest(config):
    writer = StoreWriter(config, run="r")
    with pytest.raises(UsageError, match="checkpoint_id"), own_error():
        dcp.save({"a": torch.ones(1)}, storage_writer=writer)
    save(config, {"a": torch.ones(1)}, "step-1")
    save(config, {"a": torch.full((1,), 2.0)}, "step-2")
    assert load(config, {"a": torch.zeros(1)})["a"].item() == 2


def test_a_name_of_one_save_is_not_taken_by_the_next(config):
    writer = StoreWriter(config, run="r")
    dcp.save({"a": torch.ones(1)}, storage_writer=writer, checkpoint_id="step-1")
    with pytest.raises(UsageError, match="checkpoint_id"), own_error():
        dcp.save({"a": torch.ones(1)}, storage_writer=writer)


@pytest.mark.parametrize(
    ("checkpoint_id", "name", "step"),
    [
        ("step-100", "step-100", 100),
        ("/ckpt/run/step-7/", "step-7", 7),
        ("s3://b/last", "last", None),
        ("0042", "0042", 42),
    ],
)
def test_what_a_checkpoint_id_means(config, checkpoint_id, name, step):
    _, writer = save(config, {"a": torch.ones(1)}, checkpoint_id)
    assert (writer.manifest.name, writer.manifest.step) == (name, step)
    assert load(config, {"a": torch.zeros(1)}, checkpoint_id)["a"].item() == 1


def test_a_step_given_beats_the_digits_of_the_name(config):
    _, writer = save(config, {"a": torch.ones(1)}, "v2", writer={"step": 9})
    assert writer.manifest.step == 9


def test_a_checkpoint_id_of_another_path_is_another_checkpoint(config):
    save(config, {"a": torch.zeros(1)}, "jobA/step-1")
    save(config, {"a": torch.ones(1)}, "jobB/step-1")
    assert load(config, {"a": torch.full((1,), 9.0)}, "jobA/step-1")["a"].item() == 0
    with pytest.raises(NotFoundError, match="jobC/step-1"):
        load(config, {"a": torch.zeros(1)}, "jobC/step-1")
    save(config, {"a": torch.full((1,), 3.0)}, "step-3")
    assert load(config, {"a": torch.zeros(1)}, "/any/where/step-3")["a"].item() == 3


def test_a_state_that_holds_nothing_is_refused(config):
    run = ckptstore.open(config).run("r")
    for state in ({}, [1, 2]):
        with pytest.raises(UsageError):
            run.save(state, step=1)
    assert run.checkpoints() == []


def test_saving_a_name_again_gives_the_newest_and_keeps_the_other(config):
    save(config, {"a": torch.ones(1)})
    save(config, {"a": torch.full((1,), 2.0)})
    assert load(config, {"a": torch.zeros(1)}, "step-1")["a"].item() == 2
    assert len(ckptstore.open(config).run("r").checkpoints()) == 2


def test_each_rank_on_its_own_is_refused(config):
    with pytest.raises(UsageError, match="use_collectives"), own_error():
        dcp.save({"a": torch.ones(1)}, storage_writer=StoreWriter(config), checkpoint_id="x", use_collectives=False)


def test_o52_a_cached_plan_never_leaves_out_a_new_key(config):
    states = [
        {"a": torch.arange(4.0)},
        {"a": torch.arange(4.0), "b": torch.ones(2)},
        {"a": torch.ones(7)},
        {"a": torch.arange(7.0)},
        {"a": torch.arange(7.0) + 1},
    ]
    writer = StoreWriter(config, run="r")
    for number, state in enumerate(states):
        planner = DefaultSavePlanner(enable_plan_caching=True)
        dcp.save(state, storage_writer=writer, checkpoint_id=f"step-{number}", planner=planner)
    for number, state in enumerate(states):
        loaded = load(config, {key: torch.zeros_like(value) for key, value in state.items()}, f"step-{number}")
        assert all(torch.equal(loaded[key], value) for key, value in state.items())


def test_a_typed_error_of_reading_metadata_reaches_the_caller(config):
    save(config, {"a": torch.ones(1)})
    with pytest.raises(NotFoundError, match="step-9"):
        load(config, {"a": torch.zeros(1)}, "step-9")
    with pytest.raises(NotFoundError, match="step 9"):
        ckptstore.open(config).run("r").load({"a": torch.zeros(1)}, step=9)


def test_metadata_for_all_ranks_stays_small(config):
    metadata, _ = save(config, {f"t{i}": torch.ones(10) for i in range(500)})
    assert metadata.version
    assert metadata.storage_meta is not None
    assert len(pickle.dumps(metadata.storage_data)) < 4096


def test_the_reader_takes_no_keyword_for_metadata():
    assert "kwargs" not in StoreReader.read_metadata.__code__.co_varnames


def test_writer_and_reader_pickle_as_settings(config):
    _, writer = save(config, {"a": torch.ones(1)})
    again = pickle.loads(pickle.dumps(writer))
    dcp.save({"a": torch.full((1,), 5.0)}, storage_writer=again, checkpoint_id="step-5")
    assert load(config, {"a": torch.zeros(1)})["a"].item() == 5
    assert len(pickle.dumps(writer)) < 4096


def test_stock_objects_are_stored_without_pickle(config, tmp_path):
    import random

    legacy = np.random.get_state()  # noqa: NPY002 - what training scripts save
    state = {"py": random.getstate(), "np": legacy, "t": torch.get_rng_state(), "s": {3}, "n": None}
    save(config, state)
    loaded = load(config, {"py": 0, "np": 0, "t": torch.zeros_like(state["t"]), "s": 0, "n": 0})
    assert loaded["py"] == state["py"]
    assert loaded["s"] == {3}
    assert loaded["n"] is None
    assert (loaded["np"][1] == state["np"][1]).all()
    stored = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"PK\x03\x04" not in stored
    assert b"archive/data.pkl" not in stored


class Opaque:
    """What no checkpoint can hold."""


def test_an_object_that_cannot_be_stored_is_refused_by_name_before_any_put(config):
    save(config, {"a": torch.ones(1)})
    before = shared(config).targets["a"]
    listed = {entry.path for entry in before.list("data/")}
    with pytest.raises(UnsupportedValue, match="opaque") as caught:
        save(config, {"a": torch.ones(1), "opaque": Opaque()}, "step-2")
    assert caught.value.key == "opaque"
    assert {entry.path for entry in before.list("data/")} == listed
    assert load(config, {"a": torch.zeros(1)})["a"].item() == 1


def test_o74_unsupported_tensors_are_refused_before_any_put_under_stock_planners(config):
    save(config, {"a": torch.ones(1)})
    listed = {entry.path for target in shared(config).targets.values() for entry in target.list("data/")}
    for bad in (torch.eye(3).to_sparse(), torch.empty(3, device="meta")):
        with pytest.raises(UnsupportedValue, match="last"):
            save(config, {"a": torch.ones(1), "last": bad}, "step-2")
    assert {entry.path for target in shared(config).targets.values() for entry in target.list("data/")} == listed
    assert load(config, {"a": torch.zeros(1)})["a"].item() == 1


@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor")
def test_o74_the_last_of_many_is_refused_before_the_first_put_over_an_old_one(config):
    run = ckptstore.open(config).run("r")
    run.save({"a": torch.ones(1)}, step=1)
    opened, real = shared(config), shared(config).targets
    opened.targets = meters = {name: MeterTarget(target) for name, target in real.items()}
    quantised = torch._empty_affine_quantized([3], scale=0.1, dtype=torch.qint8)
    try:
        for bad in (torch.eye(3).to_sparse(), torch.empty(3, device="meta"), quantised):
            state = {"a": torch.zeros(1), "m": {"w": torch.zeros(50_000)}, "last": bad}
            for attempt in (lambda state=state: run.save(state, step=1), lambda state=state: save(config, state)):
                with pytest.raises(UnsupportedValue, match="last") as caught:
                    attempt()
                assert caught.value.key == "last"
    finally:
        opened.targets = real
    verbs = {verb for meter in meters.values() for verb in meter.requests}
    assert not verbs & {"put", "put_if_absent", "delete"}
    assert len(run.checkpoints()) == 1
    assert load(config, {"a": torch.zeros(1)}, "step-1")["a"].item() == 1


def test_o70_names_of_100_kib_are_saved_and_load(config):
    state = {f"{number:03d}{'k' * (100 << 10)}": torch.full((2,), number) for number in range(12)}
    run = ckptstore.open(config).run("r")
    run.save(state, step=1)
    whole: dict[str, torch.Tensor] = {}
    run.load(whole)
    assert whole.keys() == state.keys()
    assert all(torch.equal(whole[key], tensor) for key, tensor in state.items())


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_o70_1_3_million_tiny_tensors_are_saved_and_load(config):
    values = torch.arange(1_300_000).to(torch.uint8)
    state = {f"layers.{number}.weight": values[number : number + 1].clone() for number in range(len(values))}
    run = ckptstore.open(config).run("r")
    run.save(state, step=1)
    whole: dict[str, torch.Tensor] = {}
    run.load(whole)
    assert whole.keys() == state.keys()
    assert torch.equal(torch.cat([whole[key] for key in state]), values)


def test_o16_run_load_returns_both_lists_or_names_both(config):
    run = ckptstore.open(config).run("r")
    run.save({"a": torch.ones(1), "z": torch.ones(1)}, step=1)
    template = {"a": torch.zeros(1), "b": torch.full((1,), 7.0)}
    with pytest.raises(KeyMismatch) as caught:
        run.load(template)
    assert (caught.value.missing, caught.value.unexpected) == (["b"], ["z"])
    assert template["a"].item() == 0
    report = run.load(template, strict=False)
    assert (report.missing, report.unexpected) == (("b",), ("z",))
    assert (template["a"].item(), template["b"].item()) == (1, 7)


def test_o64_a_part_of_a_job_s_state_that_was_not_saved_or_is_of_another_kind_is_named(config):
    run = ckptstore.open(config).run("r")
    run.save({"w": torch.ones(1), "rng": torch.get_rng_state()}, step=1)
    template = {"w": torch.zeros(1), "rng": torch.zeros_like(torch.get_rng_state()), "loader": {"at": 7}}
    with pytest.raises(KeyMismatch) as caught:
        run.load(template)
    assert caught.value.missing == ["loader.at"]
    with pytest.raises(KeyMismatch) as caught:
        run.load({"w": torch.zeros(1)})
    assert caught.value.unexpected == ["rng"]
    with pytest.raises(ShapeMismatch) as caught:
        run.load({"w": torch.zeros(1), "rng": torch.zeros(16, dtype=torch.uint8)})
    assert caught.value.key == "rng"


def test_o69_a_small_tensor_of_many_reads_little_more_than_itself(config):
    run = ckptstore.open(config).run("r")
    run.save({f"w{number}": torch.full((65_536,), float(number)) for number in range(32)}, step=1)
    opened = shared(config)
    before = opened.targets
    opened.targets = meters = {name: MeterTarget(target) for name, target in before.items()}
    try:
        template = {"w20": torch.zeros(65_536)}
        run.load(template, strict=False)
    finally:
        opened.targets = before
    assert template["w20"].unique().tolist() == [20]
    read = sum(meter.bytes_read for meter in meters.values())
    assert template["w20"].nbytes <= read <= 2 * template["w20"].nbytes, "manifests, index and record included"


def test_o01_a_load_never_casts_unless_told(config):
    save(config, {"i": torch.tensor([300, -5]), "f": torch.tensor([16777217.0], dtype=torch.float64)})
    with pytest.raises(DtypeMismatch) as caught:
        load(config, {"i": torch.zeros(2, dtype=torch.uint8)})
    assert caught.value.key == "i"
    assert "int64" in str(caught.value)
    assert "uint8" in str(caught.value)
    with pytest.warns(UserWarning, match="'f' is cast from float64 to float32"):
        cast = load(config, {"f": torch.zeros(1)}, allow_cast=True)
    assert cast["f"].item() == 16777216.0


def test_o01_a_cast_under_a_stock_planner_is_warned_of_once_a_key(tmp_path):
    """However many chunks a key was cut into, and never one that drops the imaginary part."""
    store = make_store(tmp_path)
    whole, other = np.arange(24.0).reshape(4, 6) + 0.25, np.array([300, -5])
    chunks = [*chunks_of("x", whole, [[1, 3], [2]]), *chunks_of("y", other, [[1]])]
    save_pieces(store, [*chunks, *chunks_of("z", np.array([16777217.0]), [[]])])
    template = {
        "x": torch.zeros(4, 6, dtype=torch.float16),
        "y": torch.zeros(2, dtype=torch.uint8),
        "z": torch.zeros(1, dtype=torch.float64),
    }
    reader = StoreReader(store.config, run=RUN, allow_cast=True)
    with pytest.warns(UserWarning, match="cast") as warned, own_error():
        dcp.load(template, storage_reader=reader)
    assert sorted(str(each.message) for each in warned if "cast" in str(each.message)) == [
        "'x' is cast from float64 to float16",
        "'y' is cast from int64 to uint8",
    ]
    assert torch.equal(template["x"], torch.from_numpy(whole).half())
    assert torch.equal(template["y"], torch.from_numpy(other).to(torch.uint8))
    release(store.config)


def test_o01_an_imaginary_part_is_never_dropped_by_the_reader(config):
    save(config, {"w": torch.ones(2, dtype=torch.complex64)})
    template = {"w": torch.zeros(2)}
    with pytest.raises(DtypeMismatch) as caught:
        load(config, template, allow_cast=True)
    assert caught.value.key == "w"
    assert template["w"].tolist() == [0, 0]


def test_two_targets_gone_load_and_save_go_on_and_say_what_is_left(config, tmp_path):
    state = {"w": torch.randn(500, 500)}
    save(config, state)
    for name in "be":
        (tmp_path / name).rename(tmp_path / f"{name}.gone")
    release(config)
    assert torch.equal(load(config, {"w": torch.zeros(500, 500)})["w"], state["w"])
    _, writer = save(config, state, "step-2")
    assert writer.manifest.tolerance.targets == 1
    assert writer.manifest.planned.targets == 2
    assert ckptstore.open(config).run("r").latest().state == "degraded"


def patterns(name: str) -> torch.Tensor:
    """Every byte in every position, and every pattern of the two highest bytes: NaN payloads, -0.0."""
    itemsize = getattr(torch, name).itemsize
    every = torch.arange(256 * itemsize, dtype=torch.int32).to(torch.uint8)
    pairs = torch.arange(1 << 16, dtype=torch.int32).to(torch.int16).view(torch.uint8).reshape(-1, 2)
    high = torch.zeros(1 << 16, itemsize, dtype=torch.uint8)
    high[:, -2:] = pairs[:, -itemsize:]
    turned = [every.roll(place) for place in range(itemsize)]
    return torch.cat([*turned, high.reshape(-1)]).view(getattr(torch, name))


@pytest.mark.parametrize("name", ["float64", "float32", "float16", "bfloat16"])
def test_the_patterns_hold_what_comparing_values_would_miss(name):
    found, bits = patterns(name), getattr(torch, f"int{8 * getattr(torch, name).itemsize}")
    assert found[found.isnan()].view(bits).unique().numel() > 1
    assert found[found == 0].signbit().unique().tolist() == [False, True]


def test_o36_every_dtype_keeps_every_bit(config):
    names = [name for name in DTYPES if name != OBJECT and hasattr(torch, name)]
    assert {str(dtype) for dtype in vars(torch).values() if isinstance(dtype, torch.dtype)} == {
        f"torch.{name}" for name in [*names, *QUANTISED]
    }, "a dtype of torch that is neither stored nor refused"
    state = {name: patterns(name) for name in names}
    run = ckptstore.open(config).run("r")
    run.save(state, step=1)
    template = {name: torch.empty_like(tensor) for name, tensor in state.items()}
    for tensor in template.values():
        tensor.view(torch.uint8).zero_()
    run.load(template)
    whole: dict[str, torch.Tensor] = {}
    run.load(whole)
    for name, tensor in state.items():
        for loaded in (template[name], whole[name]):
            assert loaded.dtype == tensor.dtype
            assert torch.equal(loaded.view(torch.uint8), tensor.view(torch.uint8)), name
    assert run.verify(read_data=True).exit_code == 0


QUANTISED = ("quint8", "qint8", "qint32", "quint4x2", "quint2x4")


def test_views_keep_their_logical_values(config):
    base = torch.randn(8, 6, dtype=torch.complex64)
    state = {
        "conj": base.conj(),
        "neg": torch._neg_view(base.real.clone()),
        "transposed": base.real.t(),
        "strided": base.real[::2, 1::3],
        "expanded": torch.randn(1, 5).expand(4, 5),
        "zero_dim": torch.tensor(3.5),
        "empty": torch.empty(0, 5),
        "bits": torch.arange(12, dtype=torch.uint8).view(torch.bits8)[::3],
    }
    expected = {key: value.clone() if key != "bits" else value for key, value in state.items()}
    run = ckptstore.open(config).run("r")
    run.save(state, step=1)
    loaded: dict[str, torch.Tensor] = {}
    run.load(loaded)
    for key, value in expected.items():
        assert loaded[key].shape == value.shape
        if key != "bits":
            assert torch.equal(loaded[key], value), key
    assert loaded["bits"].view(torch.uint8).tolist() == [0, 3, 6, 9]


def test_o37_tied_weights_are_stored_once_and_stay_tied(config):
    weight = torch.randn(100, 100)
    run = ckptstore.open(config).run("r")
    tied = run.save({"emb": weight, "head": weight}, step=1)
    alone = run.save({"emb": weight}, step=2)
    assert tied.bytes - alone.bytes < 4096
    fresh = torch.zeros(100, 100)
    template = {"emb": fresh, "head": fresh}
    run.load(template, step=1)
    assert template["emb"].data_ptr() == template["head"].data_ptr()
    assert torch.equal(fresh, weight)
    apart = {"head": torch.zeros(100, 100)}
    run.load(apart, step=1, strict=False)
    assert torch.equal(apart["head"], weight)


def test_a_step_that_is_seen_loads_though_too_few_targets_tell_what_is_latest(config, tmp_path):
    state = {"w": torch.randn(300, 300)}
    for name in "be":
        (tmp_path / name).rename(tmp_path / f"{name}.gone")
    run = ckptstore.open(config).run("r")
    assert run.save(state, step=1).tolerance.targets == 1
    (tmp_path / "a").rename(tmp_path / "a.gone")
    release(config)
    with pytest.raises(OutOfReach, match="3 of 6 commit targets"):
        run.load({"w": torch.zeros(300, 300)})
    loaded = {"w": torch.zeros(300, 300)}
    with pytest.warns(UserWarning, match="may not be seen"):
        run.load(loaded, step=1)
    assert torch.equal(loaded["w"], state["w"])


def test_a_name_that_no_run_can_have_is_refused_where_it_is_given(config):
    for kind in (StoreWriter, StoreReader):
        with pytest.raises(UsageError, match="Bad Run"):
            kind(config, run="Bad Run")


@pytest.mark.parametrize(
    "template",
    [
        lambda w: {"embed": w, "head": w.t()},
        lambda w: {"embed": w, "head": w.flatten()[:4].view(2, 2)},
        lambda w: {"embed": w, "head": w.view(torch.int32).view(torch.float32)},
    ],
    ids=["transposed", "flattened", "reinterpreted"],
)
def test_destinations_that_overlap_are_right_or_refused(config, template):
    run = ckptstore.open(config).run("r")
    run.save({"embed": torch.arange(4.0).view(2, 2), "head": torch.arange(4.0).view(2, 2) + 10}, step=1)
    with pytest.raises(ReplicaMismatch):
        run.load(template(torch.zeros(2, 2)))
    symmetric = torch.tensor([[1.0, 2.0], [2.0, 3.0]])
    run.save({"embed": symmetric, "head": symmetric.clone()}, step=2)
    loaded = template(torch.zeros(2, 2))
    run.load(loaded)
    assert torch.equal(loaded["embed"], symmetric)
    assert torch.equal(loaded["head"], symmetric)


def test_views_side_by_side_in_one_buffer_load(config):
    run = ckptstore.open(config).run("r")
    run.save(
        {"a": torch.arange(4.0), "b": torch.arange(4.0) + 4, "c": torch.ones(2, 2), "d": torch.zeros(2, 2)}, step=1
    )
    buffer, wide = torch.zeros(8), torch.full((2, 4), 9.0)
    run.load({"a": buffer[:4], "b": buffer[4:], "c": wide[:, :2], "d": wide[:, 2:]})
    assert torch.equal(buffer, torch.arange(8.0))
    assert wide.tolist() == [[1, 1, 0, 0], [1, 1, 0, 0]]


def test_a_tensor_laid_over_itself_is_refused(config):
    run = ckptstore.open(config).run("r")
    run.save({"a": torch.arange(9.0).view(3, 3)}, step=1)
    with pytest.raises(ReplicaMismatch):
        run.load({"a": torch.zeros(5).as_strided((3, 3), (1, 1))})


def test_templates_that_ask_for_more_than_was_saved_are_told(config):
    run = ckptstore.open(config).run("r")
    run.save({"1": torch.arange(2.0), "l": [torch.ones(1)]}, step=1)
    with pytest.raises(KeyCollision):
        run.load({"1": torch.zeros(2), 1: torch.zeros(2), "l": [torch.zeros(1)]})
    for state in ([], None, 5):
        with pytest.raises(UsageError):
            run.load(state)


@pytest.mark.parametrize(
    "described", [{"step": -1}, {"step": 2**70}, {"name": "\ud800"}, {"step": 1, "user": {"x": object()}}]
)
def test_what_no_manifest_can_say_is_refused_before_any_put(config, described):
    with pytest.raises(UsageError):
        ckptstore.open(config).run("r").save({"a": torch.ones(1)}, **described)
    assert not [entry for target in shared(config).targets.values() for entry in target.list("data/")]


def test_a_background_save_refuses_before_it_copies(config):
    run = ckptstore.open(config).run("r")
    for state in ({"s": torch.eye(3).to_sparse()}, {"l": Opaque()}, [1]):
        with pytest.raises(UsageError):
            run.save_async(state, step=1)
    assert run.save_async({"a": torch.ones(1)}, step=2).result().step == 2


MISNAMED = [
    {"step": True},
    {"step": 1.5},
    {"step": "7"},
    {"step": -1},
    {"step": 10**22},
    {"step": 1, "name": "a\udcff"},
    {"step": 1, "user": {"a": "\udcff"}},
    {"step": 1, "user": {1: 2}},
]


def ways_in(config, described):
    """Every way to save with these words, each to be called."""
    run, state = ckptstore.open(config).run("r"), {"a": torch.ones(1)}
    tolerant = ckptstore.TolerantRun(run, tolerate_failures=9)
    yield lambda: run.save(state, **described)
    yield lambda: run.save_async(state, **described).result()
    yield lambda: tolerant.save(state, **described)
    yield lambda: tolerant.save_async(state, **described).result()
    writer = {key: value for key, value in described.items() if key != "name"}
    yield lambda: save(config, state, described.get("name", "best"), writer=writer)


@pytest.mark.parametrize("described", MISNAMED, ids=repr)
def test_on_every_way_in_what_no_manifest_can_say_is_refused_before_a_save_begins(config, described):
    for way in ways_in(config, described):
        with pytest.raises(UsageError), own_error():
            way()
    history = shared(config).group.history("r")
    assert (history.sessions, history.begun) == ((), ())
