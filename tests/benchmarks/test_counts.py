"""What `make bench` counts, at a smaller size: bytes, requests and copies. Times are `make bench`'s alone."""

import pytest
import torch

import ckptstore
from benchmarks import reads, report, scale
from benchmarks.sections import Bars, Line, Section, Table, keep, kept
from benchmarks.setting import MIB, directories, make_state
from benchmarks.turns import Contender, take_turns
from ckptstore.opened import shared
from ckptstore.targets import MeterTarget

SIZE = 96 * MIB


@pytest.fixture
def config(tmp_path):
    return directories(tmp_path / "store", options={"fsync": False})


def test_one_tensor_of_a_checkpoint_costs_its_bytes_and_few_requests(tmp_path, monkeypatch):
    monkeypatch.setattr(reads, "SIZE", SIZE)
    nbytes, requests = reads._one_tensor(str(tmp_path / "store"))
    assert reads.ONE <= nbytes <= 1.1 * reads.ONE
    assert requests["data"] <= 6


def test_a_save_sends_what_the_code_adds_and_little_more(config):
    opened = shared(config)
    opened.targets = meters = {name: MeterTarget(target) for name, target in opened.targets.items()}
    ckptstore.open(config).run("bench").save(make_state(SIZE, each=16 * MIB), step=1)
    written = sum(meter.bytes_written for meter in meters.values())
    assert 1.5 * SIZE <= written <= 1.5 * SIZE + MIB
    fragments = [path for meter in meters.values() for verb, path in meter.paths if path.startswith("data/")]
    assert len(fragments) <= 6 * (SIZE // (64 * MIB) + 1) + 6, "each fragment is put once; one target's is looked at"


def test_a_load_reads_each_byte_once(config):
    state = make_state(SIZE, each=16 * MIB)
    run = ckptstore.open(config).run("bench")
    run.save(state, step=1)
    opened = shared(config)
    opened.targets = meters = {name: MeterTarget(target) for name, target in opened.targets.items()}
    into = {name: torch.zeros_like(tensor) for name, tensor in state.items()}
    run.load(into, step=1)
    assert all(torch.equal(into[name], state[name]) for name in state)
    assert SIZE <= sum(meter.sizes["get_into"] for meter in meters.values()) <= SIZE + 2 * MIB


def test_the_index_of_a_large_job_is_small_and_quickly_read(monkeypatch):
    monkeypatch.setattr(scale, "TENSORS", 20)
    found = scale._measure(2_000)
    assert found.stored < MIB
    assert found.asked < 8 << 10
    assert scale.simulate(found)["its references"] < 5


def test_runs_take_turns_and_the_first_round_is_not_counted():
    calls = []
    runs = {name: Contender(lambda name=name: calls.append(name)) for name in "ab"}
    figures = take_turns(runs, rounds=3)
    assert sorted(calls) == ["a"] * 4 + ["b"] * 4
    assert [len(figures[name].walls) for name in "ab"] == [3, 3]


def test_the_page_says_what_holds_and_what_does_not(tmp_path):
    section = Section(
        title="Things",
        text="How.",
        command="python -m benchmarks things",
        tables=[Table("t", [["", "s"], ["a", "1"]])],
        lines=[Line("slow", 2.0, 1.5), Line("fast", 5.0, 4.0, at_least=True)],
        bars=[Bars("b", "s", {"g": {"a": 1.0}})],
    )
    keep("things", section, tmp_path)
    report.write(list(kept(["things", "others"], tmp_path)), tmp_path / "performance.md")
    page = (tmp_path / "performance.md").read_text()
    assert "| slow | 2 | ≤ 1.5 | **not reached** |" in page
    assert "| fast | 5 | ≥ 4 | holds |" in page
    assert (tmp_path / "performance" / "things-0.png").stat().st_size > 1000
