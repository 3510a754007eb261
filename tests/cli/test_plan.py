"""`ckpt plan`: an answer without a store, beside the store's own layout with one, and typed refusals."""

import json
from contextlib import redirect_stdout
from dataclasses import asdict
from io import StringIO

import pytest

from ckptstore.cli.entry import run
from ckptstore.planning import Job, Rates
from tests.cli.support import Ckpt


def ask(*words: object) -> tuple[int, list[dict]]:
    out = StringIO()
    with redirect_stdout(out):
        code = run(["plan", *map(str, words), "--json"])
    return code, [json.loads(line) for line in out.getvalue().splitlines()]


def test_the_question_of_a_founder_is_answered(monkeypatch):
    """Is 8+4 over four regions better than two copies for my run, and what does it cost?"""
    monkeypatch.delenv("CKPT_STORE", raising=False)
    out = StringIO()
    with redirect_stdout(out):
        assert run(["plan", "8+4@4", "1+1@2", "--interval", "3600", "--state", "4000GB"]) == 0
    (verdict,) = [line for line in out.getvalue().splitlines() if "loses data" in line]
    assert verdict.startswith("8+4@4 loses data 54.3 times less often than 1+1@2, and costs ")
    code, lines = ask("8+4@4", "1+1@2", "--interval", 3600)
    summary = lines[-1]
    assert (code, summary["type"], [each["layout"] for each in summary["layouts"]]) == (
        0,
        "summary",
        ["8+4@4", "1+1@2"],
    )
    one, other = summary["layouts"]
    assert one["overhead"] == 1.5
    assert one["loss"] < other["loss"] / 50
    assert one["monthly"] == one["storage"] + one["saving"] + one["restoring"]
    assert one["interval"] == 3600


def test_a_store_is_compared_first(tmp_path):
    ckpt = Ckpt(tmp_path, "abcdef", "4+2")
    code, lines = ask("--store", ckpt.path)
    assert (code, [each["layout"] for each in lines[-1]["layouts"]][:2]) == (0, ["store", "4+2"])
    ckpt.names = "abc"
    ckpt.write("2+1", "64KiB")
    assert ask("--store", ckpt.path)[1][-1]["layouts"][0]["overhead"] == 1.5
    ckpt.names = "abcd"
    ckpt.write("2+1", "64KiB")
    code, lines = ask("--store", ckpt.path)
    assert (code, lines[-1]["kind"]) == (2, "UsageError")


def test_the_options_start_from_the_numbers_that_python_starts_from(monkeypatch):
    monkeypatch.delenv("CKPT_STORE", raising=False)
    summary = ask()[1][-1]
    assert (summary["job"], summary["rates"]) == (asdict(Job()), asdict(Rates()))


def test_the_chain_is_checked_by_chance_the_same_way_each_time():
    words = ("2+1", "--target-loss", 0.5, "--rebuild", 500, "--trials", 50_000, "--seed", 3)
    first, again = ask(*words)[1][-1], ask(*words)[1][-1]
    assert first["checks"] == again["checks"]
    (check,) = first["checks"]
    assert check["trials"] == 50_000
    assert check["probability"] == pytest.approx(first["layouts"][0]["loss"], rel=0.1)


@pytest.mark.parametrize(
    "words",
    [("4+x",), ("4+2@9",), ("--gpus", 0), ("--rebuild", 0), ("--state", "much"), ("--target-loss", -1), ("--keep", 0)],
)
def test_what_makes_no_sense_is_refused_in_words(words, monkeypatch):
    monkeypatch.delenv("CKPT_STORE", raising=False)
    code, lines = ask(*words)
    assert code == 2
    assert lines[-1]["kind"] in {"UsageError", "ConfigError"}
    assert lines[-1]["hint"]
