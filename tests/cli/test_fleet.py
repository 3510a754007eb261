"""`ckpt verify` and `ckpt repair` at fleet size: all runs in one report, in parts, at a rate, resumed."""

import json
import signal
import subprocess
import sys
import time

import pytest

from tests.cli.support import Ckpt, flip, write_tensors


@pytest.fixture
def two(ckpt) -> Ckpt:
    """The store with another run, `other`, of two checkpoints."""
    for step in (1, 2):
        write_tensors(ckpt.folder / "other.safetensors", step, rows=20)
        assert ckpt("save", ckpt.folder / "other.safetensors", "--step", step, "--run", "other").code == 0
    return ckpt


def fragments_of(ckpt, run, targets="abcdef"):
    return [path for name in targets for path in ckpt.fragments(name) if f"/{run}/" in str(path)]


def test_all_runs_in_one_report(two):
    answer = two("verify", "--all-runs")
    assert answer.code == 0, answer.err
    lines = answer.out.splitlines()
    assert lines[0].split() == ["run", "checkpoints", "state", "survives", "objects", "checked"]
    assert [line.split()[:4] for line in lines[1:3]] == [["default", "1", "1", "good"], ["other", "2", "2", "good"]]
    assert lines[3].startswith("2 runs, 3 checkpoints: 3 good; structure only")
    answer = two("verify", "--all-runs", "--read-data", "--json")
    assert [line["type"] for line in answer.lines] == ["checkpoint"] * 3 + ["run"] * 2 + ["summary"]
    assert [(line["run"], line["code"], line["checkpoints"]) for line in answer.lines[3:5]] == [
        ("default", 0, 1),
        ("other", 0, 2),
    ]
    summary = answer.summary
    assert (summary["runs"], summary["checkpoints"], summary["failed"], summary["empty"]) == (2, 3, {}, [])
    assert summary["expected"] == summary["checked"] == sum(line["expected"] for line in answer.lines[3:5])
    assert summary["tolerance"] == {"targets": 2, "domains": 2}


def test_the_worst_run_decides_and_the_next_step_names_it(two):
    for path in fragments_of(two, "other")[:1]:
        path.unlink()
    answer = two("verify", "--all-runs")
    assert answer.code == 3
    assert "degraded, loadable" in answer.out
    assert answer.out.startswith("other step-"), "of what is well a row is enough"
    assert "next: ckpt repair --run other\n" in answer.err
    for path in fragments_of(two, "other"):
        path.unlink()
    answer = two("verify", "--all-runs", "--json")
    assert answer.code == 4
    assert {line["run"]: line["code"] for line in answer.lines if line["type"] == "run"} == {"default": 0, "other": 4}
    assert answer.summary["hint"].startswith("ckpt repair --run other")


def test_a_run_that_cannot_be_read_is_a_row(two):
    for name in two.names:
        for path in sorted((two.folder / name / "runs/other/commit").rglob("*"), reverse=True):
            path.unlink() if path.is_file() else path.rmdir()
    answer = two("verify", "--all-runs", "--json")
    assert answer.code == answer.summary["code"] == 4
    rows = {line["run"]: line for line in answer.lines if line["type"] == "run"}
    assert rows["default"]["code"] == 0
    assert rows["other"]["kind"] == "CorruptError"
    assert list(answer.summary["failed"]) == ["other"]
    assert "can't be read" in two("verify", "--all-runs").out


def test_nothing_in_any_run_is_not_success(empty):
    answer = empty("verify", "--all-runs", "--json")
    assert (answer.code, answer.summary["runs"]) == (10, 0)
    assert answer.summary["hint"]


def test_parts_of_the_data_find_what_is_rotten_once(ckpt):
    flip(ckpt.fragments("a")[0])
    codes = [ckpt("verify", "--read-data-subset", f"{part}/5").code for part in range(1, 6)]
    assert sorted(codes) == [0, 0, 0, 0, 3]
    assert ckpt("verify", "--read-data-subset", "1GiB").code == 3


