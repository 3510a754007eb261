"""`ckpt copy`: what a person types and sees, and that a copy loads as the state it was."""

import os
import signal
import subprocess
import sys
from collections import OrderedDict

import pytest
import torch

import ckptstore
from ckptstore.errors import UsageError
from tests.cli.support import Ckpt, flip, write_tensors


@pytest.fixture
def other(tmp_path):
    """Another store: 2+1 on three directories."""
    (tmp_path / "other").mkdir()
    ckpt = Ckpt(tmp_path / "other", "xyz", "2+1", "32KiB")
    assert ckpt("init").code == 0
    return ckpt


def state(seed=0):
    """Containers, tied weights, dtypes that safetensors lacks, values of all kinds."""
    generator = torch.Generator().manual_seed(seed)
    weight = torch.randn(200, 130, generator=generator)
    return {
        "model": OrderedDict(embed=weight, head=weight, norm=torch.randn(9, generator=generator).bfloat16()),
        "optim": [{"step": 7, "lr": 1e-3, "betas": (0.9, 0.95)}, {"exp": torch.ones(3, dtype=torch.complex128)}],
        "rng": torch.arange(40, dtype=torch.uint8),
        "done": {1: None, "inf": float("inf")},
    }


def empty_like(value):
    """The same containers and shapes, zeros in them."""
    if isinstance(value, torch.Tensor):
        return torch.zeros_like(value)
    if isinstance(value, dict):
        return type(value)((key, empty_like(item)) for key, item in value.items())
    if isinstance(value, list):
        return [empty_like(item) for item in value]
    return None


def assert_same(found, expected):
    assert type(found) is type(expected)
    if isinstance(expected, torch.Tensor):
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
        assert torch.equal(found, expected)
    elif isinstance(expected, dict):
        assert list(found) == list(expected)
        for key, item in expected.items():
            assert_same(found[key], item)
    elif isinstance(expected, list | tuple):
        assert len(found) == len(expected)
        for one, item in zip(found, expected, strict=True):
            assert_same(one, item)
    else:
        assert found == expected


def test_a_torch_state_loads_from_the_copy(ckpt, other):
    with ckptstore.open(ckpt.path) as store:
        saved = store.run("train").save(state(), step=100, user={"loss": 1.5})
        store.run("train").tag(100, "best")
    answer = ckpt("copy", "--run", "train", "--to", other.path, "--to-run", "kept", "--read-back")
    assert answer.code == 0, answer.err
    assert "step-100: " in answer.out
    assert "copied, survives 1 target, 1 domain" in answer.out
    assert "copied 1 checkpoint to run kept of store store, " in answer.out
    assert answer.out.endswith("; every byte read back\n")
    with ckptstore.open(other.path) as store:
        run = store.run("kept")
        found = empty_like(state())
        run.load(found, step="tag:best")
        assert_same(found, state())
        filled = {}
        run.load(filled)
        assert_same(filled, state())
        made = run.latest()
    assert (made.name, made.step, made.bytes, made.user["loss"]) == ("step-100", 100, saved.bytes, 1.5)
    assert other("verify", "--run", "kept", "--read-data").code == 0
    same = ckpt("diff", 100, "latest", "--run", "train", "--other-store", other.path, "--other-run", "kept")
    assert (same.code, "no difference" in same.out) == (0, True)


def test_from_python(ckpt, other):
    with ckptstore.open(ckpt.path) as store, ckptstore.open(other.path) as there:
        run, to = store.run(), there.run("kept")
        run.save({"w": torch.arange(4.0)}, step=8)
        report = run.copy(to, 7)
        assert [made.step for made in report.copied] == [7]
        assert [fate.outcome for fate in run.copy(to, every=True).fates] == ["there", "copied"]
        assert [made.step for made in to.checkpoints()] == [7, 8]
        with pytest.raises(UsageError, match="onto itself"):
            run.copy(run)
        with pytest.raises(UsageError, match="every"):
            run.copy(to, 7, every=True)
        with pytest.raises(UsageError, match="a Run"):
            run.copy("kept")


def test_all_of_a_run_and_again(ckpt, other):
    for step in (8, 9):
        write_tensors(ckpt.folder / "in.safetensors", step)
        assert ckpt("save", ckpt.folder / "in.safetensors", "--step", step).code == 0
    planned = ckpt("copy", "--all", "--to", other.path, "--dry-run", "--json")
    assert (planned.code, planned.summary["outcomes"]) == (0, {"planned": 3})
    first = ckpt("copy", "--all", "--to", other.path, "--json")
    assert (first.code, first.summary["outcomes"]) == (0, {"copied": 3})
    assert [line["copy"]["step"] for line in first.checkpoints] == [7, 8, 9]
    assert first.summary["bytes"] == sum(line["bytes"] for line in first.checkpoints)
    again = ckpt("copy", "--all", "--to", other.path, "--json")
    assert (again.code, again.summary["outcomes"], again.summary["bytes"]) == (0, {"there": 3}, 0)
    listed = other("ls", "--json").summary["checkpoints"]
    assert [found["step"] for found in listed] == [7, 8, 9]
    restored = other("restore", other.folder / "out", "--step", "9")
    assert restored.code == 0
    assert (other.folder / "out/in.safetensors").read_bytes() == (ckpt.folder / "in.safetensors").read_bytes()


