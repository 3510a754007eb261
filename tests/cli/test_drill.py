"""`ckpt drill`: what a person and a script are told, and its exit codes."""

import json
from pathlib import Path

import pytest

from tests.cli.support import write_tensors
from tests.operations.digests import digests

PROMISES = '[objectives]\nrpo = "1h"\nrto = "15m"\nsurvive = 2\n'


@pytest.fixture
def promised(ckpt):
    """The store with step-7, and objectives."""
    ckpt.write("4+2", "64KiB", PROMISES)
    return ckpt


def verdicts(answer) -> dict[str, str]:
    return {line["objective"]: line["verdict"] for line in answer.lines if line["type"] == "objective"}


def test_without_options_it_loses_what_is_promised_and_says_pass(promised):
    before = digests(promised.folder)
    answer = promised("drill")
    assert answer.code == 0
    assert digests(promised.folder) == before
    assert "round 1: lost " in answer.out
    assert "2 of 6 targets, the worst set of all 15" in answer.out
    assert answer.out.count("PASS") == 3
    assert "drill passed: 1 of 1 restores came back, every digest as recorded" in answer.out
    assert "next: ckpt drill --all" in answer.err
    assert "stopped answering" not in answer.err


def test_json_tells_all_of_it(promised):
    answer = promised("drill", "--lose", 1, "--json")
    kinds = [line["type"] for line in answer.lines]
    assert kinds == ["checkpoint", "objective", "objective", "objective", "summary"]
    assert verdicts(answer) == {"survive": "untested", "rto": "pass", "rpo": "pass"}
    summary = answer.summary
    assert (summary["command"], summary["code"], summary["states"]["restored"]) == ("drill", 0, 1)
    assert summary["prediction"]["source"] == "measured"
    assert len(summary["rounds"][0]["faults"]["lost"]) == 1
    (checkpoint,) = [line for line in answer.lines if line["type"] == "checkpoint"]
    assert (checkpoint["state"], checkpoint["bytes"]) == ("restored", checkpoint["total"])


def test_too_much_lost_is_4_and_an_objective_missed_is_3(promised):
    answer = promised("drill", "--lose", 3, "--json")
    assert (answer.code, answer.summary["states"]["lost"]) == (4, 1)
    promised.write("4+2", "64KiB", PROMISES.replace("15m", "0.001s"))
    answer = promised("drill", "--json")
    assert (answer.code, verdicts(answer)["rto"]) == (3, "fail")
    assert answer.summary["hint"]


def test_targets_really_out_of_reach_are_5(promised):
    promised.away("a")
    answer = promised("drill", "--lose-target", "b,c")
    assert answer.code == 5
    assert "a was out of reach before anything was taken away" in answer.err
    assert "next: ckpt doctor" in answer.err


def test_faults_of_each_kind_by_option(promised):
    answer = promised(
        "drill", "--lose-target", "a", "--corrupt", "b", "--slow", "c=0.01s", "--throttle", "d=5MiB", "--json"
    )
    faults = answer.summary["rounds"][0]["faults"]
    assert answer.code == 0
    assert (faults["lost"], faults["corrupt"], faults["slow"], faults["throttle"]) == (
        ["a"],
        ["b"],
        {"c": 0.01},
        {"d": 5 << 20},
    )
    answer = promised("drill", "--empty", "a", "--empty", "b", "--json")
    assert (answer.code, answer.summary["rounds"][0]["faults"]["empty"]) == (0, ["a", "b"])
    answer = promised("drill", "--worst", "--corrupt", "a", "--json")
    faults = answer.summary["rounds"][0]["faults"]
    assert (answer.code, len(faults["lost"]), "a" in faults["lost"]) == (4, 2, False)
    answer = promised("drill", "--lose-domain", "f", "--sample", "50%", "--seed", "s", "--json")
    assert (answer.code, answer.summary["seed"], answer.summary["sample"]) == (0, "s", 0.5)
    one, other = (promised("drill", "--random", "--seed", 5, "--json").summary["rounds"] for _ in range(2))
    assert one == other