@pytest.mark.parametrize(
    ("line", "named"),
    [
        (["verify", "--read-data-subset", "8/7"], "--read-data-subset"),
        (["verify", "--read-data-subset", "10"], "--read-data-subset"),
        (["verify", "--limit-rate", "fast"], "--limit-rate"),
        (["verify", "--limit-rate", "0"], "--limit-rate"),
        (["verify", "--jobs", "0"], "--jobs"),
        (["verify", "7", "--all-runs"], "--all-runs"),
        (["repair", "--shard", "5/4"], "--shard"),
        (["repair", "--limit-rate", "-1MiB"], "--limit-rate"),
        (["repair", "--jobs", "100000"], "--jobs"),
    ],
)
def test_what_can_t_be_names_the_option(ckpt, line, named):
    answer = ckpt(*line, "--json")
    assert answer.code == 2
    assert named in answer.summary["message"]
    assert answer.summary["hint"]


def test_repair_in_parts_and_what_it_would_take(two):
    for target, run in (("a", "default"), ("b", "other")):
        fragments_of(two, run, target)[0].unlink()
    sizes = {name: sum(path.stat().st_size for path in two.fragments(name)) for name in "ab"}
    answer = two("repair", "--dry-run")
    assert answer.code == 3
    assert "to read  to write" in answer.out
    dry = [two("repair", "--dry-run", "--json", "--run", run).summary for run in ("default", "other")]
    for run in ("default", "other"):
        for part in ("2/2", "1/2"):
            assert two("repair", "--run", run, "--shard", part, "--jobs", 2, "--limit-rate", "50MB").code == 0
        assert two("verify", "--run", run, "--read-data").code == 0
    grown = {name: sum(path.stat().st_size for path in two.fragments(name)) - sizes[name] for name in "ab"}
    assert {name: sum(summary["writes"].get(name, 0) for summary in dry) for name in "ab"} == grown
    assert sum(sum(summary["reads"].values()) for summary in dry) >= sum(grown.values())


def test_a_verify_that_was_killed_goes_on(two):
    """A real process, interrupted once it has found the first run good: the next would take it six seconds."""
    assert two("save", two.folder / "other.safetensors", "--step", 1, "--run", "another").code == 0
    file = two.folder / "verify.pass"
    line = [sys.executable, "-m", "ckptstore.cli", "verify", "--read-data", "--all-runs", "--resume", str(file)]
    where = ["--store", str(two.path), "--jobs", "1"]
    child = subprocess.Popen([*line, *where, "--limit-rate", "300KiB"], cwd=two.folder, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and not (file.exists() and file.read_bytes().count(b"\n") > 1):
            time.sleep(0.05)
        child.send_signal(signal.SIGINT)
        assert child.wait(timeout=60) == 130
    finally:
        child.kill()
    assert json.loads(file.read_text().splitlines()[1])["run"] == "another"
    other = two("verify", "--all-runs", "--resume", file, "--json")
    assert other.code == 2
    assert "read_data is True, not False" in other.summary["message"]
    answer = two("verify", "--read-data", "--all-runs", "--resume", file, "--json")
    assert (answer.code, answer.summary["checkpoints"]) == (0, 4)
    assert not file.exists()


def test_what_all_survive_is_the_least_of_each(tmp_path):
    """The one survives two targets and no domain, the other one target and one domain."""
    ckpt = Ckpt(tmp_path)
    write_tensors(ckpt.folder / "in.safetensors", 1)
    tables = [
        f'[[targets]]\nname = "{name}"\nurl = "{name}"\ndomain = "{domain}"\ncommit = {commit}\n'
        for domain, names in (("x", "abc"), ("y", "def"))
        for name, commit in zip(names, ("true", "true", "false"), strict=True)
    ]
    for code in ("4+2", "1+1"):
        ckpt.path.write_text("\n".join([f'name = "store"\ncode = "{code}"\n', *tables]))
        assert ckpt("init").code == 0
        assert ckpt("save", ckpt.folder / "in.safetensors", "--step", code[0]).code == 0
    answer = ckpt("verify", "--json")
    each = [(line["tolerance"]["targets"], line["tolerance"]["domains"]) for line in answer.checkpoints]
    assert each == [(2, 0), (1, 1)]
    assert answer.summary["tolerance"] == {"targets": 1, "domains": 0}
    assert ckpt("repair", "--json").summary["tolerance"] == {"targets": 1, "domains": 0}