@pytest.mark.parametrize("at", ["transfer.check_written", "ShardSaver.save", "Commit.finish"])
def test_killed_in_the_middle_nothing_is_visible_and_again_all_is(ckpt, other, at):
    script = (
        "import os, signal; from ckptstore.operations import transfer\n"
        "from ckptstore.save.shard import ShardSaver; from ckptstore.commit import Commit\n"
        f"holder, name = {at.rpartition('.')[0]}, {at.rpartition('.')[2]!r}\n"
        "real = getattr(holder, name)\n"
        "def killed(*arguments, **named):\n"
        "    if name != 'finish': real(*arguments, **named)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "setattr(holder, name, killed)\n"
        f"from ckptstore.cli.entry import run; run(['copy', '--all', '--to', {str(other.path)!r}])"
    )
    environment = {**os.environ, "CKPT_STORE": str(ckpt.path)}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False, env=environment)
    assert done.returncode == -signal.SIGKILL
    assert other.fragments("x"), "it was in the middle"
    assert other("ls", "--json").summary["checkpoints"] == []
    assert other("du", "--listed", "--json").summary["orphans"]
    assert ckpt("copy", "--all", "--to", other.path, "--json").summary["outcomes"] == {"copied": 1}
    assert ckpt("diff", "7", "7", "--other-store", other.path).code == 0
    assert other("prune", "--keep-last", 3, "--grace", "0", "--yes").code == 0
    assert other("du", "--listed", "--json").summary["orphans"] == []
    assert other("verify", "--read-data").code == 0


def test_what_is_refused(ckpt, other):
    for line, code in (
        (["copy"], 2),
        (["copy", "--to", ckpt.path], 2),
        (["copy", "7", "--all", "--to", other.path], 2),
        (["copy", "7", "--to", other.path, "--to-run", "No/Run"], 2),
        (["copy", "7", "--to", other.folder / "nosuch.toml"], 2),
        (["copy", "8", "--to", other.path], 10),
    ):
        answer = ckpt(*line, "--json")
        assert answer.code == code, line
        assert answer.summary["hint"], line
    assert "onto itself" in ckpt("copy").err
    assert other("ls", "--json").summary["checkpoints"] == []


def test_one_that_is_lost_is_told_and_the_others_are_copied(ckpt, other):
    lost = [path for name in "abc" for path in ckpt.fragments(name)]
    assert ckpt("save", ckpt.folder / "in.safetensors", "--step", 8).code == 0
    for path in lost:
        flip(path)
    answer = ckpt("copy", "--all", "--to", other.path, "--json")
    assert (answer.code, answer.summary["outcomes"]) == (4, {"copied": 1, "failed": 1})
    assert answer.checkpoints[0]["error"]["kind"] == "DataLost"
    told = ckpt("copy", "--all", "--to", other.path)
    assert (told.code, "NOT copied" in told.out, "is there already" in told.out) == (4, True, True)
    assert ckpt("copy", "7", "--to", other.path, "--json").summary["kind"] == "DataLost"


def test_out_of_order_and_kept_tags_are_told(ckpt, other):
    assert ckpt("save", ckpt.folder / "in.safetensors", "--step", 8).code == 0
    assert ckpt("tag", "best", "7").code == 0
    assert other("save", ckpt.folder / "in.safetensors", "--step", 1).code == 0
    assert other("tag", "best", "1").code == 0
    assert ckpt("copy", "8", "--to", other.path).code == 0
    answer = ckpt("copy", "7", "--to", other.path)
    assert answer.code == 0
    assert "another checkpoint there keeps best" in answer.err
    assert "an older one was copied after step-8" in answer.err


@pytest.mark.parametrize(("gone", "code"), [("away", 5), ("empty", 4)])
def test_what_is_seen_below_the_quorum_is_named_and_can_be_copied_away(ckpt, other, gone, code):
    ckpt.away("b", "e")
    assert ckpt("save", ckpt.folder / "in.safetensors", "--step", 8).code == 0
    ckpt.away("a")
    if gone == "empty":
        for name in "abe":
            (ckpt.folder / name).mkdir()
    answer = ckpt("ls")
    assert answer.code == code
    assert "by its name: step-7, step-8" in answer.err
    assert ckpt("doctor").code == code
    assert ckpt("copy", "--to", other.path).code == code, "the latest isn't guessed at"
    answer = ckpt("copy", "step-8", "--to", other.path)
    assert (answer.code, "may not be seen" in answer.err) == (0, True)
    assert other("verify", "--read-data").code == 0
