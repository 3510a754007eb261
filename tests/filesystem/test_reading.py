"""Paths, listings and ranges: cases O08, O20, O67, O69."""

import os
import pickle
import posixpath
import subprocess
import sys
import tomllib
import urllib.parse
from importlib import import_module
from pathlib import Path

import fsspec
import numpy as np
import pytest
from fsspec.core import url_to_fs

import ckptstore
from ckptstore.errors import ConfigError, OutOfReach, UsageError
from ckptstore.filesystem import CheckpointFileSystem
from ckptstore.opened import shared
from ckptstore.operations.restore import plan_restore, restore
from ckptstore.selection import Selector, select
from ckptstore.source import Source
from ckptstore.targets import MeterTarget
from tests.filesystem.conftest import NAMES, STRIPE
from tests.filesystem.test_writing import big, commit_one, elsewhere

ROOT = Path(__file__).parent.parent.parent


def fill(fs, place):
    """A directory of three files, one of them in a folder and of several stripes."""
    files = {"a.bin": b"0123456789", "sub/big.bin": big(), ".metadata": b"{}"}
    fs.pipe({f"{place.url}/step-1/{name}": data for name, data in files.items()})
    elsewhere()
    return files


# -- paths ----------------------------------------


def test_the_entry_point_names_the_class():
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["fsspec.specs"]
    module, _, name = declared["ckpt"].partition(":")
    assert getattr(import_module(module), name) is CheckpointFileSystem


@pytest.mark.parametrize(
    "change",
    [
        lambda url: os.path.join(url, "step-1", "a.bin"),  # noqa: PTH118 - as foreign code does
        lambda url: f"{url}//step-1/./a.bin",
        lambda url: f"{url}/step-1/a.bin/",
        lambda url: f"{url}/x/../step-1/a.bin",
        lambda url: f"{url}/step-1/a.bin".removeprefix("ckpt://"),
        lambda url: posixpath.normpath(f"{url}/step-1/a.bin"),
        lambda url: Path(f"{url}/step-1/a.bin"),
        lambda url: posixpath.normpath(f"{url}/step-1/a.bin".removeprefix("ckpt://")),
        lambda url: urllib.parse.urlunsplit(urllib.parse.urlsplit(f"{url}/step-1/a.bin")),
    ],
)
def test_o08_every_spelling_of_a_path_means_the_same(fs, place, change):
    fill(fs, place)
    assert fs.cat_file(change(place.url)) == b"0123456789"


def test_o08_what_is_returned_can_be_given_back(fs, place):
    fill(fs, place)
    found, root = url_to_fs(f"{place.url}/step-1")
    assert (found, root) == (fs, f"{place.root}/step-1")
    for path in fs.find(root):
        assert fs.info(path)["name"] == path == fs._strip_protocol(fs.unstrip_protocol(path))
        assert fs._parent(path).startswith(root)
    assert fs._parent(place.root) == f"{place.folder}/store.toml!"


def test_a_relative_path_is_made_absolute_at_once(fs, place, monkeypatch):
    fill(fs, place)
    monkeypatch.chdir(place.folder)
    found, root = url_to_fs("ckpt://store.toml!train/step-1")
    monkeypatch.chdir("/")
    assert found.cat_file(f"{root}/a.bin") == b"0123456789"


def test_nothing_before_the_mark_means_the_store_of_the_environment(fs, place, monkeypatch):
    fill(fs, place)
    monkeypatch.setenv("CKPT_STORE", str(place.folder / "store.toml"))
    assert fs.cat_file("ckpt://!train/step-1/a.bin") == b"0123456789"
    assert fs.ls("ckpt://!train", detail=False) == ["!train/step-1"]


def test_a_path_that_names_no_run_says_how_to_write_one(fs, place):
    with pytest.raises(UsageError, match=r"store\.toml!run"):
        fs.ls("ckpt:///some/folder/step-1")
    with pytest.raises(UsageError, match="run"):
        fs.ls(f"{place.folder}/store.toml!No Run/step-1")
    with pytest.raises(ConfigError):
        fs.exists("ckpt:///no/such/store.toml!train/step-1")


# -- looking ----------------------------------------