def test_all_checkpoints_and_one_of_them(promised):
    write_tensors(promised.folder / "in.safetensors", 8)
    assert promised("save", promised.folder / "in.safetensors", "--step", 8).code == 0
    answer = promised("drill", "--all", "--json")
    assert [line["name"] for line in answer.lines if line["type"] == "checkpoint"] == ["step-7", "step-8"]
    answer = promised("drill", 7, "--json")
    assert [line["name"] for line in answer.lines if line["type"] == "checkpoint"] == ["step-7"]
    answer = promised("drill", "--all", "--step", 7)
    assert (answer.code, "--all" in answer.err) == (2, True)


def test_a_scenario_and_reports(promised):
    file = promised.folder / "fears.toml"
    file.write_text("[[rounds]]\nname = 'one by one'\nlose = 1\n[[rounds]]\nempty = ['a', 'b']\n")
    answer = promised("drill", "--scenario", file, "--report-dir", promised.folder / "reports")
    assert answer.code == 0
    assert "round 1: one by one" in answer.out
    assert "round 2: empty a and b" in answer.out
    written = [Path(line.removeprefix("wrote ")) for line in answer.err.splitlines() if line.startswith("wrote ")]
    assert [path.suffix for path in written] == [".json", ".xml", ".html"]
    assert json.loads(written[0].read_text())["run"] == "default"
    file.write_text("[[rounds]]\nloose = 1\n")
    answer = promised("drill", "--scenario", file, "--json")
    assert (answer.code, answer.summary["kind"]) == (2, "ConfigError")
    assert "fears.toml: rounds[0].loose: there is no such field; did you mean lose?" in answer.summary["message"]
    answer = promised("drill", "--scenario", file, "--lose", 1)
    assert (answer.code, "--scenario says it all, and --lose" in answer.err) == (2, True)


def test_into_scratch_but_never_into_a_target(promised):
    answer = promised("drill", "--scratch", promised.folder / "out")
    assert answer.code == 0
    assert [*(promised.folder / "out").rglob("*.safetensors")]
    answer = promised("drill", "--scratch", promised.folder / "a" / "out")
    assert (answer.code, "--scratch" in answer.err, "inside target a" in answer.err) == (2, True, True)
    answer = promised("drill", "--scratch", promised.folder / "out")
    assert (answer.code, "holds something" in answer.err) == (2, True)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--lose-target", "z"), "--lose-target: the store has no target 'z'"),
        (("--lose-domain", "mars"), "--lose-domain: the store has no domain 'mars'"),
        (("--lose", 9), "--lose = 9"),
        (("--slow", "a"), "--slow a: a target and an amount"),
        (("--slow", "a=soon"), "--slow a = 'soon'"),
        (("--throttle", "a=much"), "--throttle a = 'much'"),
        (("--corrupt", "a", "--empty", "a"), "--corrupt"),
        (("--worst", "--random"), "--worst and --random"),
        (("--sample", "0%"), "--sample 0%"),
        (("--sample", "half"), "--sample half"),
        (("--scenario", "none.toml"), "none.toml"),
    ],
)
def test_what_makes_no_sense_is_told_as_it_was_typed(promised, words, told):
    answer = promised("drill", *words)
    assert answer.code == 2
    assert told in answer.err
    assert "next: " in answer.err


def test_no_such_run_and_no_such_checkpoint(promised):
    answer = promised("drill", "--run", "nosuch", "--json")
    assert (answer.code, answer.summary["kind"]) == (10, "NotFoundError")
    assert "nosuch" in answer.summary["message"]
    assert promised("drill", "--step", 99).code == 10


def test_what_the_layout_cannot_keep_is_said_by_init_doctor_and_drill(promised):
    promised.write("4+2", "64KiB", "[objectives]\nsurvive = 3\n")
    for command in ("init", "doctor"):
        answer = promised(command, "--json")
        assert answer.code == 0
        assert "objectives.survive = 3 can't be met" in answer.err
        assert len(answer.summary["beyond_layout"]) == 1
    answer = promised("drill")
    assert answer.code == 4
    assert "objectives.survive = 3 can't be met" in answer.out + answer.err
    assert promised("ls").code == 0


def test_a_slip_in_the_objectives_names_the_key(promised):
    promised.write("4+2", "64KiB", '[objectives]\nrto = "soon"\n')
    answer = promised("ls", "--json")
    assert (answer.code, answer.summary["kind"]) == (2, "ConfigError")
    assert "objectives.rto = 'soon'" in answer.summary["message"]
