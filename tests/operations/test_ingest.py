"""Files into checkpoints: what is kept, what is refused, and that nothing is committed when a file changes."""

import json
import os
import struct
import subprocess
import sys

import numpy as np
import pytest
from safetensors.numpy import save_file

from ckptstore.commit import About
from ckptstore.errors import ConflictError, KeyCollision, UnsupportedValue, UsageError
from ckptstore.operations import ingest as module
from ckptstore.operations.folder import FILES
from ckptstore.operations.ingest import ingest, plan
from tests.support import RUN, make_store

ABOUT = About("step-1", "step-1", 1)


@pytest.fixture
def store(tmp_path):
    return make_store(tmp_path / "targets")


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "in"
    (made / "sub").mkdir(parents=True)
    save_file({"a": np.arange(6, dtype="f4").reshape(2, 3)}, made / "one.safetensors", metadata={"format": "pt"})
    save_file({"b": np.ones(3, "i8"), "c": np.zeros((0, 2), "f8")}, made / "sub/two.safetensors")
    (made / "config.json").write_text('{"layers": 2}')
    (made / "sub/empty.txt").touch()
    return made


def test_a_folder_is_its_tensors_and_its_other_files(store, folder):
    made = plan(folder)
    assert [file.stored.path for file in made.files] == [
        "config.json",
        "one.safetensors",
        "sub/empty.txt",
        "sub/two.safetensors",
    ]
    manifest = ingest(store.opened, RUN, made, ABOUT)
    assert set(store.index(manifest).tensors) == {"a", "b", "c", "file:config.json", "file:sub/empty.txt", FILES}
    assert (manifest.name, manifest.step, manifest.world) == ("step-1", 1, 1)
    assert manifest.tolerance.targets == 2
    assert store.verify(read_data=True).state == "good"


def test_links_to_files_are_followed_and_links_to_folders_refused(folder, tmp_path):
    (folder / "linked.json").symlink_to(folder / "config.json")
    assert "linked.json" in [file.stored.path for file in plan(folder).files]
    (folder / "linked").symlink_to(tmp_path)
    with pytest.raises(UnsupportedValue, match="link to a folder"):
        plan(folder)


def test_one_name_in_two_files_is_refused(folder):
    save_file({"a": np.ones(1)}, folder / "three.safetensors")
    with pytest.raises(KeyCollision, match=r"one\.safetensors and three\.safetensors both hold 'a'"):
        plan(folder)


def test_what_is_no_file_is_refused(folder):
    os.mkfifo(folder / "pipe")
    with pytest.raises(UnsupportedValue, match="pipe"):
        plan(folder)


@pytest.mark.parametrize(
    "make", [lambda p: p.mkdir(), lambda p: None, lambda p: p.write_text("x")], ids=["empty", "none", "text"]
)
def test_nothing_to_save_is_refused(tmp_path, make):
    make(tmp_path / "x")
    with pytest.raises(UsageError):
        plan(tmp_path / "x")


def test_a_file_that_changes_meanwhile_is_not_committed(store, folder, monkeypatch):
    made = plan(folder)
    real = module.shard_saver

    def saver(*arguments):
        (folder / "config.json").write_text('{"layers": 3}')
        return real(*arguments)

    monkeypatch.setattr(module, "shard_saver", saver)
    with pytest.raises(ConflictError, match=r"config\.json was written to"):
        ingest(store.opened, RUN, made, ABOUT)
    assert store.opened.group.history(RUN).checkpoints == ()


def test_names_that_can_not_be_stored_are_refused_before_anything_is_written(store, tmp_path):
    """A file that is kept whole, and a tensor that is called as it would be."""
    folder = tmp_path / "in"
    folder.mkdir()
    save_file({f"object:{FILES}": np.ones(3)}, folder / "one.safetensors")
    before = store.digest()
    with pytest.raises(KeyCollision):
        ingest(store.opened, RUN, plan(folder), ABOUT)
    assert store.digest() == before


