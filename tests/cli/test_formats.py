"""`ckpt import` and `ckpt export`: what they say, to a person and to a script, and how they exit."""

import json
import os
from pathlib import Path

import numpy as np
import torch
from safetensors.numpy import load_file, save_file


class Evil:
    def __reduce__(self):
        return os.system, ("touch ran-code",)


def test_a_model_goes_out_in_shards_and_comes_in_again(ckpt):
    out = ckpt.folder / "model"
    answer = ckpt("export", out, "--max-shard-size", "1MB", "--dry-run")
    assert answer.code == 0
    assert "would write" in answer.out
    assert not out.exists()
    answer = ckpt("export", out, "--max-shard-size", "1MB", "--json")
    summary = answer.summary
    assert (answer.code, summary["command"], summary["format"], summary["tensors"]) == (0, "export", "hf", 5)
    assert [Path(path).name for path in summary["files"]][-1] == "model.safetensors.index.json"
    assert "every byte verified" in ckpt("export", ckpt.folder / "one").out
    (out / "pytorch_model.bin").touch()
    answer = ckpt("import", out, "--step", 8, "--dry-run")
    assert (answer.code, "would save" in answer.out) == (0, True)
    answer = ckpt("import", out, "--step", 8, "--json")
    assert (answer.code, answer.summary["command"], answer.summary["format"]) == (0, "import", "hf")
    assert answer.summary["left_out"] == ["pytorch_model.bin"]
    assert "not taken: pytorch_model.bin" in answer.err
    assert answer.summary["checkpoint"]["name"] == "step-8"
    assert ckpt("restore", ckpt.folder / "again.safetensors", "--step", 8).code == 0
    found, wanted = load_file(ckpt.folder / "again.safetensors"), load_file(ckpt.folder / "in.safetensors")
    assert {n: (a.dtype, a.tobytes()) for n, a in found.items()} == {
        n: (a.dtype, a.tobytes()) for n, a in wanted.items()
    }


def test_what_can_not_be_is_told_by_kind_and_nothing_is_written(ckpt, monkeypatch):
    monkeypatch.chdir(ckpt.folder)
    torch.save({"x": Evil()}, "bomb.pt")
    save_file({"w": np.ones(3)}, "w.safetensors")
    (ckpt.folder / "bad").mkdir()
    (ckpt.folder / "bad/model.safetensors.index.json").write_text(json.dumps({"weight_map": {"w": "gone.safetensors"}}))
    before = ckpt("ls", "--json").summary["checkpoints"]
    for arguments, code, kind in [
        (["import", "bomb.pt", "--step", 8], 2, "UnsupportedValue"),
        (["import", "bad", "--step", 8], 2, "UnsupportedValue"),
        (["import", "nowhere", "--step", 8], 2, "UsageError"),
        (["import", "store.toml", "--step", 8], 2, "UsageError"),
        (["import", "w.safetensors"], 2, "UsageError"),
        (["import", "w.safetensors", "--step", 8, "--format", "zip"], 2, "UsageError"),
        (["export", "in.safetensors"], 2, "UsageError"),
        (["export", "bad"], 2, "UsageError"),
        (["export", "out", "--max-shard-size", "much"], 2, "ConfigError"),
        (["export", "out", "--prefix", "nothing."], 10, "NotFoundError"),
        (["export", "out", "--step", 99], 10, "NotFoundError"),
    ]:
        answer = ckpt(*arguments, "--json")
        assert (answer.code, answer.summary["kind"]) == (code, kind), arguments
        assert answer.summary["hint"]
    assert not (ckpt.folder / "ran-code").exists()
    assert not (ckpt.folder / "out").exists()
    assert ckpt("ls", "--json").summary["checkpoints"] == before
