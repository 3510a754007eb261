"""What each command does and shows when all goes well."""

import fcntl
import json
import os
import pty
import struct
import subprocess
import sys
import termios

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.numpy import load_file

import ckptstore
from ckptstore.commit import About
from ckptstore.config import Config
from ckptstore.dtypes import DTYPES, OBJECT
from ckptstore.opened import Opened
from ckptstore.operations.ingest import ingest, plan
from tests.cli.support import Ckpt, write_tensors
from tests.dcp.test_storage import patterns


def terminal(ckpt, *arguments, width=100):
    """What a person sees on a terminal of that width: stdout and stderr together."""
    parent, child = pty.openpty()
    fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", 40, width, 0, 0))
    line = [sys.executable, "-m", "ckptstore.cli", *map(str, arguments), "--store", str(ckpt.path)]
    environment = {**os.environ, "TERM": "xterm", "NO_COLOR": "1"}
    environment.pop("COLUMNS", None)
    with subprocess.Popen(line, stdout=child, stderr=child, stdin=child, env=environment) as process:
        os.close(child)
        seen = b""
        while chunk := _read(parent):
            seen += chunk
    os.close(parent)
    return process.returncode, seen.decode()


def _read(descriptor):
    try:
        return os.read(descriptor, 65536)
    except OSError:  # what Linux says when the other side is closed
        return b""


def visible(text):
    """Lines without the control sequences of NO_COLOR output."""
    import re

    plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text)
    return [line.rstrip() for line in plain.replace("\r", "").splitlines()]


def test_ls_on_a_terminal_of_100_columns(ckpt):
    assert ckpt("tag", "best", "7").code == 0
    code, seen = terminal(ckpt, "ls")
    assert code == 0
    head, row = visible(seen)
    assert head == "name    step  state  tolerance                          size  world  age  tags"
    assert row.startswith("step-7     7  good   survives 2 targets, 2 domains  1.15 MiB      1  ")
    assert row.endswith(" s  best")
    assert max(map(len, visible(seen))) <= 100


def test_a_narrow_terminal_folds_and_cuts_nothing(ckpt):
    _, seen = terminal(ckpt, "ls", width=40)
    assert "…" not in seen
    assert max(map(len, visible(seen))) <= 40


def test_bars_only_where_a_person_watches(ckpt):
    code, seen = terminal(ckpt, "save", ckpt.folder / "in.safetensors", "--step", "8")
    assert code == 0
    assert "━" in seen
    assert visible(seen)[-1] == "saved step-8 of run default: 1.15 MiB, survives 2 targets, 2 domains"
    answer = ckpt.child("save", ckpt.folder / "in.safetensors", "--step", "9")
    assert (answer.code, answer.err) == (0, "")
    assert "\x1b" not in answer.out


def save_as(ckpt, name):
    """Save under a name that is refused by now: an older release took it."""
    opened = Opened(Config.load(ckpt.path))
    ingest(opened, "default", plan(ckpt.folder / "in.safetensors"), About(name, name, None))
    opened.close()


def test_a_name_of_two_lines_takes_one(ckpt):
    save_as(ckpt, "two\nlines")
    for line in (["ls"], ["log"], ["verify"], ["show"], ["tag", "best"], ["repair"], ["delete", "two\nlines", "--yes"]):
        answer = ckpt(*line)
        assert answer.code == 0
        assert "two\\nlines" in answer.out
        assert "two\nlines" not in answer.out
    assert ckpt("show", "--name", "two\nlines").err.startswith(
        "error: run default has no checkpoint name two\\nlines: "
    )


@pytest.mark.parametrize("name", ["", "a\nb", "7", "latest", "x" * 256])
def test_a_name_that_would_mislead_is_not_saved(ckpt, name):
    listed = ckpt("ls", "--json").out
    for path in ("in.safetensors", "none.pt"):
        for step in ([], ["--step", 8]):
            answer = ckpt("save", ckpt.folder / path, "--name", name, *step)
            assert (answer.code, answer.err.count("\n")) == (2, 2)
            assert "can't be the name of a checkpoint" in answer.err
    assert ckpt("ls", "--json").out == listed


def test_names_are_no_commands_to_the_terminal(ckpt):
    save_as(ckpt, "a\x1b[31m[bold]b")
    for answer in (ckpt("ls"), ckpt("log"), ckpt("verify")):
        assert "\x1b" not in answer.out
        assert "a\\x1b[31m[bold]b" in answer.out
    _, seen = terminal(ckpt, "ls")
    assert "a\\x1b[31m[bold]b" in seen
    assert ckpt("ls", "--json").summary["checkpoints"][-1]["name"] == "a\x1b[31m[bold]b"


