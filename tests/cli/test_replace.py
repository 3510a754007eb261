"""`ckpt repair --replace`: what is told may be done, and what can't be is refused before anything is written."""

import shutil

import pytest

from ckptstore.config import Config
from ckptstore.store import Store
from tests.cli.support import Ckpt, write_tensors
from tests.operations.digests import digests


@pytest.fixture
def two_runs(tmp_path) -> Ckpt:
    """A store on a, b and c with a checkpoint in each of the runs r1 and r2; d and e are in the settings only."""
    ckpt = Ckpt(tmp_path, "abc", "2+1", "4KiB")
    assert ckpt("init").code == 0
    write_tensors(tmp_path / "in.safetensors", 7, rows=3)
    for run in ("r1", "r2"):
        assert ckpt("save", tmp_path / "in.safetensors", "--step", 7, "--run", run).code == 0
    ckpt.names = "abcde"
    ckpt.write("2+1", "4KiB")
    return ckpt


def next_of(answer) -> str:
    return answer.err.partition("next: ")[2].strip()


def take_out(ckpt: Ckpt, name: str) -> None:
    """As it is told: out of store.toml, and the disk is used for something else."""
    ckpt.names = ckpt.names.replace(name, "")
    ckpt.write("2+1", "4KiB")
    shutil.rmtree(ckpt.folder / name)


def test_a_target_that_another_run_is_on_is_not_to_be_taken_out(two_runs):
    command = ["repair", "--run", "r1", "--replace", "c=d"]
    answer = two_runs(*command)
    assert answer.code == 3
    assert "take c out" not in answer.out + answer.err
    assert next_of(answer) == "ckpt repair --run r2 --replace c=d"
    summary = two_runs(*command, "--json").summary
    assert (summary["still_on"], summary["replaced"]) == ({"c": ["r2"]}, [])
    assert summary["hint"] == "ckpt repair --run r2 --replace c=d"
    last = two_runs(*next_of(answer).split()[1:], "--json").summary
    assert (last["code"], last["still_on"], last["replaced"]) == (0, {}, ["c"])


def test_disks_replaced_one_after_the_other_as_told_lose_nothing(two_runs):
    for pair in ("c=d", "b=e"):
        answer = two_runs("repair", "--run", "r1", "--replace", pair)
        while answer.code:
            answer = two_runs(*next_of(answer).split()[1:])
        assert f"take {pair[0]} out of store.toml" in answer.out
        take_out(two_runs, pair[0])
    for run in ("r1", "r2"):
        assert two_runs("verify", "--run", run, "--read-data").code == 0
    assert two_runs("doctor").code == 0


@pytest.mark.parametrize("way", ["verify", "doctor"])
def test_what_is_left_on_a_target_that_was_replaced_is_told_and_moved_by_a_repair(two_runs, way):
    assert two_runs("repair", "--run", "r1", "--replace", "c=d").code == 3
    if way == "doctor":
        assert "ckpt repair --run r2" in next_of(two_runs("doctor"))
    else:
        answer = two_runs("verify", "--run", "r2", "--json")
        (health,) = answer.checkpoints
        assert (answer.code, health["state"]) == (3, "degraded")
        assert {(found["kind"], found["target"]) for found in health["findings"]} == {("retired", "c")}
    assert two_runs("repair", "--run", "r2").code == 0
    assert "ckpt repair --run" not in next_of(two_runs("doctor"))
    assert two_runs("repair", "--run", "r2", "--replace", "c=d", "--json").summary["replaced"] == ["c"]


def test_what_could_be_undeleted_counts_too(two_runs):
    assert two_runs("delete", "7", "--run", "r2", "--yes").code == 0
    answer = two_runs("repair", "--run", "r1", "--replace", "c=d", "--json")
    assert (answer.code, answer.summary["still_on"]) == (3, {"c": ["r2"]})
    assert two_runs("repair", "--run", "r2", "--replace", "c=d").code == 0
    take_out(two_runs, "c")
    assert two_runs("undelete", "7", "--run", "r2").code == 0
    assert two_runs("verify", "--run", "r2", "--read-data").code == 0


def test_a_checkpoint_that_was_not_chosen_is_still_on_the_target_too(two_runs):
    assert two_runs("save", two_runs.folder / "in.safetensors", "--step", 8, "--run", "r2").code == 0
    two_runs("repair", "--run", "r1", "--replace", "c=d")
    answer = two_runs("repair", "8", "--run", "r2", "--replace", "c=d", "--json")
    assert (answer.code, answer.summary["still_on"]) == (3, {"c": ["r2"]})


