"""What is written shows when it is whole, and to others when its directory is committed: cases O04, O20, O38, O44."""

import gc
import io
import os
import tracemalloc

import fsspec
import numpy as np
import pytest

import ckptstore
from ckptstore.errors import NotFoundError, UsageError
from ckptstore.filesystem import staging
from ckptstore.notices import FileDiscardedWarning
from tests.filesystem.conftest import STRIPE


class Stop(Exception):
    """What training raises."""


def elsewhere():
    """As another process sees the store: with nothing staged."""
    staging._ALL.clear()


def commit_one(fs, place, data=b"old"):
    fs.pipe_file(f"{place.url}/step-1/model.pt", data)
    fs.pipe_file(f"{place.url}/step-1/.metadata", b"{}")


def big(stripes=3, extra=77):
    return np.random.default_rng(0).bytes(stripes * STRIPE + extra)


# -- O04: an exception publishes nothing ----------------------------------------


def by_file(fs, url):
    return fs.open(url, "wb")


def by_text(fs, url):
    return fs.open(url, "w")


def by_url(_fs, url):
    return fsspec.open(url, "wb")


def by_text_url(_fs, url):
    return fsspec.open(url, "w")


def by_compressed_url(_fs, url):
    return fsspec.open(url, "wb", compression="gzip")


@pytest.mark.filterwarnings("ignore::ckptstore.notices.FileDiscardedWarning")
@pytest.mark.parametrize("how", [by_file, by_text, by_url, by_text_url, by_compressed_url])
@pytest.mark.parametrize("size", [10, 2 * STRIPE + 10])
def test_o04_an_exception_in_the_block_publishes_nothing(fs, place, how, size):
    commit_one(fs, place)
    before = place.objects()
    data = "x" * size if "text" in how.__name__ else os.urandom(size)
    with pytest.raises(Stop), how(fs, f"{place.url}/step-1/model.pt") as file:  # noqa: PT012 - it is about the block
        file.write(data)
        raise Stop
    gc.collect()
    assert fs.cat_file(f"{place.url}/step-1/model.pt") == b"old"
    assert place.objects() <= before + 6, "only the note that a save began is left"


@pytest.mark.parametrize("mode", ["wb", "w"])
def test_o04_a_handle_that_is_dropped_publishes_nothing(fs, place, mode):
    file = fs.open(f"{place.url}/step-1/model.pt", mode)
    file.write("half" if mode == "w" else b"half")
    del file
    gc.collect()
    assert not fs.exists(f"{place.url}/step-1/model.pt")


def test_o04_a_text_handle_of_a_url_that_is_dropped_publishes_nothing(fs, place):
    file = fsspec.open(f"{place.url}/step-1/model.pt", "w").open()
    file.write("half")
    del file
    gc.collect()
    assert not fs.exists(f"{place.url}/step-1/model.pt")


def test_o04_a_clean_close_of_nothing_makes_an_empty_file(fs, place):
    with fs.open(f"{place.url}/step-1/empty", "wb"):
        pass
    fs.commit(f"{place.url}/step-1")
    elsewhere()
    assert fs.info(f"{place.url}/step-1/empty")["size"] == 0
    assert fs.cat_file(f"{place.url}/step-1/empty") == b""


def test_a_file_written_while_an_exception_is_handled_is_stored(fs, place):
    try:
        raise Stop  # noqa: TRY301
    except Stop:
        with fs.open(f"{place.url}/step-1/why.txt", "w") as file:
            file.write("it stopped")
    assert fs.cat_file(f"{place.url}/step-1/why.txt") == b"it stopped"


def test_closing_in_a_finally_says_what_is_not_stored(fs, place):
    file = fs.open(f"{place.url}/step-1/model.pt", "wb")

    def write():
        try:
            file.write(b"half")
            raise Stop
        finally:
            file.close()

    with pytest.warns(FileDiscardedWarning, match=r"model\.pt is not stored.*Stop"), pytest.raises(Stop):
        write()
    assert not fs.exists(f"{place.url}/step-1/model.pt")


# -- streams ----------------------------------------