def test_init_writes_a_settings_file_and_makes_the_store(tmp_path):
    ckpt = Ckpt.__new__(Ckpt)
    ckpt.folder, ckpt.path, ckpt.names = tmp_path, tmp_path / "new/store.toml", "ab"
    places = [str(tmp_path / name) for name in "abcdef"]
    answer = ckpt("init", "--targets", *places, "--code", "4+2")
    assert answer.code == 0
    assert "Q = 3" in answer.out
    assert "R = 4" in answer.out
    assert "loading and saving both survive the loss of 2 targets" in answer.out
    write_tensors(tmp_path / "in.safetensors")
    assert ckpt("save", tmp_path / "in.safetensors", "--step", "1").code == 0
    again = ckpt("init", "--json")
    assert (again.code, again.summary["report"]["created"]) == (0, False)


def test_init_says_when_saving_does_not_survive_what_loading_does(tmp_path):
    ckpt = Ckpt(tmp_path, "abcd", code="2+2")
    answer = ckpt("init")
    assert "loading survives the loss of 2 targets, saving of 1" in answer.out
    assert "more targets" in answer.out
    assert ckpt("init", "--json").summary["report"]["quorums"]["saving"] == 1


def test_ls_of_all_runs(ckpt):
    assert ckpt("save", ckpt.folder / "in.safetensors", "--step", 3, "--run", "other").code == 0
    lines = ckpt("ls", "--all-runs", "--json").summary["checkpoints"]
    assert [(line["run"], line["name"]) for line in lines] == [("default", "step-7"), ("other", "step-3")]
    assert "other" in ckpt("ls", "--all-runs").out


def test_ls_tensors(ckpt):
    rows = {row["fqn"]: row for row in ckpt("ls", "--tensors", "--json").summary["tensors"]}
    assert rows["model.embed"] == {
        "fqn": "model.embed",
        "dtype": "float32",
        "shape": [300, 1000],
        "nbytes": 1_200_000,
        "chunks": 1,
    }
    assert "[300, 1000]" in ckpt("ls", "7", "--tensors").out


def test_ls_selects_by_step_name_tag_and_key(ckpt):
    assert ckpt("save", ckpt.folder / "in.safetensors", "--step", 8).code == 0
    assert ckpt("tag", "best", "--step", 7).code == 0
    key = ckpt("show", "7", "--json").summary["key"]
    for selection in (["7"], ["step-7"], ["tag:best"], [key], ["--step", 7], ["--name", "step-7"], ["--tag", "best"]):
        (line,) = ckpt("ls", *selection, "--json").summary["checkpoints"]
        assert line["key"] == key, selection
    (line,) = ckpt("ls", "latest", "--json").summary["checkpoints"]
    assert line["step"] == 8


def test_show_cat_commands_make_a_safetensors_file_without_us(ckpt):
    """Run as printed, by a shell that has never heard of ckptstore."""
    answer = ckpt("show", "7", "--cat")
    out = ckpt.folder / "by hand"
    out.mkdir()
    subprocess.run(
        ["/bin/sh", "-e"], input=answer.out, text=True, check=True, cwd=out, env={"PATH": os.environ["PATH"]}
    )
    (made,) = out.iterdir()
    expected = load_file(ckpt.folder / "in.safetensors")
    with safe_open(made, "np") as opened:
        assert set(expected) <= set(opened.keys())
        for name, array in expected.items():
            assert np.array_equal(opened.get_tensor(name), array)


def test_show_cat_says_what_it_can_not_read(ckpt):
    ckpt.names = "abcde"
    ckpt.write("3+2", "64KiB")
    answer = ckpt("show", "7", "--cat", "--json")
    assert answer.code == 0
    assert any("which store.toml doesn't have" in problem for problem in answer.summary["shards"][0]["problems"])


def test_log_tells_what_happened_in_order(ckpt):
    assert ckpt("tag", "best", 7).code == 0
    assert ckpt("delete", "7", "--yes").code == 0
    assert ckpt("undelete", "7").code == 0
    assert ckpt("tag", "--remove", "best").code == 0
    events = ckpt("log", "--json").summary["events"]
    assert [event["kind"] for event in events[:3]] == ["opened", "begun", "committed"]
    assert sorted(event["kind"] for event in events[3:]) == ["deleted", "tagged", "undeleted", "untagged"]
    assert events[2]["name"] == "step-7"
    key = ckpt("show", "7", "--json").summary["key"]
    assert f"{events[2]['session']}.{events[2]['ordinal']:06d}" == key
    assert "committed  step-7" in ckpt("log").out