def header(entries, data=b"", length=None):
    text = json.dumps(entries).encode() if not isinstance(entries, bytes) else entries
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def entry(dtype="F32", shape=(2,), offsets=(0, 8)):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


HOSTILE = {
    "too short": b"\x00\x00",
    "header of 2^63 bytes": header({}, length=2**63),
    "header past the end": header({}, length=100),
    "no JSON": header(b"{'a': 1}"),
    "nested without end": header(b"[" * 100_000),
    "a list": header([1]),
    "a name twice": header(b'{"a": {}, "a": {}}'),
    "no entry": header({"a": 7}, b"12345678"),
    "no offsets": header({"a": {"dtype": "F32", "shape": [2]}}, b"12345678"),
    "shape of 2^63": header({"a": entry(shape=(2**63,))}, b"12345678"),
    "negative shape": header({"a": entry(shape=(-2, -1))}, b"12345678"),
    "shape product is not the bytes": header({"a": entry(shape=(3,))}, b"12345678"),
    "past the end": header({"a": entry(shape=(4,), offsets=(0, 16))}, b"12345678"),
    "overlapping": header({"a": entry(), "b": entry(offsets=(4, 12))}, b"123456789012"),
    "a hole": header({"a": entry(), "b": entry(offsets=(12, 20))}, b"1" * 20),
    "a tail": header({"a": entry()}, b"123456789"),
    "unknown dtype": header({"a": entry(dtype="F4")}, b"12345678"),
    "object dtype": header({"a": entry(dtype="object")}, b"12345678"),
    "metadata of numbers": header({"__metadata__": {"a": 1}}),
    "true dtypes that are no JSON": header({"__metadata__": {"ckptstore.dtypes": "{"}}),
    "a true dtype that nobody knows": header({"__metadata__": {"ckptstore.dtypes": '{"a": "float9"}'}}),
    "a true dtype of another size": header(
        {"a": entry("U8", (8,)), "__metadata__": {"ckptstore.dtypes": '{"a": "complex128"}'}}, b"12345678"
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_o62_hostile_safetensors_files_are_refused_by_name(tmp_path, name):
    path = tmp_path / "bad.safetensors"
    path.write_bytes(HOSTILE[name])
    with pytest.raises(UnsupportedValue, match=r"bad\.safetensors"):
        plan(path)


def test_saving_a_file_holds_the_window_and_not_the_file(tmp_path):
    """Anonymous memory; the file's own pages are the kernel's to drop."""
    size = 160 << 20
    script = f"""
import re, sys
from pathlib import Path
from tests.support import make_store, RUN
from tests.operations.test_ingest import ABOUT
from ckptstore.operations.ingest import ingest, plan
import ckptstore.operations.restore, ckptstore.source
def anonymous():
    return int(re.search(r"RssAnon:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) << 10
store = make_store(Path({str(tmp_path / "t")!r}), fragment_size="1MiB", window="32MiB")
before = anonymous()
peak = 0
def watch(event):
    global peak
    peak = max(peak, anonymous())
ingest(store.opened, RUN, plan(Path({str(tmp_path / "big.safetensors")!r})), ABOUT, watch)
saved = peak - before
from ckptstore.operations.restore import plan_restore, restore
source = store.source(observer=watch)
restore(source, plan_restore(source, Path({str(tmp_path / "again.safetensors")!r})), watch)
print(saved, peak - before)
"""
    save_file({f"t{i}": np.full(size // 8, i, np.uint8) for i in range(8)}, tmp_path / "big.safetensors")
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    saved, restored = map(int, done.stdout.split())
    allowed = (32 + 64) << 20  # the window, and 64 MiB for everything else
    assert saved < allowed
    assert restored < allowed
    assert (tmp_path / "again.safetensors").read_bytes() == (tmp_path / "big.safetensors").read_bytes()
