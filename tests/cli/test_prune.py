"""`ckpt prune`: the plan, the table, and that a dry run is the same."""

import os

import pytest

from tests.cli.support import write_tensors

DAY = 86400


@pytest.fixture
def steps(empty):
    """A store with the steps 1 to 4; step 2 is tagged best."""
    write_tensors(empty.folder / "in.safetensors", 7)
    for step in (1, 2, 3, 4):
        assert empty("save", empty.folder / "in.safetensors", "--step", step).code == 0
    assert empty("tag", "best", "2").code == 0
    return empty


def pass_time(ckpt, seconds):
    for name in ckpt.names:
        for path in (ckpt.folder / name).rglob("*"):
            if path.is_file():
                at = path.stat().st_mtime - seconds
                os.utime(path, (at, at))


def rows(answer):
    return [line.split() for line in answer.out.splitlines()]


def test_the_plan_gives_a_reason_for_each_and_the_prune_does_it(steps):
    plan = steps("prune", "--keep-last", 1, "--dry-run")
    done = steps("prune", "--keep-last", 1)
    assert plan.code == done.code == 0
    assert [row[:3] for row in rows(plan)[:5]] == [
        ["name", "step", "plan"],
        ["step-1", "1", "delete"],
        ["step-2", "2", "keep"],
        ["step-3", "3", "delete"],
        ["step-4", "4", "keep"],
    ]
    assert "tag best" in plan.out
    assert "one of the last 1" in plan.out
    assert "no rule keeps it" in plan.out
    assert done.out == plan.out.replace("would be ", "")
    assert [line["step"] for line in steps("ls", "--json").summary["checkpoints"]] == [2, 4]


def test_data_is_freed_a_grace_period_later_and_undelete_is_possible_until_then(steps):
    assert steps("prune", "--keep-last", 1).code == 0
    waiting = steps("prune", "--keep-last", 1)
    assert "its data stays for 23 h" in waiting.out
    assert steps("undelete", "3").code == 0
    assert steps("delete", "3", "--yes").code == 0
    pass_time(steps, 2 * DAY)
    freed = steps("prune", "--sweep", "--json").summary
    assert [item["step"] for item in freed["removed"]] == [1, 3]
    assert freed["objects"] > 0
    assert freed["bytes"] > 0
    assert steps("undelete", "3").code == 10
    assert steps("verify", "--read-data").code == 0


def test_the_rules_of_the_settings_count_where_none_is_given(steps):
    text = steps.path.read_text()
    steps.path.write_text(text.replace("[[targets]]", '[retention]\nkeep_every = 4\ngrace = "0"\n[[targets]]', 1))
    summary = steps("prune", "--json").summary
    assert [item["step"] for item in summary["kept"]] == [2, 4]
    assert [item["step"] for item in summary["removed"]] == [1, 3]


def test_wrong_settings_name_their_key(steps):
    text = steps.path.read_text()
    for line, key in (
        ("keep_last = -1", "retention.keep_last"),
        ('grace = "soon"', "retention.grace"),
        ("keep = 1", "keep"),
    ):
        steps.path.write_text(text.replace("[[targets]]", f"[retention]\n{line}\n[[targets]]", 1))
        answer = steps("ls")
        assert answer.code == 2
        assert key in answer.err


def test_an_empty_run_has_nothing_to_prune(empty):
    answer = empty("prune", "--keep-last", 1)
    assert (answer.code, "has no checkpoints" in answer.out) == (0, True)


# -- what the plan and its last line say -----------------------------------------------------------------------


def test_the_last_line_says_what_was_deleted_and_how_to_take_it_back(steps):
    for extra, would in ((["--dry-run"], "would be "), ([], "")):
        answer = steps("prune", "--keep-last", 1, *extra)
        (line,) = [line for line in answer.out.splitlines() if f"2 checkpoints {would}deleted" in line]
        assert "MiB" in line
        assert "24 h" in line
        assert "ckpt undelete" in line
        assert "0 objects" not in answer.out
    again = steps("prune", "--keep-last", 1)
    assert again.out.splitlines()[-1] == "nothing deleted, nothing removed"
    plans = {row[0]: row[2] for row in rows(again)[1:5]}
    assert plans == {"step-1": "deleted", "step-2": "keep", "step-3": "deleted", "step-4": "keep"}
    assert "its data stays for 23 h 59 min" in again.out