@pytest.mark.parametrize("size", [1, STRIPE - 1, STRIPE, STRIPE + 1, 3 * STRIPE, 3 * STRIPE + 77])
def test_files_of_every_length_come_back_and_verify(fs, place, size):
    data = np.random.default_rng(size).bytes(size)
    with fs.open(f"{place.url}/step-1/model.pt", "wb") as file:
        for start in range(0, size, 100_001):
            assert file.write(data[start : start + 100_001]) == len(data[start : start + 100_001])
        assert file.tell() == size
    assert fs.cat_file(f"{place.url}/step-1/model.pt") == data
    fs.commit(f"{place.url}/step-1")
    elsewhere()
    assert fs.cat_file(f"{place.url}/step-1/model.pt") == data
    assert place.run.verify(read_data=True).checkpoints[0].state == "good"


def test_o38_one_write_of_many_stripes_takes_the_memory_of_few(fs, place):
    data = memoryview(big(40))
    tracemalloc.start()
    try:
        with fs.open(f"{place.url}/step-1/model.pt", "wb") as file:
            assert file.write(data) == len(data)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 5 * STRIPE, "beside the store's window, which is not on the heap"
    assert fs.cat_file(f"{place.url}/step-1/model.pt", -STRIPE) == data[-STRIPE:]


def test_arrays_and_other_buffers_can_be_written(fs, place):
    with fs.open(f"{place.url}/step-1/model.pt", "wb") as file:
        assert file.write(np.arange(4, dtype="<u4")) == 16
        assert file.write(bytearray(b"ab")) == 2
    assert fs.cat_file(f"{place.url}/step-1/model.pt") == np.arange(4, dtype="<u4").tobytes() + b"ab"


@pytest.mark.parametrize("mode", ["ab", "r+b"])
def test_modes_that_change_what_is_stored_are_refused(fs, place, mode):
    commit_one(fs, place)
    with pytest.raises(UsageError, match="mode"):
        fs.open(f"{place.url}/step-1/model.pt", mode)


# -- directories that become checkpoints ----------------------------------------


@pytest.mark.parametrize("marker", [".metadata", "_SUCCESS", "latest"])
def test_a_directory_is_a_checkpoint_when_its_marker_is_written(fs, place, marker):
    fs.pipe_file(f"{place.url}/step-7/a/b.bin", b"data")
    assert place.run.checkpoints() == []
    fs.pipe_file(f"{place.url}/step-7/{marker}", b"mark")
    (checkpoint,) = place.run.checkpoints()
    assert (checkpoint.name, checkpoint.step, checkpoint.tolerance.targets) == ("step-7", 7, 2)
    elsewhere()
    assert set(fs.find(f"{place.url}/step-7")) == {f"{place.root}/step-7/{marker}", f"{place.root}/step-7/a/b.bin"}


def test_a_marker_may_be_moved_to_its_name(fs, place):
    fs.pipe_file(f"{place.url}/step-7/b.bin", b"data")
    fs.pipe_file(f"{place.url}/step-7/.metadata.tmp", b"mark")
    assert place.run.checkpoints() == []
    fs.mv(f"{place.url}/step-7/.metadata.tmp", f"{place.url}/step-7/.metadata")
    assert place.run.latest().name == "step-7"
    elsewhere()
    assert fs.cat_file(f"{place.url}/step-7/.metadata") == b"mark"
    assert place.run.verify(read_data=True).checkpoints[0].state == "good"


def test_until_then_nobody_else_sees_anything(fs, place):
    fs.pipe_file(f"{place.url}/step-7/b.bin", b"data")
    assert fs.isfile(f"{place.url}/step-7/b.bin"), "this process does"
    elsewhere()
    assert fs.ls(place.url) == []
    assert not fs.exists(f"{place.url}/step-7")


