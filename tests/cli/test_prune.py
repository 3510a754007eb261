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
        ["NAME", "STEP", "PLAN"],
        ["step-1", "1", "delete"],
        ["step-2", "2", "keep"],
        ["step-3", "3", "delete"],
        ["step-4", "4", "keep"],
    ]
    assert "tag best" in plan.out
    assert "one of the last 1" in plan.out
    assert "no rule keeps it" in plan.out
    assert done.out == plan.out.replace("would be removed", "removed")
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