def test_without_grace_each_checkpoint_is_listed_once_and_yes_is_wanted(steps):
    before = steps("ls", "--json").summary["checkpoints"]
    asked = steps("prune", "--keep-last", 1, "--grace", "0")
    assert asked.code == 2
    assert "--yes" in asked.err
    assert "--dry-run" in asked.err
    assert steps("ls", "--json").summary["checkpoints"] == before
    plan = steps("prune", "--keep-last", 1, "--grace", "0", "--dry-run")
    done = steps("prune", "--keep-last", 1, "--grace", "0", "--yes")
    assert plan.code == done.code == 0
    assert done.out == plan.out.replace("would be ", "")
    assert [row[0] for row in rows(done)[1:5]] == ["step-1", "step-2", "step-3", "step-4"]
    assert [row[2] for row in rows(done)[1:5]] == ["remove", "keep", "remove", "keep"]
    assert "undelete" not in done.out


# -- slips of the pen -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--keep-within", "7"], ["--keep-within 7", "24h"]),
        (["--keep-last", "-1"], ["--keep-last -1", "0 or more"]),
        (["--keep-every", "0"], ["--keep-every 0", "1 or more"]),
        (["--keep-last", "1", "--grace", "soon"], ["--grace soon", "24h"]),
        (["--keep-last", "0"], ["can keep nothing", "--unsafe-allow-remove-all"]),
        (["--sweep", "--keep-last", "1"], ["--sweep", "--keep-last"]),
        ([], ["nothing says what to keep", "--keep-last 3"]),
    ],
    ids=str,
)
def test_a_slip_on_the_command_line_is_not_blamed_on_the_settings(steps, options, words):
    answer = steps("prune", *options)
    assert answer.code == 2
    assert all(word in answer.err for word in words), answer.err
    assert "mend store.toml" not in answer.err
    assert "Traceback" not in answer.err
    assert len(steps("ls", "--json").summary["checkpoints"]) == 4


def test_o14_rules_that_keep_nothing_delete_nothing_unless_that_is_asked_for(steps):
    before = steps("ls", "--json").summary["checkpoints"]
    for rules, code in ((["--keep-last", 0], 2), (["--keep-tag", "nosuch"], 10), ([], 2)):
        for dry_run in (["--dry-run"], []):
            answer = steps("prune", *rules, *dry_run, "--json")
            assert (answer.code, answer.summary["code"]) == (code, code)
    assert steps("ls", "--json").summary["checkpoints"] == before
    assert steps("tag", "best", "--remove").code == 0
    assert steps("prune", "--keep-last", 0, "--unsafe-allow-remove-all").code == 0
    assert steps("ls", "--json").summary["checkpoints"] == []


def test_a_run_that_nobody_opened_is_a_slip_of_the_pen(steps):
    for options in (["--keep-last", "1"], ["--sweep"], ["--keep-last", "1", "--dry-run"]):
        answer = steps("prune", *options, "--run", "typo")
        assert answer.code == 10
        assert "there is no run typo" in answer.err


def test_a_tag_on_the_command_line_that_nobody_has_is_a_slip_and_in_the_settings_none(steps):
    assert steps("prune", "--keep-tag", "bset").code == 10
    text = steps.path.read_text()
    steps.path.write_text(
        text.replace("[[targets]]", '[retention]\nkeep_last = 1\nkeep_tags = ["final"]\n[[targets]]', 1)
    )
    summary = steps("prune", "--json").summary
    assert [item["step"] for item in summary["kept"]] == [2, 4]


def test_a_hurt_latest_is_refused_with_the_repair_that_mends_it(steps):
    steps.fragments("a")[-1].unlink()
    newest = max(steps.fragments("b"), key=lambda path: path.stat().st_mtime_ns)
    newest.unlink()
    answer = steps("prune", "--keep-last", 1, "--json")
    assert (answer.code, answer.summary["kind"]) == (1, "ToleranceError")
    assert "ckpt repair" in answer.summary["hint"]
    assert steps("repair").code == 0
    assert steps("prune", "--keep-last", 1).code == 0


def test_what_could_not_be_looked_at_is_told(steps):
    steps.away("f")
    answer = steps("prune", "--keep-last", 1)
    assert "step-4, the latest to be kept: f out of reach" in answer.err
