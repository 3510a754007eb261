"""Damage of every kind, seen by `ckpt verify`, survived by `ckpt restore`, mended by `ckpt repair`."""

import shutil

import numpy as np
import pytest
from safetensors.numpy import load_file

from tests.cli.support import Ckpt, flip, write_tensors


def same(one, other):
    return one.keys() == other.keys() and all(
        np.array_equal(one[name], other[name]) and one[name].dtype == other[name].dtype for name in one
    )


def restored(ckpt, *arguments):
    """The tensors of a restored checkpoint, or the exit code."""
    path = ckpt.folder / "restored.safetensors"
    path.unlink(missing_ok=True)
    answer = ckpt("restore", path, *arguments)
    return load_file(path) if answer.code == 0 else answer.code


def fragment_of(ckpt, stripe, number, *, among="abcdef"):
    """A fragment of the only shard: its target and its path."""
    name = f"{stripe:06d}.{number:03d}"
    return next((target, path) for target in among for path in ckpt.fragments(target) if path.name == name)


def findings(ckpt):
    lines = ckpt("verify", "--read-data", "--json").checkpoints
    return {(finding["kind"], finding["target"]) for line in lines for finding in line["findings"]}


def test_o11_zeroed_and_flipped_fragments_are_both_erasures(ckpt):
    zeroed, path = fragment_of(ckpt, 0, 0)
    path.write_bytes(bytes(path.stat().st_size))
    flipped, path = fragment_of(ckpt, 0, 1)
    flip(path)
    answer = ckpt("verify", "--read-data", "--json")
    assert answer.code == 3
    assert findings(ckpt) == {("corrupt", zeroed), ("corrupt", flipped)}
    assert answer.summary["tolerance"]["targets"] == 0
    assert same(restored(ckpt), load_file(ckpt.folder / "in.safetensors"))


def test_o11_with_one_parity_fragment_two_damaged_ones_are_refused(tmp_path):
    ckpt = Ckpt(tmp_path, "abcde", code="4+1")
    assert ckpt("init").code == 0
    write_tensors(tmp_path / "in.safetensors")
    assert ckpt("save", tmp_path / "in.safetensors", "--step", 7).code == 0
    for number in (0, 1):
        flip(fragment_of(ckpt, 0, number, among="abcde")[1])
    assert restored(ckpt) == 4
    assert ckpt("verify", "--read-data").code == 4
    assert not list(tmp_path.glob(".*.part")) + list(tmp_path.glob("restored*"))


def test_o12_swapped_fragments_are_named_and_survived(ckpt):
    (one, first), (other, second) = (fragment_of(ckpt, 0, number) for number in (2, 3))
    a, b = first.read_bytes(), second.read_bytes()
    first.write_bytes(b)
    second.write_bytes(a)
    assert findings(ckpt) == {("corrupt", one), ("corrupt", other)}
    assert same(restored(ckpt), load_file(ckpt.folder / "in.safetensors"))


def test_o12_a_fragment_under_another_ones_name_is_named(ckpt):
    _, source = fragment_of(ckpt, 0, 2)
    target, path = fragment_of(ckpt, 0, 3)
    path.write_bytes(source.read_bytes())
    assert findings(ckpt) == {("corrupt", target)}
    assert same(restored(ckpt), load_file(ckpt.folder / "in.safetensors"))
    assert ckpt("repair").code == 0
    assert findings(ckpt) == set()


def test_o13_a_truncated_fragment_is_found_without_reading(ckpt):
    target, path = fragment_of(ckpt, 0, 1)
    path.write_bytes(path.read_bytes()[:-1])
    answer = ckpt("verify", "--json")
    assert answer.code == 3
    (finding,) = answer.checkpoints[0]["findings"]
    assert (finding["kind"], finding["target"]) == ("short", target)
    assert answer.summary["checked"] == answer.summary["expected"] > 0