def test_delete_needs_a_yes_and_says_how(ckpt):
    answer = ckpt("delete", "7", "--json")
    assert answer.code == 2
    assert ckpt("ls", "7").code == 0
    arguments = answer.summary["hint"].split()
    assert (arguments[0], arguments[-1]) == ("ckpt", "--yes")
    assert ckpt(*arguments[1:]).code == 0
    assert ckpt("ls", "7").code == 10
    assert "ckpt undelete" in ckpt("ls", "7").err


def test_saving_a_step_again_leaves_the_older_one(ckpt):
    second = write_tensors(ckpt.folder / "second.safetensors", 9)
    assert ckpt("save", ckpt.folder / "second.safetensors", "--step", 7).code == 0
    assert len(ckpt("ls", "--json").summary["checkpoints"]) == 2
    assert ckpt("restore", ckpt.folder / "out.safetensors", "--step", 7).code == 0
    assert np.array_equal(load_file(ckpt.folder / "out.safetensors")["model.embed"], second["model.embed"])
    assert ckpt("delete", "7", "--yes").code == 0
    assert len(ckpt("ls", "--json").summary["checkpoints"]) == 1


def test_a_torch_file_is_saved_and_restored(ckpt):
    state = {"model": {"w": torch.arange(6.0).reshape(2, 3), "h": torch.ones(3, dtype=torch.bfloat16)}, "step": 7}
    torch.save(state, ckpt.folder / "x.pt")
    answer = ckpt("save", ckpt.folder / "x.pt", "--step", 8, "--json")
    assert (answer.code, answer.summary["checkpoint"]["name"]) == (0, "step-8")
    assert ckpt("restore", ckpt.folder / "x.safetensors", "--step", 8).code == 0
    with safe_open(ckpt.folder / "x.safetensors", "pt") as opened:
        assert torch.equal(opened.get_tensor("model.w"), state["model"]["w"])
        assert torch.equal(opened.get_tensor("model.h"), state["model"]["h"])
    assert '"value": 7' in (ckpt.folder / "x.objects.json").read_text()


@pytest.mark.filterwarnings("ignore:torch.distributed is disabled")
def test_o36_every_dtype_is_listed_and_restored_with_its_bits(ckpt):
    """Those that safetensors lacks go out as bytes and are named in the file; none is skipped."""
    state = {name: patterns(name) for name, dtype in DTYPES.items() if name != OBJECT}
    with ckptstore.open(ckpt.path) as store:
        store.run("default").save(state, step=8)
    answer = ckpt("ls", "8", "--tensors", "--json")
    rows = {row["fqn"]: (row["dtype"], row["shape"], row["nbytes"]) for row in answer.summary["tensors"]}
    assert rows == {name: (name, list(tensor.shape), tensor.nbytes) for name, tensor in state.items()}
    assert all(name in ckpt("ls", "8", "--tensors").out for name in state)
    assert ckpt("verify", "8", "--read-data").code == 0
    assert ckpt("restore", ckpt.folder / "all.safetensors", "--step", 8).code == 0
    with safe_open(ckpt.folder / "all.safetensors", "pt") as opened:
        assert set(opened.keys()) == set(state)
        lacking = json.loads(opened.metadata()["ckptstore.dtypes"])
        assert lacking == {name: name for name in state if DTYPES[name].stream is None}
        for name, tensor in state.items():
            found = opened.get_tensor(name)
            assert found.dtype == (torch.uint8 if name in lacking else tensor.dtype), name
            assert torch.equal(found.reshape(-1).view(torch.uint8), tensor.view(torch.uint8)), name
    assert ckpt("save", ckpt.folder / "all.safetensors", "--step", 9).code == 0
    again = ckpt("ls", "9", "--tensors", "--json")
    found = {row["fqn"]: (row["dtype"], row["shape"], row["nbytes"]) for row in again.summary["tensors"]}
    assert {name: found[name] for name in state} == rows
    assert ckpt("restore", ckpt.folder / "again.safetensors", "--step", 9).code == 0
    assert (ckpt.folder / "again.safetensors").read_bytes() == (ckpt.folder / "all.safetensors").read_bytes()


