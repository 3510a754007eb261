"""What only a directory does: short writes, full disks, links, leftovers, a root that vanishes."""

import errno
import os
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from ckptstore.errors import AccessDenied, NoSpace, ObjectNotFound, ShortObject, TargetUnavailable, TargetUnusable
from ckptstore.targets import DirectoryTarget, Reason
from ckptstore.targets.posix import error_for
from ckptstore.targets.unfinished import TEMPORARY


@pytest.fixture
def root(tmp_path):
    return tmp_path / "root"


@pytest.fixture
def target(root):
    target = DirectoryTarget("d", root)
    target.create_root()
    return target


def files(root):
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_o38_short_writes_are_continued(target, monkeypatch):
    """A write() that accepts at most 1000 bytes per call: bit-equal all the same."""
    whole = os.write
    calls = []

    def short(file, data):
        calls.append(len(data))
        return whole(file, bytes(data[:1000]))

    monkeypatch.setattr(os, "write", short)
    data = os.urandom(123_456)
    target.put("a/b", [data[:100_000], data[100_000:]])
    assert target.put_if_absent("a/c", data)
    assert len(calls) > 2 * 123
    assert bytes(target.get("a/b")) == bytes(target.get("a/c")) == data


def test_o38_short_reads_are_continued(target, monkeypatch):
    whole = os.preadv
    monkeypatch.setattr(os, "preadv", lambda file, into, start: whole(file, [into[0][:1000]], start))
    data = os.urandom(10_500)
    target.put("a", data)
    assert bytes(target.get("a")) == data
    memory = bytearray(5000)
    target.get_into("a", memoryview(memory), start=123)
    assert memory == data[123:5123]


def test_o38_offsets_past_4_gib_of_a_sparse_object(target, root):
    """A shard offset of 5 GiB: nothing on the way keeps 32 bits of it."""
    offset = 5 << 30
    with (root / "sparse").open("wb") as file:
        file.seek(offset)
        file.write(b"beyond")
    memory = bytearray(6)
    target.get_into("sparse", memoryview(memory), start=offset)
    assert memory == bytes(target.get("sparse", start=offset)) == b"beyond"
    assert target.head("sparse").size == offset + 6


