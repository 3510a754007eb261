"""`ckpt du`: sums that agree with each other, with the disk, and with what is printed."""

import pytest

from manifests import paths
from tests.cli.support import write_tensors


@pytest.fixture
def three(ckpt):
    """Two checkpoints of the default run, one of another."""
    write_tensors(ckpt.folder / "in.safetensors", 8)
    assert ckpt("save", ckpt.folder / "in.safetensors", "--step", 8).code == 0
    assert ckpt("save", ckpt.folder / "in.safetensors", "--step", 1, "--run", "other").code == 0
    return ckpt


def stored_below(ckpt, *names):
    """Bytes of all but votes and the targets' own."""
    found = [path for name in names for path in (ckpt.folder / name).rglob("*") if path.is_file()]
    counted = [path for path in found if "data" in path.parts or {"index", "shards"} & {*path.parts}]
    return sum(path.stat().st_size for path in counted)


def test_a_person_sees_each_checkpoint_and_the_sum(ckpt):
    answer = ckpt("du")
    assert answer.code == 0
    head, row, last = answer.out.splitlines()
    columns = ["name", "step", "state", "size", "data", "parity", "documents", "stored", "overhead", "frees"]
    assert head.split() == columns
    assert row.split()[:4] == ["step-7", "7", "1.15", "MiB"]
    assert "1.51x" in row or "1.50x" in row
    assert last.startswith("1 checkpoint: 1.73 MiB stored, 1.5")
    assert last.endswith("as recorded; --listed looks at the targets")


@pytest.mark.parametrize("by", ["checkpoint", "run", "target"])
@pytest.mark.parametrize("listed", [[], ["--listed"]])
def test_the_groups_add_up_to_what_is_on_disk(three, by, listed):
    answer = three("du", "--all-runs", "--by", by, *listed, "--json")
    assert answer.code == 0
    *lines, summary = answer.lines
    assert {line["type"] for line in lines} == {by}
    assert len(lines) == {"checkpoint": 3, "run": 2, "target": 6}[by]
    for what in ("data", "parity", "documents", "stored"):
        assert sum(line[what] for line in lines) == summary[what]
    assert summary["stored"] == stored_below(three, *"abcdef")
    assert summary["overhead"] == pytest.approx(summary["stored"] / summary["logical"], abs=0.001)
    assert summary["targets"]["a"]["stored"] == stored_below(three, "a")
    assert summary["orphans"] == ([] if listed else None)
    assert three("du", "--all-runs", "--by", by, *listed).code == 0


def test_one_run_is_not_the_other(three):
    assert three("du", "--json").summary["checkpoints"] == 2
    assert three("du", "--run", "other", "--json").summary["checkpoints"] == 1
    assert three("du", "--run", "nosuch").code == 10


def test_a_deleted_one_still_takes_its_room(three):
    assert three("delete", "7", "--yes").code == 0
    first, second, _ = three("du", "--json").lines
    assert (first["deleted"], second["deleted"]) == (True, False)
    assert first["freed"] == first["stored"] > 0
    assert "deleted" in three("du").out


def test_orphans_are_told_with_what_to_do(ckpt):
    path = ckpt.folder / "c" / paths.fragment("default", "abc", 0, 0)
    path.parent.mkdir(parents=True)
    path.write_bytes(b"x" * 2048)
    own = path.parent / "notes.txt"
    own.write_bytes(b"a person's own, which a prune leaves alone")
    answer = ckpt("du", "--listed")
    assert answer.code == 0
    assert "named by no checkpoint: 1 object, 2 KiB" in answer.out
    assert "ckpt prune --sweep" in answer.err
    orphans = ckpt("du", "--listed", "--json").summary["orphans"]
    assert orphans == [{"run": "default", "target": "c", "objects": 1, "bytes": 2048}]
    lines = ckpt("du", "--listed", "--by", "target", "--json").lines[:-1]
    assert [line["orphans"] for line in lines] == [0, 0, 2048, 0, 0, 0]


def test_what_is_gone_and_what_is_out_of_reach(ckpt):
    gone = ckpt.fragments("b")[0]
    nbytes = gone.stat().st_size
    gone.unlink()
    ckpt.away("c")
    answer = ckpt("du", "--listed", "--by", "target", "--json")
    lines = {line["target"]: line for line in answer.lines[:-1]}
    assert (answer.code, lines["b"]["not_there"], lines["a"]["not_there"]) == (0, nbytes, 0)
    assert (lines["c"]["not_there"], lines["c"]["orphans"]) == (None, None)
    assert answer.summary["not_listed"] == ["c"]
    assert "c can't be listed" in ckpt("du", "--listed").err


def test_what_can_t_be_read_is_told_and_is_no_sum(three):
    for index in three.folder.glob("*/runs/other/index/*"):
        index.write_bytes(b"nonsense")
    answer = three("du", "--all-runs", "--json")
    assert (answer.code, answer.summary["checkpoints"]) == (4, 2)
    ((what, failure),) = answer.summary["not_read"].items()
    assert (what, failure["kind"]) == ("step-1 of run other", "CorruptError")
    assert "not among the sums" in answer.err


def test_an_unknown_group_is_refused(ckpt):
    answer = ckpt("du", "--by", "colour", "--json")
    assert (answer.code, answer.summary["kind"]) == (2, "UsageError")
    assert "--by colour" in answer.summary["message"]