class Evil:
    def __reduce__(self):
        return os.system, ("touch ran-code",)


@pytest.mark.parametrize("value", [Evil(), [1, 2]], ids=["code", "list"])
def test_a_torch_file_runs_nothing(ckpt, value, monkeypatch):
    monkeypatch.chdir(ckpt.folder)
    torch.save(value, ckpt.folder / "x.pt")
    answer = ckpt("save", ckpt.folder / "x.pt", "--step", 8, "--json")
    assert (answer.code, answer.summary["kind"]) == (2, "UnsupportedValue")
    assert not (ckpt.folder / "ran-code").exists()


def test_a_damaged_torch_file_is_refused(ckpt):
    (ckpt.folder / "x.pt").write_bytes(b"no archive")
    assert ckpt("save", ckpt.folder / "x.pt", "--step", 8).code == 2
    assert ckpt("save", ckpt.folder / "none.pt", "--step", 8).code == 2


def test_restore_dry_run_writes_nothing(ckpt):
    answer = ckpt("restore", ckpt.folder / "out", "--include", "model.*", "--dry-run", "--json")
    assert answer.code == 0
    (file,) = answer.summary["files"]
    assert file["tensors"] == 2
    assert file["path"] == str(ckpt.folder / "out/in.safetensors")
    assert not (ckpt.folder / "out").exists()
    assert ckpt("restore", ckpt.folder / "out", "--include", "model.*").code == 0
    assert set(load_file(ckpt.folder / "out/in.safetensors")) == {"model.embed", "model.norm"}


def test_o19_a_save_with_targets_away_says_that_it_survives_less(ckpt):
    ckpt.away("b")
    answer = ckpt("save", ckpt.folder / "in.safetensors", "--step", 8)
    assert answer.code == 0
    assert "survives 1 target, 1 domain" in answer.out
    assert "degraded" in answer.err
    ckpt.back("b")
    line = ckpt("ls", "8", "--json").summary["checkpoints"][0]
    assert (line["state"], line["tolerance"]) == ("degraded", {"targets": 1, "domains": 1})
    assert ckpt("repair").code == 0
    line = ckpt("ls", "8", "--json").summary["checkpoints"][0]
    assert (line["state"], line["tolerance"]) == ("good", {"targets": 2, "domains": 2})
    assert "repaired" in [event["kind"] for event in ckpt("log", "--json").summary["events"]]


def test_verbose_tells_of_damaged_fragments(ckpt):
    for path in ckpt.fragments("a"):
        path.unlink()
    assert "data/" not in ckpt("restore", ckpt.folder / "out").err
    assert "data/" in ckpt("restore", ckpt.folder / "out2", "-v").err


# -- what was deleted, and what became of it -----------------------------------------------------------------------


def test_ls_deleted_lists_what_undelete_can_bring_back_and_for_how_long(ckpt):
    ckpt("save", ckpt.folder / "in.safetensors", "--step", 7)
    ckpt("save", ckpt.folder / "in.safetensors", "--step", 8)
    assert "nothing deleted" in ckpt("ls", "--deleted").err
    for _ in range(2):
        assert ckpt("delete", "7", "--yes").code == 0
    answer = ckpt("ls", "--deleted")
    assert answer.out.splitlines()[0].split() == ["name", "step", "size", "age", "data", "stays", "key"]
    assert [line.split()[:2] for line in answer.out.splitlines()[1:]] == [["step-7", "7"], ["step-7", "7"]]
    assert "23 h 59 min" in answer.out
    assert "ckpt undelete" in answer.err
    found = ckpt("ls", "--deleted", "--json").summary["deleted"]
    assert [item["step"] for item in found] == [7, 7]
    assert all(86000 < item["seconds"] <= 86400 for item in found)
    older = found[0]["key"]
    assert older in answer.out
    assert ckpt("undelete", older).code == 0
    assert ckpt("ls", "--json").summary["checkpoints"][0]["key"] == older
    assert [item["key"] for item in ckpt("ls", "--deleted", "--json").summary["deleted"]] == [found[1]["key"]]


