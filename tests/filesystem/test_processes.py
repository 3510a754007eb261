"""Several processes write one directory, and one puts the marker: what is gathered, and what a prune may take."""

import subprocess
import sys
from contextlib import nullcontext

import pytest

import ckptstore
from ckptstore.errors import CommitInDoubt, ConflictError, OutOfReach
from ckptstore.filesystem import committing, staging
from ckptstore.opened import shared
from ckptstore.source import Source
from tests.filesystem.conftest import write_store
from tests.filesystem.test_reading import elsewhere
from tests.filesystem.test_writing import big

WRITER = """
import sys, fsspec
from ckptstore.filesystem import CheckpointFileSystem
fsspec.register_implementation("ckpt", CheckpointFileSystem, clobber=True)
url, count, how = sys.argv[1:]
with fsspec.open(url, "wb") as file:
    for number in range(int(count)):
        file.write(bytes([number % 251]) * 100_000)
    if how == "killed":
        import os, signal
        os.kill(os.getpid(), signal.SIGKILL)
print("written", flush=True)
sys.stdin.read()
fs = CheckpointFileSystem()
print(fs.info(url).get("staged", False), flush=True)
"""


def content(count):
    return b"".join(bytes([number % 251]) * 100_000 for number in range(count))


class Rank:
    """A process that writes a file and then waits to be asked whether that still waits to be committed."""

    def __init__(self, url, count=9, how="ends well"):
        line = [sys.executable, "-c", WRITER, url, str(count), how]
        self.process = subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def written(self):
        return self.process.stdout.readline().strip()

    def still_staged(self):
        return self.process.communicate(timeout=60)[0].strip()


def test_ranks_write_their_own_files_and_rank_0_puts_the_marker(fs, place):
    ranks = {number: Rank(f"{place.url}/step-1/__{number}_0.distcp", 9 + number) for number in (1, 2)}
    assert [rank.written() for rank in ranks.values()] == ["written", "written"]
    fs.pipe_file(f"{place.url}/step-1/__0_0.distcp", b"rank 0")
    assert fs.ls(f"{place.url}/step-1", detail=False) == [f"{place.root}/step-1/__0_0.distcp"]
    fs.pipe_file(f"{place.url}/step-1/.metadata", b"{}")
    elsewhere()
    assert fs.cat_file(f"{place.url}/step-1/__1_0.distcp") == content(10)
    assert fs.cat_file(f"{place.url}/step-1/__2_0.distcp") == content(11)
    assert place.run.verify(read_data=True).checkpoints[0].state == "good"
    assert [rank.still_staged() for rank in ranks.values()] == ["False", "False"], "they know that it is committed"
    place.run.prune(keep_last=1, grace="0s")
    assert fs.cat_file(f"{place.url}/step-1/__1_0.distcp") == content(10), "though their own saves were given up"
    assert len(place.run.checkpoints()) == 1


def test_a_rank_that_is_killed_leaves_nothing_to_gather(fs, place):
    rank = Rank(f"{place.url}/step-1/__1_0.distcp", how="killed")
    assert rank.written() == ""
    fs.pipe_file(f"{place.url}/step-1/.metadata", b"{}")
    elsewhere()
    assert fs.ls(f"{place.url}/step-1", detail=False) == [f"{place.root}/step-1/.metadata"]


def test_what_a_rank_wrote_before_it_died_counts_and_is_written_over(fs, place):
    """As on a disk: a file that was closed is there, and one that is written later takes its place."""
    for count in (1, 2):
        rank = Rank(f"{place.url}/step-1/__1_0.distcp", count)
        assert rank.written() == "written"
        rank.process.kill()
        rank.process.wait()
    fs.pipe_file(f"{place.url}/step-1/.metadata", b"{}")
    elsewhere()
    assert fs.cat_file(f"{place.url}/step-1/__1_0.distcp") == content(2)


def leave_a_file(fs, url, data):
    """Written by a process that is gone."""
    fs.pipe_file(url, data)
    elsewhere()


def test_files_that_waited_longer_than_the_grace_period_are_refused(fs, place):
    """Until the prune has removed what says that they were written, too."""
    leave_a_file(fs, f"{place.url}/step-1/__1_0.distcp", big())
    opened = shared(place.run.config)
    (key,) = opened.group.history("train").begun
    opened.group.bury("train", key)
    with pytest.raises(ConflictError, match=r"__1_0\.distcp.*waited longer"):
        fs.pipe_file(f"{place.url}/step-1/.metadata", b"{}")
    assert place.run.checkpoints() == []
    leave_a_file(fs, f"{place.url}/step-1/__1_0.distcp", b"again")
    fs.pipe_file(f"{place.url}/step-1/.metadata", b"{}")
    assert fs.cat_file(f"{place.url}/step-1/__1_0.distcp") == b"again"