def test_writing_over_a_committed_directory_makes_a_new_version(fs, place):
    commit_one(fs, place)
    fs.pipe_file(f"{place.url}/step-1/extra.json", b"{}")
    fs.pipe_file(f"{place.url}/step-1/model.pt", b"new")
    elsewhere_sees = ckptstore.open(place.folder / "store.toml").run("train").latest()
    fs.rm_file(f"{place.url}/step-1/.metadata")
    fs.pipe_file(f"{place.url}/step-1/.metadata", b"v2")
    first, second = place.run.checkpoints()
    assert first == elsewhere_sees
    assert (first.name, second.name) == ("step-1", "step-1")
    elsewhere()
    assert fs.cat(f"{place.url}/step-1/*") == {
        f"{place.root}/step-1/.metadata": b"v2",
        f"{place.root}/step-1/extra.json": b"{}",
        f"{place.root}/step-1/model.pt": b"new",
    }


def test_what_is_neither_written_over_nor_removed_stays_in_the_new_version(fs, place):
    data = big()
    for name, content in {"keep.bin": data, "drop.bin": b"x", "sub/deep.bin": b"y"}.items():
        fs.pipe_file(f"{place.url}/step-1/{name}", content)
    fs.commit(f"{place.url}/step-1")
    fs.rm(f"{place.url}/step-1/drop.bin")
    fs.pipe_file(f"{place.url}/step-1/_SUCCESS", b"")
    place.run.delete(place.run.checkpoints()[0])
    place.run.prune(keep_last=1, grace="0s")
    elsewhere()
    assert fs.cat_file(f"{place.url}/step-1/keep.bin") == data
    assert not fs.exists(f"{place.url}/step-1/drop.bin")
    assert fs.cat_file(f"{place.url}/step-1/sub/deep.bin") == b"y"


def test_a_commit_of_nothing_is_refused(fs, place):
    commit_one(fs, place)
    with pytest.raises(NotFoundError, match="nothing waits"):
        fs.commit(f"{place.url}/step-1")


def test_a_file_of_the_run_itself_is_a_checkpoint(fs, place):
    with fsspec.open(f"{place.url}/epoch=3-step=40.ckpt", "wb") as file:
        file.write(big())
    elsewhere()
    assert fs.cat_file(f"{place.url}/epoch=3-step=40.ckpt") == big()
    assert fs.isfile(f"{place.url}/epoch=3-step=40.ckpt")
    assert place.run.latest().name == "epoch=3-step=40.ckpt"
    with pytest.raises(UsageError, match="a run is no checkpoint"):
        fs.pipe_file(f"{place.url}/latest", b"step-1")


def test_many_files_put_at_once_count_as_one(fs, place, tmp_path):
    """Sorted by name, the marker comes first."""
    for name in (".metadata", "__0_0.distcp", "__1_0.distcp"):
        (tmp_path / "from").mkdir(exist_ok=True)
        (tmp_path / "from" / name).write_text(name)
    fs.put(str(tmp_path / "from"), f"{place.url}/step-1", recursive=True)
    fs.copy(f"{place.url}/step-1", f"{place.url}/step-2", recursive=True)
    assert [c.name for c in place.run.checkpoints()] == ["step-1", "step-2"]
    elsewhere()
    fs.get(f"{place.url}/step-2", str(tmp_path / "back"), recursive=True)
    assert sorted(path.name for path in (tmp_path / "back").iterdir()) == [
        ".metadata",
        "__0_0.distcp",
        "__1_0.distcp",
    ]


def test_a_directory_moved_before_its_commit_is_not_written_again(fs, place):
    fs.pipe_file(f"{place.url}/tmp-5/sub/b.bin", big())
    before = place.objects()
    fs.mv(f"{place.url}/tmp-5", f"{place.url}/step-5", recursive=True)
    assert place.objects() == before, "one note instead of another"
    fs.touch(f"{place.url}/step-5/_SUCCESS")
    elsewhere()
    assert fs.ls(place.url, detail=False) == [f"{place.root}/step-5"]
    assert fs.cat_file(f"{place.url}/step-5/sub/b.bin") == big()


def test_a_committed_directory_moves_too(fs, place):
    commit_one(fs, place, big())
    fs.mv(f"{place.url}/step-1", f"{place.url}/step-2", recursive=True)
    elsewhere()
    assert fs.cat_file(f"{place.url}/step-2/model.pt") == big()
    assert not fs.exists(f"{place.url}/step-1")