def test_ls_deleted_says_what_the_next_prune_may_remove_and_which_run_it_is_of(ckpt):
    ckpt("save", ckpt.folder / "in.safetensors", "--step", 8)
    ckpt("delete", "7", "--yes")
    text = ckpt.path.read_text()
    ckpt.path.write_text(text.replace("[[targets]]", '[retention]\ngrace = "0"\n[[targets]]', 1))
    assert "till the next prune" in ckpt("ls", "--deleted").out
    answer = ckpt("ls", "--deleted", "--all-runs")
    assert answer.out.split()[0] == "run"
    assert "default" in answer.out
    assert ckpt("ls", "--deleted", "--run", "typo").code == 10
    assert ckpt("ls", "--deleted", "7").code == 2
    assert ckpt("ls", "--deleted", "--tensors").code == 2


def test_whoever_looks_for_a_deleted_one_is_sent_to_the_list(ckpt):
    for answer in (ckpt("undelete"), ckpt("undelete", "3")):
        assert "ckpt ls --deleted" in answer.err


def test_log_names_what_was_deleted_and_keeps_a_row_for_what_was_removed(ckpt):
    ckpt("save", ckpt.folder / "in.safetensors", "--step", 8)
    ckpt("delete", "7", "--yes")
    (row,) = [row for row in ckpt("log", "--json").summary["events"] if row["kind"] == "deleted"]
    assert (row["name"], row["step"]) == ("step-7", 7)
    assert ckpt("prune", "--sweep", "--grace", "0", "--yes").code == 0
    kinds = [row["kind"] for row in ckpt("log", "--json").summary["events"]]
    assert kinds == ["opened", "collected", "opened", "begun", "committed"]


def test_what_is_lost_may_have_a_deleted_one_to_fall_back_on(ckpt):
    for name in "abc":
        for path in ckpt.fragments(name):
            path.unlink()
    answer = ckpt("verify")
    assert answer.code == 4
    assert "ckpt ls --deleted" in answer.err
    assert "ckpt undelete" in answer.err


def test_replacing_a_target_that_the_store_never_had_is_a_slip_that_names_those_it_has(ckpt):
    ckpt.path.write_text(ckpt.path.read_text() + '[[targets]]\nname = "g"\nurl = "g"\n')
    answer = ckpt("repair", "--replace", "zz=g")
    assert answer.code == 2
    assert "zz: no target of the store to replace; it has a, b, c, d, e, f" in answer.err
    answer = ckpt("repair", "--replace", "a=file:///elsewhere")
    assert answer.code == 2
    assert "add it to store.toml first, and give its name" in answer.err


def test_targets_of_another_store_are_refused_by_init_in_its_own_words_and_no_settings_are_left(ckpt):
    """By names that another store.toml gave them, and by fewer of them."""
    other = ckpt.folder / "s2.toml"
    (ckpt.folder / "g").mkdir()
    for places in ("abc", "abcdefg"):
        answer = ckpt("init", "--store", other, "--code", "2+1", "--targets", *(ckpt.folder / name for name in places))
        assert answer.code == 11
        assert "store.toml names" not in answer.err
        assert "--replace" not in answer.err
        assert "already" in answer.err
        assert not other.exists()
    assert ckpt("doctor").code == 0


def test_run_before_the_command_is_told_where_it_goes(ckpt):
    for option in ("--run", "--run=demo", "--store", "--json"):
        answer = ckpt(option, "x", "ls")
        assert answer.code == 2
        assert f"after the command: ckpt ls {option.partition('=')[0]}" in answer.err


def test_an_empty_run_is_not_sent_to_where_it_was_just_shown_to_be_empty(empty):
    for command in (["verify"], ["repair"], ["show"], ["restore", "x.safetensors"], ["tag", "1", "best"]):
        answer = empty(*command)
        assert answer.code == 10
        assert "next: ckpt ls --all-runs" in answer.err, command


def test_python_m_ckptstore_is_the_command(ckpt):
    done = subprocess.run(
        [sys.executable, "-m", "ckptstore", "ls", "--store", ckpt.path], capture_output=True, text=True, check=False
    )
    assert (done.returncode, "step-7" in done.stdout) == (0, True), done.stderr


def test_verify_tells_of_a_target_that_is_missing_in_one_line(ckpt):
    for step in (8, 9, 10):
        ckpt("save", ckpt.folder / "in.safetensors", "--step", step)
    ckpt.away("a", "b")
    answer = ckpt("verify")
    assert len([line for line in answer.out.splitlines() if " on a" in line]) == 4, "one a checkpoint"
    assert len([line for line in answer.out.splitlines() if line.startswith("  ")]) == 8
    assert "objects unreachable on a" in answer.out
    told = ckpt("verify", "--json")
    assert sum(finding["target"] == "a" for each in told.checkpoints for finding in each["findings"]) > 4