@pytest.mark.parametrize(
    "arguments", [[], ["7"], ["step-7x"], ["--tag", "nosuch"], ["--name", ""], ["--run", "other"]], ids=" ".join
)
def test_o13_nothing_to_check_is_no_success(empty, arguments):
    answer = empty("verify", *arguments, "--json")
    assert answer.code == 10
    assert (answer.summary["expected"], answer.summary["checked"]) == (0, 0)


def test_o13_distinct_codes_for_distinct_states(ckpt):
    codes = {"well": ckpt("verify").code, "no such id": ckpt("verify", "8").code}
    ckpt.away("a", "b")
    codes["degraded"] = ckpt("verify").code
    ckpt.back("a", "b")
    for name in "abc":
        shutil.rmtree(ckpt.folder / name / "data")
    codes["lost"] = ckpt("verify").code
    assert codes == {"well": 0, "no such id": 10, "degraded": 3, "lost": 4}


def test_a_subset_of_the_data_is_read(ckpt):
    for target in "abcdef":
        for path in ckpt.fragments(target):
            flip(path)
    assert ckpt("verify").code == 0
    assert ckpt("verify", "--read-data-subset", "100%").code == 4
    assert ckpt("verify", "--read-data-subset", "0.0001%").code == 0


def test_o18_the_scheme_of_each_checkpoint_is_its_own(ckpt):
    _, path = fragment_of(ckpt, 0, 5)
    ckpt.write("5+3", "128KiB")
    second = write_tensors(ckpt.folder / "second.safetensors", 8, rows=900)
    assert ckpt("save", ckpt.folder / "second.safetensors", "--step", 8).code == 0
    flip(path)
    assert ckpt("verify", "7", "--read-data").code == 3
    assert same(restored(ckpt, "--step", 7), load_file(ckpt.folder / "in.safetensors"))
    assert same(restored(ckpt, "--step", 8), second)
    assert ckpt("repair").code in {0, 3}  # 5 + 3 fragments on six targets share some of them
    ckpt.write("4+2", "64KiB")
    assert ckpt("verify", "7", "--read-data").code == 0
    assert same(restored(ckpt, "--step", 8), second)


def test_o43_the_small_objects_are_no_weak_point(ckpt):
    second = write_tensors(ckpt.folder / "second.safetensors", 8)
    assert ckpt("save", ckpt.folder / "second.safetensors", "--step", 8).code == 0
    manifests = [sorted((ckpt.folder / name).glob("runs/*/commit/*/manifests/*/000001")) for name in "abcdef"]
    for one, other in manifests[:2]:
        one.unlink()  # of step 7, on as many targets as may be lost
        flip(other)  # of step 8
    flip(next(ckpt.folder.glob("?/runs/default/index/*")))
    assert [line["name"] for line in ckpt("ls", "--json").summary["checkpoints"]] == ["step-7", "step-8"]
    assert same(restored(ckpt, "--step", 7), load_file(ckpt.folder / "in.safetensors"))
    assert same(restored(ckpt, "--step", 8), second)
    assert ckpt("verify").code == 3
    assert ckpt("repair").code == 0
    assert ckpt("verify", "--read-data").code == 0
    again = [sorted((ckpt.folder / name).glob("runs/*/commit/*/manifests/*/000001")) for name in "abcdef"]
    assert len({path.read_bytes() for pair in again for path in pair}) == 2


def test_o43_a_lost_index_takes_only_its_own_checkpoint_with_it(ckpt):
    write_tensors(ckpt.folder / "second.safetensors", 8)
    lost = list(ckpt.folder.glob("?/runs/default/index/*"))
    assert ckpt("save", ckpt.folder / "second.safetensors", "--step", 8).code == 0
    for path in lost:
        path.unlink()
    assert [line["name"] for line in ckpt("ls", "--json").summary["checkpoints"]] == ["step-7", "step-8"]
    assert restored(ckpt, "--step", 7) == 4
    assert not isinstance(restored(ckpt, "--step", 8), int)
    assert ckpt("verify", "8").code == 0
    assert ckpt("verify").code == 4


