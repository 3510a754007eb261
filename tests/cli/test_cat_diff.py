"""`ckpt cat` and `ckpt diff`: numbers, bytes and objects as a person and a script see them."""

import json
import os
import pty
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file

import ckptstore
from ckptstore.operations.values import SMALL_FLOATS, Stats, numbers_of
from tests.cli.support import tensors


def raw(ckpt, *arguments, stdout=subprocess.PIPE):
    line = [sys.executable, "-m", "ckptstore.cli", "cat", *arguments, "--raw", "--store", str(ckpt.path)]
    return subprocess.run(line, stdout=stdout, stderr=subprocess.PIPE, check=False)


def save_state(ckpt, state, step):
    with ckptstore.open(ckpt.path) as store:
        store.run().save(state, step=step)


def test_raw_is_the_bytes_and_slices_of_them(ckpt):
    embed = tensors(7)["model.embed"]
    assert raw(ckpt, "7", "model.embed").stdout == embed.tobytes()
    assert raw(ckpt, "7", "model.embed", "--slice", "10:12,:5").stdout == embed[10:12, :5].tobytes()
    assert raw(ckpt, "latest", "empty").stdout == b""
    assert raw(ckpt, "7", "optim.step").stdout == struct.pack("<q", 7)


def test_raw_bytes_are_refused_on_a_terminal(ckpt):
    parent, child = pty.openpty()
    done = raw(ckpt, "7", "model.embed", stdout=child)
    os.close(child)
    os.close(parent)
    assert done.returncode == 2
    assert b"stdout is a terminal" in done.stderr
    assert ckpt("cat", "7", "model.embed", "--raw", "--json").code == 2
    assert ckpt("cat", "7", "model.embed", "--raw", "--stats").code == 2


def test_a_reader_of_bytes_that_leaves_is_no_error(ckpt):
    reading, writing = os.pipe()
    os.close(reading)
    done = raw(ckpt, "7", "model.embed", stdout=writing)
    os.close(writing)
    assert (done.returncode, done.stderr) == (1, b"")


def test_bytes_that_can_t_be_written_are_told(ckpt):
    with Path("/dev/full").open("wb") as full:
        done = raw(ckpt, "7", "model.embed", stdout=full)
    assert done.returncode == 1
    assert done.stderr.startswith(b"error: the output can't be written: No space left")
    assert done.stderr.count(b"\n") == 1


def test_damage_never_reaches_stdout(ckpt):
    for name in "abc":
        for path in ckpt.fragments(name):
            path.unlink()
    done = raw(ckpt, "7", "model.embed")
    assert (done.returncode, done.stdout) == (4, b"")


def test_a_person_sees_the_corner(ckpt):
    answer = ckpt("cat", "7", "model.embed")
    assert answer.code == 0
    head, *rows, rest = answer.out.splitlines()
    assert head == "model.embed: float32 [300, 1000], 1.14 MiB"
    assert len(rows) == 6
    assert rest == "… the first [6, 6]; all of them: --stats, or --raw"
    assert np.allclose(json.loads(f"[{','.join(rows[0].strip('[] ').split())}]"), tensors(7)["model.embed"][0, :6])
    part = ckpt("cat", "7", "model.embed", "--slice", "5,:2").out.splitlines()
    assert part[0] == "model.embed: float32 [300, 1000], [1, 2] of it from [5, 0], 8 B"
    assert ckpt("cat", "7", "optim.step").out.splitlines() == ["optim.step: int64 [], 8 B", "7"]
    found = ckpt("cat", "7", "optim.mask", "--json").summary
    assert (found["dtype"], found["shape"], found["bytes"]) == ("bool", [3, 5], 15)


def test_stats_of_a_glob(ckpt):
    answer = ckpt("cat", "7", "model.*", "--stats", "--json")
    assert [line["name"] for line in answer.lines[:-1]] == ["model.embed", "model.norm"]
    found, embed = answer.lines[0], tensors(7)["model.embed"]
    assert (found["elements"], found["nan"], found["inf"]) == (300_000, 0, 0)
    assert (found["min"], found["max"]) == (float(embed.min()), float(embed.max()))
    assert found["mean"] == pytest.approx(float(embed.mean(dtype=np.float64)))
    told = ckpt("cat", "7", "*", "--stats").out.splitlines()
    assert told[-1] == "5 tensors; least, greatest and mean of the finite numbers; 1 without numbers left out"
    assert next(line for line in told if line.startswith("empty")).split() == [
        "empty",
        "float64",
        "[0,",
        "4]",
        "0",
        "0",
    ]


def test_stats_of_what_is_not_finite(ckpt):
    values = np.array([np.nan, np.inf, -np.inf, 1, 3], np.float32)
    save_file({"x": values, "none": values[:1]}, ckpt.folder / "in.safetensors")
    assert ckpt("save", ckpt.folder / "in.safetensors", "--step", 8).code == 0
    lines = {line["name"]: line for line in ckpt("cat", "8", "*", "--stats", "--json").lines[:-1]}
    found = lines["x"]
    assert [found[each] for each in ("min", "max", "mean", "nan", "inf")] == [1, 3, 2, 1, 2]
    found = lines["none"]
    assert [found[each] for each in ("min", "max", "mean", "nan", "inf")] == [None, None, None, 1, 0]