def test_runs_checkpoints_folders_and_files_are_listed(fs, place):
    fill(fs, place)
    assert fs.ls(f"ckpt://{place.folder}/store.toml!", detail=False) == [place.root]
    assert fs.ls(place.url, detail=False) == [f"{place.root}/step-1"]
    listed = {info["name"].removeprefix(f"{place.root}/step-1/"): info for info in fs.ls(f"{place.url}/step-1")}
    assert {name: (info["type"], info["size"]) for name, info in listed.items()} == {
        ".metadata": ("file", 2),
        "a.bin": ("file", 10),
        "sub": ("directory", 0),
    }
    assert fs.find(place.url, maxdepth=2) == [f"{place.root}/step-1/.metadata", f"{place.root}/step-1/a.bin"]
    assert fs.du(place.url) == 12 + len(big())
    assert [len(files) for _, _, files in fs.walk(place.url)] == [0, 2, 1]
    assert fs.isdir(f"{place.url}/step-1/sub") and not fs.isfile(f"{place.url}/step-1/sub")  # noqa: PT018
    with pytest.raises(FileNotFoundError):
        fs.ls(f"{place.url}/step-2")
    with pytest.raises(FileNotFoundError):
        fs.open(f"{place.url}/step-1/nothing")
    with pytest.raises(IsADirectoryError):
        fs.open(f"{place.url}/step-1/sub")


def test_a_store_out_of_reach_is_no_empty_one(fs, place):
    fill(fs, place)
    for name in NAMES[:4]:
        (place.folder / name).rename(place.folder / f"{name}.away")
    for ask in (fs.exists, fs.isdir, fs.isfile, fs.ls, fs.glob):
        with pytest.raises(OutOfReach):
            ask(f"{place.url}/step-1")


READER = """
import sys, fsspec
from ckptstore.filesystem import CheckpointFileSystem
fsspec.register_implementation("ckpt", CheckpointFileSystem, clobber=True)
fs = CheckpointFileSystem()
for line in sys.stdin:
    url = line.strip()
    try:
        names = sorted(path.rpartition("/")[2] for path in fs.ls(url, detail=False))
        told = fs.cat_file(url).decode() if fs.isfile(url) else names
    except FileNotFoundError:
        told = "not found"
    print(told, flush=True)
"""