def test_o72_what_was_deleted_while_a_target_was_away_stays_deleted(ckpt):
    """Whichever targets tell of it: the one that was away alone with others that know, before repair and after."""
    second = write_tensors(ckpt.folder / "second.safetensors", 8)
    assert ckpt("save", ckpt.folder / "second.safetensors", "--step", 8).code == 0
    ckpt.away("c")
    assert ckpt("delete", "7", "--yes").code == 0
    ckpt.back("c")
    assert not list((ckpt.folder / "c").rglob("marks/*/*"))

    def stays_deleted():
        assert [line["name"] for line in ckpt("ls", "--json").summary["checkpoints"]] == ["step-8"]
        for command in (["restore", ckpt.folder / "out"], ["verify"], ["show"], ["repair"]):
            assert ckpt(*command, "--step", 7).code == 10, command
        assert same(restored(ckpt), second)

    stays_deleted()
    for others in ("ab", "de"):
        ckpt.away(*others)
        stays_deleted()
        ckpt.back(*others)
    assert ckpt("repair").code == 0
    assert list((ckpt.folder / "c").rglob("marks/*/*")), "the target that was away has learned of it"
    stays_deleted()
    assert ckpt("verify", "--read-data").code == 0
    assert ckpt("undelete", "7").code == 0
    assert same(restored(ckpt, "--step", 7), load_file(ckpt.folder / "in.safetensors"))


def test_repair_gives_a_wiped_target_everything_back(ckpt):
    shutil.rmtree(ckpt.folder / "c")
    (ckpt.folder / "c").mkdir()
    assert ckpt("verify").code == 3
    dry = ckpt("repair", "--dry-run", "--json")
    assert dry.code == 3
    assert not list((ckpt.folder / "c").iterdir())
    answer = ckpt("repair", "--json")
    assert answer.code == 0
    assert answer.summary["rebuilt"] > 0
    assert answer.summary["readmitted"] == ["c"]
    again = ckpt("repair", "--json").summary
    assert [again[what] for what in ("rebuilt", "moved", "restored", "votes")] == [0, 0, 0, 0]
    assert ckpt("verify", "--read-data").code == 0
    assert ckpt("doctor").code == 0


def test_repair_onto_another_target(ckpt):
    shutil.rmtree(ckpt.folder / "b")
    ckpt.names = "acdefg"
    ckpt.write("4+2", "64KiB")
    answer = ckpt("repair", "--replace", "b=g", "--json")
    assert answer.code == 0, answer.err
    assert answer.summary["moved"] > 0
    assert ckpt.fragments("g")
    verified = ckpt("verify", "--read-data", "--json")
    assert verified.code == 0
    assert verified.summary["tolerance"]["targets"] == 2


def test_a_newer_save_that_can_not_be_read_is_not_passed_over(ckpt):
    assert ckpt("save", ckpt.folder / "in.safetensors", "--step", 8).code == 0
    key = ckpt("show", "8", "--json").summary["key"]
    for target in ckpt.names:
        for path in (ckpt.folder / target).rglob(f"manifests/{key}/*"):
            path.write_bytes(path.read_bytes()[:-5])
    for command in (["show"], ["restore", ckpt.folder / "out"], ["tag", "best"], ["ls", "--tensors"]):
        answer = ckpt(*command, "--json")
        assert (answer.code, answer.summary["kind"]) == (4, "CorruptError"), command
        assert key in answer.summary["message"]
        assert "--step 7" in answer.summary["hint"]
    assert not (ckpt.folder / "out").exists()
    answer = ckpt("ls")
    assert answer.code == 0
    assert f"not readable as it should be: manifests/{key}/" in answer.err
    assert ckpt("restore", ckpt.folder / "out", "--step", 7).code == 0