def test_objects_are_typed_json(ckpt):
    save_state(ckpt, {"w": torch.ones(3), "lr": 0.5, "betas": (0.9, 2**60), "note": "hi"}, 8)
    assert ckpt("cat", "8", "lr").out == "0.5\n"
    assert json.loads(ckpt("cat", "8", "betas").out) == {"tuple": [0.9, {"int": hex(2**60)}]}
    assert ckpt("cat", "8", "note", "--json").summary["value"] == "hi"
    assert json.loads(raw(ckpt, "8", "note").stdout) == {"object": 1, "value": "hi"}
    assert ckpt("cat", "8", "note", "--stats").code == 2
    assert ckpt("cat", "8", "note", "--slice", "0:1").code == 2


def test_dtypes_that_numpy_lacks(ckpt):
    state = {
        "brain": torch.tensor([1.5, float("inf"), -2.0]).bfloat16(),
        "small": torch.tensor([1.5, -448.0, 0.0]).to(torch.float8_e4m3fn),
        "half": torch.ones(2, dtype=torch.complex32),
    }
    save_state(ckpt, state, 8)
    lines = {line["name"]: line for line in ckpt("cat", "8", "*", "--stats", "--json").lines[:-1]}
    assert (lines["brain"]["min"], lines["brain"]["max"], lines["brain"]["inf"]) == (-2, 1.5, 1)
    assert (lines["small"]["min"], lines["small"]["max"]) == (-448, 1.5)
    assert "half" not in lines
    for options in ([], ["--stats"]):
        answer = ckpt("cat", "8", "half", *options)
        assert (answer.code, "complex32" in answer.err) == (2, True)
    assert raw(ckpt, "8", "half").stdout == np.array([1, 0, 1, 0], np.float16).tobytes()


@pytest.mark.parametrize("dtype", [*SMALL_FLOATS, "bfloat16"])
def test_small_floats_are_torch_s(dtype):
    codes = np.arange(256 if dtype in SMALL_FLOATS else 65536, dtype=np.uint8 if dtype in SMALL_FLOATS else np.uint16)
    expected = torch.from_numpy(codes).view(getattr(torch, dtype)).float().numpy()
    found = numbers_of(codes.view(np.uint8), dtype)
    assert np.array_equal(found, expected, equal_nan=True)
    assert np.array_equal(np.signbit(found[found == 0]), np.signbit(expected[expected == 0]))


def test_stats_add_up():
    numbers = np.random.default_rng(0).integers(-(2**62), 2**62, 1000)
    stats = Stats()
    for part in np.split(numbers, 10):
        stats.add(part)
    assert (stats.min, stats.max, stats.count) == (int(numbers.min()), int(numbers.max()), 1000)
    assert stats.mean == pytest.approx(numbers.mean())
    huge = Stats()
    huge.add(np.array([1e308, 1e308]))
    assert huge.mean is None


def test_names_that_are_none_or_many(ckpt):
    assert ckpt("cat", "7", "nosuch").code == 10
    assert ckpt("cat", "8", "optim.step").code == 10
    answer = ckpt("cat", "7", "optim.*")
    assert (answer.code, "matches 2 names" in answer.err) == (2, True)
    assert ckpt("cat", "7", "optim.step", "--slice", "0:1").code == 2


def test_diff_says_what_differs_and_exits_as_diff_does(ckpt):
    assert ckpt("save", ckpt.folder / "in.safetensors", "--step", 8).code == 0
    same = ckpt("diff", "7", "8")
    assert (same.code, same.out.startswith("step-7 and step-8: no difference, ")) == (0, True)
    for step in (9, 10):  # without metadata: safetensors writes its keys in any order, and the order is kept
        save_file(tensors(step), ckpt.folder / "in.safetensors")
        assert ckpt("save", ckpt.folder / "in.safetensors", "--step", step).code == 0
    answer = ckpt("diff", "9", "latest", "--json")
    assert answer.code == 1
    assert "kind" not in answer.summary
    assert {line["fqn"]: line["what"] for line in answer.lines[:-1]} == {
        "model.embed": "bytes",
        "model.norm": "bytes",
        "optim.mask": "bytes",
        "optim.step": "bytes",
    }
    assert "float32 [300, 1000]: " in ckpt("diff", "9", "10").out
    assert ckpt("diff", "9", "10", "--structure").code == 0


def test_diff_of_states(ckpt):
    save_state(ckpt, {"w": torch.ones(3), "lr": 0.5, "both": [torch.ones(1), torch.ones(1)]}, 8)
    save_state(ckpt, {"w": torch.ones(3), "lr": 0.25, "both": (torch.ones(1), torch.ones(1))}, 9)
    answer = ckpt("diff", "8", "9", "--json")
    found = {line["fqn"]: line for line in answer.lines[:-1]}
    assert found["lr"]["what"] == "value"
    assert (found["lr"]["before"], found["lr"]["after"]) == ("0.5", "0.25")
    assert answer.code == 1
    assert found[""]["what"] == "structure", "a list is no tuple"
    assert "0.5 → 0.25" in ckpt("diff", "8", "9").out


def test_diff_of_what_can_t_be_found_or_read(ckpt):
    assert ckpt("diff", "7", "8").code == 10
    assert ckpt("diff", "7").code == 2
    assert ckpt("save", ckpt.folder / "in.safetensors", "--step", 8).code == 0
    for name in "abc":
        for path in ckpt.fragments(name):
            path.unlink()
    answer = ckpt("diff", "7", "8", "--json")
    assert (answer.code, answer.summary["kind"]) == (4, "DataLost")