@pytest.mark.parametrize("when", ["before the commit", "after it"])
def test_a_prune_without_grace_either_sees_the_commit_or_is_seen(fs, place, monkeypatch, when):
    """Either way the writer is told, and no checkpoint is left that may lack its data."""
    leave_a_file(fs, f"{place.url}/step-1/__1_0.distcp", big())
    real = committing.Commit.finish

    def finish(commit, *arguments, **named):
        if when == "before the commit":
            place.run.prune(keep_last=1, grace="0s")
        manifest = real(commit, *arguments, **named)
        if when == "after it":
            place.run.prune(keep_last=1, grace="0s")
        return manifest

    monkeypatch.setattr(committing.Commit, "finish", finish)
    with pytest.raises(ConflictError):
        fs.pipe_file(f"{place.url}/step-1/.metadata", b"{}")
    monkeypatch.undo()
    assert place.run.checkpoints() == []


def test_files_can_t_be_gathered_where_their_notes_may_be_out_of_reach(fs, tmp_path):
    url = f"ckpt://{write_store(tmp_path, names='abcdefgh')}!train"
    fs.pipe_file(f"{url}/step-1/__0_0.distcp", b"x")
    for name in "ab":
        (tmp_path / name).rename(tmp_path / f"{name}.away")
    with pytest.raises(OutOfReach, match="which files wait"):
        fs.commit(f"{url}/step-1")
    assert fs.exists(f"{url}/step-1/__0_0.distcp")
    for name in "ab":
        (tmp_path / f"{name}.away").rename(tmp_path / name)
    fs.commit(f"{url}/step-1")
    assert ckptstore.open(tmp_path / "store.toml").run("train").latest().name == "step-1"


def shards_of(place):
    """Of each checkpoint, the ids of its shards."""
    opened = shared(place.run.config)
    saves = opened.group.history("train").checkpoints
    return [{shard.shard_id for shard in Source.open(opened, save.manifest).index.shards} for save in saves]


@pytest.mark.parametrize("when", ["before it looks", "when it commits"])
def test_two_processes_that_put_markers_at_once_share_no_shard(fs, place, monkeypatch, when):
    """Where both saw the other's file and both committed, a prune of one would take the other's data."""
    leave_a_file(fs, f"{place.url}/step-1/__1_0.distcp", big())
    inner = {"before it looks": "find_notes", "when it commits": "_commit"}[when]
    real = getattr(committing, inner)

    def meanwhile(*arguments):
        monkeypatch.setattr(committing, inner, real)
        with monkeypatch.context() as other:
            other.setattr(staging, "_ALL", {})
            fs.pipe_file(f"{place.url}/step-1/_SUCCESS", b"")
        return real(*arguments)

    monkeypatch.setattr(committing, inner, meanwhile)
    with pytest.raises(ConflictError) if when == "when it commits" else nullcontext():
        fs.pipe_file(f"{place.url}/step-1/.metadata", b"{}")
    each = shards_of(place)
    assert each
    assert len(set.union(*each)) == sum(map(len, each))
    elsewhere()
    assert fs.cat_file(f"{place.url}/step-1/__1_0.distcp") == big()


def test_a_commit_that_a_dead_process_left_is_no_hindrance(fs, place, monkeypatch):
    fs.pipe_file(f"{place.url}/step-1/__0_0.distcp", b"x")

    def dies(*_arguments):
        raise CommitInDoubt("as if killed: nothing is cleared away")

    monkeypatch.setattr(committing.Commit, "finish", dies)
    with pytest.raises(CommitInDoubt):
        fs.commit(f"{place.url}/step-1")
    monkeypatch.undo()
    elsewhere()
    fs.pipe_file(f"{place.url}/step-1/.metadata", b"{}")
    assert fs.cat_file(f"{place.url}/step-1/__0_0.distcp") == b"x"
    assert place.run.verify(read_data=True).checkpoints[0].state == "good"


def test_what_was_never_committed_is_swept(fs, place):
    leave_a_file(fs, f"{place.url}/step-1/__1_0.distcp", big())
    fs.pipe_file(f"{place.url}/step-2/a", b"x")
    fs.commit(f"{place.url}/step-2")
    elsewhere()
    place.run.prune(keep_last=1, grace="0s")
    assert place.run.verify(read_data=True).checkpoints[0].state == "good"
    size = sum(path.stat().st_size for path in place.folder.rglob("*") if path.is_file())
    assert size < len(big()), "its data is gone"