# -- what repair says -----------------------------------------------------------------------


def test_a_repair_that_can_do_nothing_says_so_and_sends_nobody_in_a_circle(ckpt):
    for name in "abc":
        for path in ckpt.fragments(name):
            path.unlink()
    for options in ([], ["--dry-run"]):
        answer = ckpt("repair", *options)
        assert answer.code == 4
        assert "step-7: nothing can be done; LOST" in answer.out
        assert "lost, lost" not in answer.out
        assert "repair" not in answer.err
        assert "ckpt ls --deleted" in answer.err


def test_a_repair_waits_for_what_is_out_of_reach_and_says_so(ckpt):
    ckpt.away("a", "b")
    for path in ckpt.fragments("c"):
        path.unlink()
    for options in ([], ["--dry-run"]):
        answer = ckpt("repair", *options)
        assert answer.code == 5
        assert "step-7: nothing can be done; unknown: targets out of reach decide" in answer.out
        assert "ckpt doctor" in answer.err


def test_a_dry_repair_with_nothing_to_do_sends_nobody_to_repair(ckpt):
    ckpt.away("a")
    answer = ckpt("repair", "--dry-run")
    assert (answer.code, "nothing to do" in answer.out) == (3, True)
    assert "next: ckpt doctor" in answer.err
    ckpt.back("a")
    answer = ckpt("repair", "--dry-run")
    assert (answer.code, "next" in answer.err) == (0, False)


def test_a_dry_repair_counts_the_manifests_and_marks_that_the_repair_puts_back(ckpt):
    ckpt.away("a", "b")
    ckpt("tag", "best", 7)
    ckpt("delete", "7", "--yes")
    ckpt("undelete", "7")
    ckpt.back("a", "b")
    plan = ckpt("repair", "--dry-run")
    before = plan.out
    assert plan.code == 3
    assert "6 copies of manifests and marks would be put back" in before
    assert "next: ckpt repair" in plan.err
    done = ckpt("repair")
    assert done.code == 0
    assert "6 copies of manifests and marks put back" in done.out
    again = ckpt("repair", "--dry-run")
    assert (again.code, "put back" in again.out) == (0, False)


def test_what_is_deleted_has_a_line_of_its_own_until_it_is_removed(ckpt):
    write_tensors(ckpt.folder / "in.safetensors")
    ckpt("save", ckpt.folder / "in.safetensors", "--step", "8")
    ckpt("delete", "8", "--yes")
    assert "1 deleted checkpoint, not removed yet: 1 good" in ckpt("verify").out
    for path in ckpt.fragments("a"):
        path.unlink()
    lines = ckpt("verify", "--json").lines
    told = [(line["type"], line.get("state")) for line in lines]
    assert told == [("checkpoint", "degraded"), ("deleted", "degraded"), ("summary", None)]
    assert (lines[-1]["code"], lines[-1]["states"]["degraded"], lines[-1]["deleted"]["degraded"]) == (3, 1, 1)
    repaired = ckpt("repair")
    assert (repaired.code, "step-8 (deleted): " in repaired.out) == (0, True)
    assert ckpt("verify", "--read-data").code == 0


def test_where_all_is_deleted_verify_and_repair_exit_alike(ckpt):
    assert ckpt("delete", "7", "--yes").code == 0
    assert [ckpt("verify").code, ckpt("repair").code] == [0, 0]
    told = ckpt("verify").out.splitlines()
    assert told[0] == "1 deleted checkpoint, not removed yet: 1 good"
    assert told[1:] == ["no live checkpoint; structure only: --read-data reads the bytes"]
    answer = ckpt("verify", "--json")
    assert (answer.summary["checkpoints"], answer.summary["deleted"]["good"]) == (0, 1)
    assert [line["type"] for line in answer.lines] == ["deleted", "summary"]
    ckpt.away("b")
    assert [ckpt("verify").code, ckpt("repair").code] == [3, 3]