def test_a_file_too_large_for_the_system_is_no_space_and_leaves_nothing(target, root):
    """The kernel takes part of the bytes and then refuses: a real short write, then an error."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        with pytest.raises(NoSpace) as caught:
            target.put("a/b", bytes(200_000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)
    assert (caught.value.target, caught.value.path, caught.value.transient) == ("d", "a/b", False)
    assert files(root) == []


def test_a_full_disk_is_no_space_and_leaves_nothing(target, monkeypatch, root):
    whole = os.write

    def full(file, data):
        if len(data) <= 50_000:
            raise OSError(errno.ENOSPC, "full")
        return whole(file, data[:50_000])

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(NoSpace, match="No space left"):
        target.put("a/b", bytes(100_000))
    assert files(root) == []


def test_a_failed_put_leaves_the_old_object(target, monkeypatch, root):
    target.put("a", b"old")
    monkeypatch.setattr(os, "fsync", lambda file: (_ for _ in ()).throw(OSError(errno.EIO, "broken")))
    with pytest.raises(TargetUnavailable) as caught:
        target.put("a", b"new")
    assert caught.value.reason == Reason.GONE
    monkeypatch.undo()
    assert bytes(target.get("a")) == b"old"
    assert files(root) == ["a"]


def test_file_and_folders_are_synced_before_success(target, monkeypatch, root):
    """Data, then the name, then the folder that holds the name; and each folder made on the way in its parent."""
    log = []
    fsync, link = os.fsync, os.link

    def name(file):
        return str(Path(f"/proc/self/fd/{file}").readlink().relative_to(root))

    monkeypatch.setattr(os, "fsync", lambda file: (log.append(name(file)), fsync(file)))
    monkeypatch.setattr(os, "link", lambda *a, **k: (log.append("link"), link(*a, **k)))
    target.put_if_absent("x/y/z", b"1")
    assert log[-2:] == ["link", "x/y"]
    before = log[: log.index("link")]
    assert any(entry.startswith(TEMPORARY + "/") for entry in before)
    assert {".", "x"} <= set(before)


def test_without_fsync_only_what_must_be_absent_is_synced(root, monkeypatch):
    target = DirectoryTarget("a", root, fsync=False)
    target.create_root()
    target.put("x/first", b"1")  # makes the folders, durably: a folder that is lost takes a commit record with it
    synced = []
    monkeypatch.setattr(os, "fsync", synced.append)
    target.put("x/fragment", b"2")
    assert synced == []
    assert target.put_if_absent("x/vote", b"3")
    assert len(synced) == 2
    assert sorted(files(root)) == ["x/first", "x/fragment", "x/vote"]


def test_unfinished_files_are_no_objects(target, root):
    target.put("a", b"1")
    (root / TEMPORARY / "123-abc").write_bytes(b"half")
    assert [entry.path for entry in target.list("")] == ["a"]
    assert list(target.list_folders("")) == []
    for verb in (target.get, target.head, lambda path: target.put(path, b""), lambda path: target.delete([path])):
        with pytest.raises(TargetUnusable):
            verb(f"{TEMPORARY}/123-abc")


def test_leftovers_of_dead_writers_are_swept_and_those_of_living_ones_stay(target, root):
    folder = root / TEMPORARY
    folder.mkdir()
    for name, age in (("old", 2 * 3600), ("young", 60)):
        (folder / name).write_bytes(b"half")
        os.utime(folder / name, (time.time() - age,) * 2)
    target.put("a", b"1")
    assert [path.name for path in folder.iterdir()] == ["young"]


def test_a_root_that_vanished_is_unavailable_and_not_made_again(target, root):
    target.put("a/b", b"1")
    shutil.rmtree(root)
    verbs = [
        lambda: target.get("a/b"),
        lambda: target.head("a/b"),
        lambda: target.get_into("a/b", memoryview(bytearray(1))),
        lambda: target.put("a/b", b"2"),
        lambda: target.put_if_absent("a/c", b"2"),
        lambda: list(target.list("")),
        lambda: target.list_folders("a/"),
    ]
    for verb in verbs:
        with pytest.raises(TargetUnavailable) as caught:
            verb()
        assert caught.value.reason == Reason.GONE
    assert isinstance(target.delete(["a/b"])["a/b"], TargetUnavailable)
    assert not root.exists()
    target.create_root()
    target.put("a/b", b"back")
    assert bytes(target.get("a/b")) == b"back"


def test_links_below_the_root_are_never_followed(target, tmp_path, root):
    secret = tmp_path / "outside"
    secret.mkdir()
    (secret / "file").write_bytes(b"secret")
    (root / "folder").symlink_to(secret)
    (root / "file").symlink_to(secret / "file")
    for path in ("folder/file", "file"):
        with pytest.raises(ObjectNotFound):
            target.get(path)
    assert list(target.list("")) == []
    with pytest.raises(TargetUnusable, match=r"not a folder|symbolic link"):
        target.put("folder/new", b"escaped")
    target.put("file", b"replaced the link, not what it names")
    assert (secret / "file").read_bytes() == b"secret"
    assert names(secret) == ["file"]


def test_the_root_itself_may_be_a_link(tmp_path, root):
    (tmp_path / "disk").mkdir()
    root.symlink_to(tmp_path / "disk")
    target = DirectoryTarget("d", root)
    target.put("a", b"1")
    assert (tmp_path / "disk" / "a").read_bytes() == b"1"


def test_a_fifo_in_the_way_does_not_block(target, root):
    os.mkfifo(root / "fifo")
    with pytest.raises(ObjectNotFound):
        target.get("fifo")


def test_a_folder_in_the_way_of_an_object(target, root):
    target.put("a/b", b"1")
    with pytest.raises(TargetUnusable, match="folder"):
        target.put("a", b"2")
    with pytest.raises(TargetUnusable, match="not a folder"):
        target.put("a/b/c", b"2")
    assert files(root) == ["a/b"]


def test_a_file_cut_short_while_it_is_read_is_short(target, monkeypatch, root):
    target.put("a", bytes(1000))
    whole = os.preadv

    def cut(file, into, start):
        os.truncate(root / "a", 10)
        return whole(file, into, start)

    monkeypatch.setattr(os, "preadv", cut)
    with pytest.raises(ShortObject):
        target.get("a")


def test_emptied_folders_go_and_others_stay(target, root):
    for path in ("x/y/1", "x/y/2", "x/z/1"):
        target.put(path, b"")
    target.delete(["x/y/1"])
    assert names(root / "x") == ["y", "z"]
    target.delete(["x/y/2"])
    assert names(root / "x") == ["z"]
    target.delete(["x/z/1"])
    assert names(root) == [TEMPORARY]


def test_puts_win_over_deletes_that_empty_their_folder(target):
    """A delete may remove a folder between the put's look and its link."""
    stop = threading.Event()

    def churn():
        while not stop.is_set():
            target.put("f/g/churn", b"")
            target.delete(["f/g/churn"])

    threads = [threading.Thread(target=churn) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for i in range(100):
            path = f"f/g/{i}"
            assert target.put_if_absent(path, b"kept")
            assert bytes(target.get(path)) == b"kept"
            target.delete([path])
    finally:
        stop.set()
        for thread in threads:
            thread.join()


@pytest.mark.parametrize(
    ("code", "kind", "reason"),
    [
        (errno.ENOSPC, NoSpace, None),
        (errno.EDQUOT, NoSpace, None),
        (errno.EACCES, AccessDenied, None),
        (errno.EROFS, AccessDenied, None),
        (errno.EIO, TargetUnavailable, Reason.GONE),
        (errno.ESTALE, TargetUnavailable, Reason.BROKEN),
        (errno.EMFILE, TargetUnavailable, Reason.BROKEN),
        (errno.ETIMEDOUT, TargetUnavailable, Reason.TIMEOUT),
        (errno.ENAMETOOLONG, TargetUnusable, None),
    ],
)
def test_each_errno_is_transient_or_permanent(code, kind, reason):
    error = error_for(OSError(code, "x"), "d", "a/b")
    assert type(error) is kind
    assert error.fields.get("reason") == reason
    assert errno.errorcode[code] in str(error)


def test_a_name_too_long_for_the_file_system(target):
    with pytest.raises(TargetUnusable, match="ENAMETOOLONG"):
        target.put("a/" + "x" * 300, b"")


IN_THE_WAY = {
    "a FIFO": os.mkfifo,
    "a symbolic link": lambda path: path.symlink_to("elsewhere"),
    "a folder": Path.mkdir,
}


@pytest.mark.parametrize("kind", IN_THE_WAY)
def test_what_is_no_file_has_not_won_a_put_if_absent(target, root, kind):
    """To say that something is there, when every read says that nothing is, would send its caller in circles."""
    IN_THE_WAY[kind](root / "vote")
    with pytest.raises(TargetUnusable, match=kind) as told:
        target.put_if_absent("vote", b"1")
    assert str(root / "vote") in told.value.message
    assert os.path.lexists(root / "vote")


def test_a_child_that_was_forked_amid_writes_waits_for_none_of_them(tmp_path):
    """The turns that threads of the parent had are nobody's in the child."""
    script = """
import os, threading, time
from ckptstore.targets import posix
much = [memoryview(bytes(posix.MUCH))]
for _ in range(64):
    threading.Thread(target=posix.write_fully, args=(os.pipe()[1], much), daemon=True).start()
time.sleep(0.3)
if os.fork() == 0:
    began, file = time.monotonic(), os.open(os.devnull, os.O_WRONLY)
    for _ in range(20):
        posix.write_fully(file, much)
    os._exit(time.monotonic() - began > 1.0)
os._exit(os.waitstatus_to_exitcode(os.wait()[1]))
"""
    assert subprocess.run([sys.executable, "-c", script], check=False, timeout=60).returncode == 0