# -- transactions ----------------------------------------


def test_a_transaction_commits_what_it_wrote(fs, place):
    with fs.transaction:
        fs.pipe_file(f"{place.url}/step-1/a", b"1")
        fs.pipe_file(f"{place.url}/step-1/sub/b", b"2")
        assert not fs.exists(f"{place.url}/step-1/a")
    assert [c.name for c in place.run.checkpoints()] == ["step-1"]
    elsewhere()
    assert fs.cat_file(f"{place.url}/step-1/sub/b") == b"2"


def test_a_transaction_of_one_file_makes_a_checkpoint_of_that(fs, place):
    for epoch in (1, 2):
        with fs.transaction, fs.open(f"{place.url}/checkpoints/epoch={epoch}.ckpt", "wb") as file:
            file.write(f"epoch {epoch}".encode())
    elsewhere()
    assert [c.name for c in place.run.checkpoints()] == ["epoch=1.ckpt", "epoch=2.ckpt"]
    assert fs.cat_file(f"{place.url}/checkpoints/epoch=1.ckpt") == b"epoch 1"
    fs.rm(f"{place.url}/checkpoints/epoch=1.ckpt")
    assert [c.name for c in place.run.checkpoints()] == ["epoch=2.ckpt"]


def test_a_transaction_that_fails_leaves_nothing(fs, place):
    commit_one(fs, place)
    before = place.objects()
    with pytest.raises(Stop), fs.transaction:  # noqa: PT012 - it is about the block
        fs.pipe_file(f"{place.url}/step-1/model.pt", big())
        fs.pipe_file(f"{place.url}/step-1/.metadata", b"v2")
        raise Stop
    assert fs.cat_file(f"{place.url}/step-1/model.pt") == b"old"
    assert place.objects() <= before + 6, "only the note that a save began is left"
    fs.pipe_file(f"{place.url}/step-2/a", b"1")
    assert fs.exists(f"{place.url}/step-2/a"), "the file system works on"


# -- names ----------------------------------------


@pytest.mark.parametrize("name", ["a[1]*?.pt", "ü ñ.pt", "a#b%20c+d&e=f.pt", "a!b.pt", "...", "{x}.pt"])
def test_o44_names_are_taken_literally(fs, place, name):
    fs.pipe_file(f"{place.url}/step-1/{name}", b"data")
    fs.pipe_file(f"{place.url}/step-1/other.txt", b"other")
    fs.commit(f"{place.url}/step-1")
    elsewhere()
    assert fs.glob(f"{place.url}/step-1/{name}") == [f"{place.root}/step-1/{name}"]
    assert fs.cat(f"{place.url}/step-1/{name}") == b"data"
    fs.rm(f"{place.url}/step-1/{name}")
    assert fs.ls(f"{place.url}/step-1", detail=False) == [f"{place.root}/step-1/other.txt"]


@pytest.mark.parametrize("name", ["x" * 256, "a\0b", "\udcff"])
def test_names_that_no_folder_can_hold_are_refused_before_anything_is_written(fs, place, name):
    before = place.objects()
    with pytest.raises(UsageError):
        fs.open(f"{place.url}/step-1/{name}", "wb")
    assert place.objects() == before


def test_a_compressed_file_is_written_by_its_url(fs, place):
    with fsspec.open(f"{place.url}/step-1/a.gz", "wt", compression="gzip") as file:
        file.write("text")
    with fsspec.open(f"{place.url}/step-1/a.gz", "rt", compression="gzip") as file:
        assert file.read() == "text"
    with pytest.raises(UsageError, match="compressed"):
        fs.open(f"{place.url}/step-1/a.gz", "wb", compression="gzip")


def test_a_text_file_keeps_its_encoding(fs, place):
    with fs.open(f"{place.url}/step-1/a.txt", "w", encoding="latin-1") as file:
        file.write("ü")
    with fs.open(f"{place.url}/step-1/a.txt", "r", encoding="latin-1") as file:
        assert file.read() == "ü"
        assert isinstance(file, io.TextIOWrapper)