def test_nothing_more_is_saved_onto_a_target_that_was_replaced(two_runs):
    for run in ("r1", "r2"):
        two_runs("repair", "--run", run, "--replace", "c=d")
    assert two_runs("save", two_runs.folder / "in.safetensors", "--step", 8, "--run", "r1").code == 0
    take_out(two_runs, "c")
    answer = two_runs("verify", "--run", "r1", "--json")
    assert (answer.code, answer.summary["tolerance"]["targets"]) == (0, 1)


def test_where_a_target_was_taken_out_too_early_verify_says_what_helps(two_runs):
    for pair in ("c=d", "b=e"):
        two_runs("repair", "--run", "r1", "--replace", pair)
    two_runs.names = "ade"
    two_runs.write("2+1", "4KiB")
    answer = two_runs("verify", "--run", "r2")
    assert (answer.code, next_of(answer)) == (5, "name b and c in store.toml again, then: ckpt repair")
    two_runs.names = "abde"
    two_runs.write("2+1", "4KiB")
    assert next_of(two_runs("verify", "--run", "r2")) == "ckpt repair"
    assert two_runs("repair", "--run", "r2").code == 0
    assert two_runs("verify", "--run", "r2").code == 0


def test_python_tells_the_runs_too(two_runs):
    with Store(Config.load(two_runs.path)) as store:
        report = store.run("r1").repair(replace={"c": "d"})
        assert (report.exit_code, report.still_on, report.replaced) == (3, {"c": ["r2"]}, [])
        report = store.run("r2").repair(replace={"c": "d"})
        assert (report.exit_code, report.still_on, report.replaced) == (0, {}, ["c"])


IMPOSSIBLE = {
    "itself": (["c=c"], "c can't take its own place", "--replace c=NEW"),
    "circle": (["c=d", "d=c"], "is to go itself", "--replace c=NEW"),
    "chain": (["c=d", "d=e"], "is to go itself", "--replace c=NEW"),
    "two onto one": (["c=d", "b=d"], "only one of them can give way to d", "--replace c=d --replace b=NEW"),
    "member": (["c=a"], "survives the loss of 0 of 2 targets, now of 1 of 3", "--replace c=NEW"),
}


@pytest.mark.parametrize("pairs", IMPOSSIBLE)
def test_what_can_not_take_a_place_is_refused_before_anything_is_written(two_runs, pairs):
    asked, said, hint = IMPOSSIBLE[pairs]
    before = digests(two_runs.folder)
    line = ["repair", "--run", "r1", *(word for pair in asked for word in ("--replace", pair))]
    for more in ([], ["--dry-run"]):
        summary = two_runs(*line, *more, "--json").summary
        assert (summary["code"], summary["kind"]) == (2, "UsageError")
        assert said in summary["message"]
        assert hint in summary["hint"]
    assert digests(two_runs.folder) == before


def test_one_that_has_no_votes_takes_no_place_that_has(two_runs):
    text = two_runs.path.read_text()
    two_runs.path.write_text(text.replace('url = "d"\n', 'url = "d"\ncommit = false\n'))
    summary = two_runs("repair", "--run", "r1", "--replace", "c=d", "--json").summary
    assert (summary["code"], summary["kind"]) == (2, "UsageError")
    assert "commit = false" in summary["message"]


def test_one_that_is_no_commit_target_can_not_follow_one_that_was(two_runs):
    two_runs("repair", "--run", "r1", "--replace", "c=d")
    summary = two_runs("repair", "--run", "r2", "--replace", "c=e", "--json").summary
    assert (summary["code"], summary["kind"]) == (2, "UsageError")
    assert "a, b, d" in summary["hint"]


def test_fragments_stay_where_moved_they_would_survive_less(two_runs):
    """d is out of reach: what r2 has on c could only double up on b."""
    two_runs("repair", "--run", "r1", "--replace", "c=d")
    two_runs.away("d")
    on_b = two_runs.fragments("b")
    summary = two_runs("repair", "--run", "r2", "--replace", "c=b", "--json").summary
    assert (summary["code"], summary["moved"], summary["still_on"]) == (3, 0, {"c": ["r2"]})
    assert any("stay where they are" in failure for failure in summary["failed"])
    assert two_runs.fragments("b") == on_b
    two_runs.back("d")
    assert two_runs("repair", "--run", "r2", "--replace", "c=d").code == 0