def test_o20_another_process_sees_what_is_committed_and_deleted_at_once(fs, place):
    """O67 too: no listing is kept, and none has to expire."""
    reader = subprocess.Popen(
        [sys.executable, "-c", READER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    )

    def ask(path):
        reader.stdin.write(f"{place.url}{path}\n")
        return reader.stdout.readline().strip()

    try:
        commit_one(fs, place)
        assert ask("") == "['step-1']"
        fs.pipe_file(f"{place.url}/step-2/a", b"new")
        assert ask("/step-2/a") == "not found"
        fs.commit(f"{place.url}/step-2")
        assert ask("/step-2/a") == "new"
        fs.rm(f"{place.url}/step-1", recursive=True)
        assert ask("") == "['step-2']"
        assert ask("/step-1/model.pt") == "not found"
    finally:
        reader.stdin.close()
        reader.wait(timeout=30)


# -- reading ----------------------------------------


@pytest.mark.parametrize(
    ("start", "end"),
    [
        (None, None),
        (0, 0),
        (5, 9),
        (STRIPE - 3, STRIPE + 3),
        (-4, None),
        (None, -4),
        (7, 3),
        (0, 10**12),
        (-(10**12), 2),
    ],
)
def test_ranges_are_those_of_a_slice(fs, place, start, end):
    data = fill(fs, place)["sub/big.bin"]
    assert fs.cat_file(f"{place.url}/step-1/sub/big.bin", start, end) == data[start:end]


def test_ranges_of_many_files_are_read_together(fs, place):
    files = fill(fs, place)
    paths = [f"{place.url}/step-1/{name}" for name in ("a.bin", "sub/big.bin", "a.bin", "nothing")]
    read = fs.cat_ranges(paths, [1, STRIPE, -2, 0], [4, STRIPE + 9, None, 1], on_error="return")
    assert read[:3] == [b"123", files["sub/big.bin"][STRIPE : STRIPE + 9], b"89"]
    assert isinstance(read[3], FileNotFoundError)
    with pytest.raises(FileNotFoundError):
        fs.cat_ranges(paths, [0] * 4, [1] * 4)


def test_o69_a_small_range_of_a_large_file_reads_little(fs, place):
    data = fill(fs, place)["sub/big.bin"]
    opened = shared(place.run.config)
    meters = {name: MeterTarget(target) for name, target in opened.targets.items()}
    opened.targets = dict(meters)
    assert fs.cat_file(f"{place.url}/step-1/sub/big.bin", 1000, 1010) == data[1000:1010]
    read = sum(meter.bytes_read for meter in meters.values())
    assert read < 4 * 64 * 1024, "documents, and a fragment or two: not the 800 KB of the file"


def test_an_open_file_seeks_and_stays_as_it_was(fs, place):
    data = fill(fs, place)["sub/big.bin"]
    with fs.open(f"{place.url}/step-1/sub/big.bin", "rb", block_size=1000) as file:
        assert file.read(10) == data[:10]
        fs.pipe({f"{place.url}/step-1/sub/big.bin": b"new", f"{place.url}/step-1/.metadata": b"v2"})
        assert file.seek(-5, 2) == len(data) - 5
        assert file.read() == data[-5:]
        file.seek(STRIPE - 2)
        into = bytearray(5)
        assert file.readinto(into) == 5
        assert into == data[STRIPE - 2 : STRIPE + 3]
    assert fs.cat_file(f"{place.url}/step-1/sub/big.bin") == b"new"


def test_lost_targets_are_no_hindrance_and_lost_bits_are_found(fs, place):
    data = fill(fs, place)["sub/big.bin"]
    fragment = next(path for path in (place.folder / "a" / "data").rglob("*.00*") if path.stat().st_size > 1000)
    damaged = bytearray(fragment.read_bytes())
    damaged[500] ^= 4
    fragment.write_bytes(damaged)
    (place.folder / "b").rename(place.folder / "b.away")
    assert fs.cat_file(f"{place.url}/step-1/sub/big.bin") == data


def test_a_file_and_its_file_system_can_be_pickled(fs, place):
    data = fill(fs, place)["sub/big.bin"]
    assert pickle.loads(pickle.dumps(fs)) == fs
    with fs.open(f"{place.url}/step-1/sub/big.bin", "rb") as file:
        file.seek(7)
        with pickle.loads(pickle.dumps(file)) as again:
            assert again.read(9) == data[7:16]
    of = pickle.loads(pickle.dumps(fsspec.open(f"{place.url}/step-1/a.bin", "rb")))
    with of as file:
        assert file.read() == b"0123456789"


def test_o48_a_forked_child_reads_and_has_nothing_of_what_its_parent_staged(fs, place):
    fill(fs, place)
    fs.pipe_file(f"{place.url}/step-9/mine", b"x")
    child = os.fork()
    if child == 0:
        good = fs.cat_file(f"{place.url}/step-1/a.bin") == b"0123456789" and not fs.exists(f"{place.url}/step-9")
        os._exit(0 if good else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert fs.exists(f"{place.url}/step-9/mine")


# -- what else is in a store ----------------------------------------


def test_the_store_s_own_commands_work_on_it(fs, place, tmp_path):
    files = fill(fs, place)
    run = place.run
    assert run.verify(read_data=True).checkpoints[0].state == "good"
    for path in (place.folder / "c" / "data").rglob("*.00*"):
        path.unlink()
    assert run.verify().checkpoints[0].state == "degraded"
    run.repair()
    assert run.verify(read_data=True).checkpoints[0].state == "good"
    assert run.drill().exit_code == 0
    other = ckptstore.open(run.config).run("copied")
    assert run.copy(other).exit_code == 0
    assert fs.cat_file(f"{place.folder}/store.toml!copied/step-1/sub/big.bin") == files["sub/big.bin"]
    opened = shared(run.config)
    source = Source.open(opened, select(opened, "copied", Selector()))
    restore(source, plan_restore(source, tmp_path / "back"))
    assert {name: (tmp_path / "back" / name).read_bytes() for name in files} == files


def test_a_checkpoint_of_tensors_shows_as_the_folder_it_would_be_restored_to(fs, place):
    torch = pytest.importorskip("torch")
    from safetensors.torch import load

    state = {"w": torch.arange(60.0).reshape(6, 10), "b": torch.ones(3, dtype=torch.bfloat16)}
    place.run.save(state, step=3)
    assert fs.ls(f"{place.url}/step-3", detail=False) == [f"{place.root}/step-3/tensors.safetensors"]
    read = load(fs.cat_file(f"{place.url}/step-3/tensors.safetensors"))
    assert all(torch.equal(read[name], tensor) for name, tensor in state.items())
    data = np.frombuffer(fs.cat_file(f"{place.url}/step-3/tensors.safetensors"), np.uint8)
    assert fs.cat_file(f"{place.url}/step-3/tensors.safetensors", 300, 330) == data[300:330].tobytes()
