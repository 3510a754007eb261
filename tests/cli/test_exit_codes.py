"""Each command with --json, in each state: stdout is JSON whatever happens, and the codes tell states apart."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from ckptstore.config import Config
from ckptstore.opened import Opened
from tests.cli.support import Ckpt, flip, write_tensors

WELL, FAILED, USAGE, DEGRADED, LOST, OUT_OF_REACH, NOT_FOUND, CONFLICT = 0, 1, 2, 3, 4, 5, 10, 11


def lines_of(ckpt, *arguments):
    """The JSON lines of a command, the code in the last one, and prose on stderr only."""
    answer = ckpt(*arguments, "--json")
    assert answer.summary["command"] == arguments[0]
    if answer.code in {USAGE, NOT_FOUND, CONFLICT, OUT_OF_REACH} and "kind" in answer.summary:
        assert answer.summary["message"]
        assert answer.summary["hint"], "every error names the next command"
        told = answer.err.splitlines()
        assert told[0].startswith(("error: ", "note: ")), "no line of code, no traceback"
        assert any(line.startswith("error: ") for line in told)
    return answer


def commands(ckpt):
    """Every command that works on a store, as it is typed."""
    return {
        "init": ["init"],
        "doctor": ["doctor"],
        "ls": ["ls"],
        "ls --tensors": ["ls", "--tensors"],
        "show": ["show"],
        "show --cat": ["show", "--cat"],
        "log": ["log"],
        "du": ["du"],
        "du --listed": ["du", "--listed"],
        "diff": ["diff", "7", "latest"],
        "cat": ["cat", "7", "model.embed", "--stats"],
        "copy": ["copy", "7", "--to-run", "kept"],
        "save": ["save", ckpt.folder / "in.safetensors", "--step", "8"],
        "restore": ["restore", ckpt.folder / "out", "--step", "7"],
        "verify": ["verify", "--read-data"],
        "repair": ["repair"],
        "tag": ["tag", "best"],
        "prune": ["prune", "--keep-last", "2"],
        "delete": ["delete", "7", "--yes"],
        "undelete": ["undelete", "7"],
    }


def codes(ckpt):
    return {name: lines_of(ckpt, *line).code for name, line in commands(ckpt).items()}


def test_o63_all_is_well(ckpt):
    assert set(codes(ckpt).values()) == {WELL}


def test_o63_degraded(ckpt):
    ckpt.away("b")
    found = codes(ckpt)
    assert found.pop("init") == OUT_OF_REACH
    assert found.pop("prune") == FAILED  # what b holds had to be left
    assert {found.pop(name) for name in ("verify", "repair", "doctor")} == {DEGRADED}
    assert set(found.values()) == {WELL}


def test_o63_lost(ckpt):
    for name in "abc":
        shutil.rmtree(ckpt.folder / name / "data")
    found = codes(ckpt)
    assert {found.pop(name) for name in ("restore", "verify", "repair", "diff", "cat", "copy")} == {LOST}
    assert set(found.values()) == {WELL}


def test_o63_out_of_reach(ckpt):
    ckpt.away("a", "b", "c", "d")
    found = codes(ckpt)
    assert found.pop("save") == FAILED  # not OUT_OF_REACH: it could be done, and would not be as safe as asked
    assert set(found.values()) == {OUT_OF_REACH}


def test_o63_not_found(ckpt):
    write_tensors(ckpt.folder / "in.safetensors")
    for line in (
        ["ls", "nosuch"],
        ["ls", "--run", "nosuch"],
        ["ls", "--tensors", "--step", "8"],
        ["show", "8"],
        ["du", "--run", "nosuch"],
        ["diff", "7", "8"],
        ["cat", "8", "model.embed"],
        ["cat", "7", "nosuch*"],
        ["copy", "8", "--to-run", "kept"],
        ["log", "--run", "nosuch"],
        ["restore", ckpt.folder / "out", "--tag", "nosuch"],
        ["restore", ckpt.folder / "out", "--include", "nosuch*"],
        ["verify", "--step", "8"],
        ["repair", "step-8"],
        ["tag", "best", "8"],
        ["tag", "nosuch", "--remove"],
        ["delete", "step-1", "--yes"],
        ["undelete", "7"],
        ["prune", "--keep-tag", "nosuch"],
    ):
        assert lines_of(ckpt, *line).code == NOT_FOUND, line
    assert not (ckpt.folder / "out").exists()


def test_o63_no_store(tmp_path):
    ckpt = Ckpt(tmp_path)
    for name in "abcdef":
        (tmp_path / name).mkdir()
    write_tensors(tmp_path / "in.safetensors")
    for name, line in commands(ckpt).items():
        if name != "init":
            answer = lines_of(ckpt, *line)
            assert answer.code in {NOT_FOUND, FAILED}, name
            assert name == "save" or "ckpt init" in answer.summary["hint"], name


def test_o63_misused(ckpt):
    for line in (
        ["ls", "--nosuch"],
        ["ls", "7", "--step", "7"],
        ["ls", "--run", "../etc"],
        ["du", "--by", "colour"],
        ["diff", "7"],
        ["cat", "7"],
        ["cat", "7", "*"],
        ["cat", "7", "model.embed", "--slice", "0:1:2"],
        ["cat", "7", "model.embed", "--raw", "--json"],
        ["copy", "7"],
        ["copy", "--all", "--step", "7", "--to-run", "kept"],
        ["save"],
        ["save", ckpt.folder / "in.safetensors"],
        ["save", ckpt.folder / "in.safetensors", "--step", "seven"],
        ["save", ckpt.folder / "nosuch", "--step", "1"],
        ["save", ckpt.path, "--step", "1"],
        ["restore"],
        ["verify", "--read-data-subset", "0%"],
        ["verify", "--read-data-subset", "ten"],
        ["repair", "--replace", "b"],
        ["repair", "--replace", "b=nosuch"],
        ["delete", "--yes"],
        ["delete", "7"],
        ["prune"],
        ["prune", "--keep-last", "0"],
        ["prune", "--keep-last", "-1"],
        ["prune", "--keep-last", "1", "--keep-within", "soon"],
        ["tag", "no/tag"],
        ["init", "x", "y"],
        ["init", "--targets", "x", "--store", ckpt.path],
    ):
        answer = ckpt(*line, "--json")
        assert answer.code == USAGE, line
        assert answer.summary["hint"], line
    assert ckpt("nosuch", "--json").summary["code"] == USAGE


def test_o63_codes_survive_the_process(ckpt):
    """What scripts see is the exit status and stdout of a child."""
    assert ckpt.child("verify", "--json").summary["code"] == WELL
    flip(ckpt.fragments("a")[0])
    assert ckpt.child("verify", "--read-data", "--json").summary["code"] == DEGRADED
    answer = ckpt.child("show", "nosuch", "--json", "-v")
    assert answer.summary["kind"] == "NotFoundError"
    assert "Traceback" in answer.err
    assert "Traceback" not in ckpt.child("show", "nosuch").err


def test_o63_conflict_with_another_writer(ckpt, monkeypatch):
    from ckptstore.cli import entry  # noqa: F401 - the commands are made before they are changed
    from ckptstore.operations import ingest
    from manifests import Fenced

    def fenced(*_arguments, **_named):
        raise Fenced("session 000009 has been opened since", newest="000009")

    monkeypatch.setattr(ingest.Commit, "finish", fenced)
    answer = lines_of(ckpt, "save", ckpt.folder / "in.safetensors", "--step", "8")
    assert (answer.code, answer.summary["kind"]) == (CONFLICT, "ConflictError")
    assert [c["name"] for c in ckpt("ls", "--json").summary["checkpoints"]] == ["step-7"]


@pytest.mark.parametrize("command", ["save", "save of a torch file"])
def test_o63_a_save_that_another_job_replaced_meanwhile(ckpt, monkeypatch, command):
    """Really: a session is opened by another job while the data is on its way."""
    from ckptstore.save.shard import ShardSaver

    path = ckpt.folder / "in.safetensors"
    if command != "save":
        path = ckpt.folder / "x.pt"
        torch.save({"w": torch.ones(3)}, path)
    write = ShardSaver.save

    def replaced(*arguments, **named):
        other = Opened(Config.load(ckpt.path))
        other.group.open_session("default", "another")
        other.close()
        return write(*arguments, **named)

    monkeypatch.setattr(ShardSaver, "save", replaced)
    answer = lines_of(ckpt, "save", path, "--step", "8")
    assert (answer.code, answer.summary["kind"]) == (CONFLICT, "ConflictError")
    assert "has been opened since" in answer.summary["message"]
    assert [c["name"] for c in ckpt("ls", "--json").summary["checkpoints"]] == ["step-7"]


def test_o63_the_codes_are_documented(ckpt):
    """Every code that the states above lead to stands in the list for scripts, with its meaning."""
    text = (Path(__file__).parents[2] / "docs/cli.md").read_text(encoding="utf-8")
    listed = next(line for line in text.splitlines() if line.startswith("Exit codes: "))
    documented = {int(each.split()[0]) for each in listed.removeprefix("Exit codes: ").split(", ")}
    assert {WELL, FAILED, USAGE, DEGRADED, LOST, OUT_OF_REACH, NOT_FOUND, CONFLICT, 12, 130, 143} == documented


def test_o63_a_crash_is_told_in_one_line_and_as_json(ckpt, monkeypatch):
    from ckptstore.operations import doctor

    monkeypatch.setattr(doctor, "examine", lambda _opened: 1 / 0)
    answer = lines_of(ckpt, "doctor")
    assert (answer.code, answer.summary["kind"]) == (FAILED, "ZeroDivisionError")
    assert answer.summary["hint"] == "run it again with -v for the traceback"
    assert len(answer.err.splitlines()) == 2


def test_o63_a_missing_store_file(tmp_path):
    ckpt = Ckpt(tmp_path)
    answer = ckpt("ls", "--store", tmp_path / "nosuch.toml", "--json")
    assert (answer.code, answer.summary["kind"]) == (USAGE, "ConfigError")
    answer = ckpt.child("ls", "--json", "--store", "")
    assert answer.code == USAGE


def test_interrupted_exits_130(ckpt):
    script = (
        "import os, signal, sys; from ckptstore.operations import doctor; from ckptstore.cli.entry import run\n"
        "doctor.examine = lambda opened: os.kill(os.getpid(), signal.SIGINT)\n"
        f"sys.exit(run(['doctor', '--json', '--store', {str(ckpt.path)!r}]))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 128 + signal.SIGINT
    assert json.loads(done.stdout)["kind"] == "Interrupted"


def test_a_reader_that_leaves_is_no_error(ckpt):
    """`ckpt show --cat | head -1` says nothing on stderr."""
    line = [sys.executable, "-m", "ckptstore.cli", "log", "--store", str(ckpt.path)]
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(line, stdout=writing, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writing)
    assert done.stderr == ""
    assert done.returncode == FAILED


@pytest.mark.parametrize("arguments", [[], ["--help"], ["ls", "--help"], ["--version"]], ids=repr)
def test_help_is_help(tmp_path, arguments):
    answer = Ckpt(tmp_path).child(*arguments, "--store", "x") if not arguments else Ckpt(tmp_path)(*arguments)
    assert answer.code in {WELL, USAGE}
    assert "ckpt" in answer.out + answer.err


@pytest.mark.parametrize(
    "described", [["--name", "\udcff"], ["--step", "9" * 23], ["--name", "a\udcff", "--step", "1"]]
)
def test_a_name_or_step_that_can_t_be_stored_is_a_usage_error_and_nothing_is_begun(ckpt, described):
    logged = ckpt("log", "--json").out
    assert lines_of(ckpt, "save", ckpt.folder / "in.safetensors", *described).code == USAGE
    assert ckpt("log", "--json").out == logged
