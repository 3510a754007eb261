"""`ckpt plan`: an answer without a store, beside the store's own layout with one, and typed refusals."""

import json
from contextlib import redirect_stdout
from dataclasses import asdict
from io import StringIO

import msgspec
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
    assert (summary["job"], summary["rates"]) == (msgspec.to_builtins(Job()), asdict(Rates()))


def test_the_chain_is_checked_by_chance_the_same_way_each_time():
    words = ("2+1", "--target-loss", 0.5, "--rebuild", 500, "--trials", 50_000, "--seed", 3)
    first, again = ask(*words)[1][-1], ask(*words)[1][-1]
    assert first["checks"] == again["checks"]
    (check,) = first["checks"]
    assert check["trials"] == 50_000
    assert check["probability"] == pytest.approx(first["layouts"][0]["loss"], rel=0.1)


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("4+x",), "4+x"),
        (("4+2@9",), "4+2@9"),
        (("--gpus", 0), "--gpus"),
        (("--rebuild", 0), "rebuild_hours"),
        (("--state", "much"), "--state"),
        (("--state", "0"), "--state"),
        (("--interval", "nan"), "--interval"),
        (("--target-loss", -1), "target_loss"),
        (("--keep", 0), "--keep"),
        (("--rpo", "soon"), "--rpo"),
        (("--rto", "0s"), "--rto"),
        (("--survive", -1), "--survive"),
        (("--survive-domains", -1), "--survive-domains"),
        (("--price", "0.02"), "FIELD=USD"),
        (("--price", "storrage=0.02"), "storrage"),
        (("--price", "gets=much"), "--price gets=much"),
        (("--price", "gets=-1"), "--price gets"),
        (("--price", "gets=nan"), "--price gets"),
        (("--bench", "nowhere.json"), "--bench"),
        (("--bench", "nowhere.json", "--bandwidth", "1GB"), "--bandwidth"),
        (("--processes", 0), "--processes"),
        (("--near", "3+1"), "--interval"),
        (("--near", "3+x", "--interval", 60), "3+x"),
        (("--near", "3+1", "--interval", 60, "--near-bandwidth", "0"), "--near-bandwidth"),
        (("--near", "3+1", "--interval", 60, "--near-interval", 0), "--near-interval"),
        (("--near", "3+1", "--interval", 60, "--near-loss", 2), "--near-loss"),
        (("--near-loss", 0.1), "--near-loss"),
    ],
)
def test_what_makes_no_sense_is_refused_in_words(words, named, monkeypatch):
    monkeypatch.delenv("CKPT_STORE", raising=False)
    code, lines = ask(*words)
    assert code == 2
    assert lines[-1]["kind"] in {"UsageError", "ConfigError"}
    assert named in lines[-1]["message"]
    assert lines[-1]["hint"]


# -- objectives ----------------------------------------


def met(layout: dict) -> dict[str, bool]:
    return {verdict["objective"]: verdict["met"] for verdict in layout["verdicts"]}


def test_the_store_s_objectives_are_judged_and_a_miss_of_its_own_exits_3(tmp_path):
    ckpt = Ckpt(tmp_path)
    ckpt.write("4+2", "64KiB", '[objectives]\nrpo = "1h"\nsurvive = 3\n')
    told = ckpt("plan", "--json")
    own, *others = told.summary["layouts"]
    assert (told.code, own["layout"], met(own)) == (3, "store", {"rpo": True, "survive": False})
    assert [each["layout"] for each in others if met(each)["survive"]] == ["8+4@4"]
    assert "survive 3 MISSED by 1 (2)" in ckpt("plan").out
    told = ckpt("plan", "--survive", 2, "--json")
    assert (told.code, told.summary["objectives"]["rpo"]) == (0, "1h"), "an option counts before the store"


def test_an_objective_that_none_meets_is_an_error_that_names_it_after_all_is_told(tmp_path):
    ckpt = Ckpt(tmp_path)
    ckpt.write("4+2", "64KiB", "[objectives]\nsurvive = 3\n")
    told = ckpt("plan", "4+2", "1+2", "--json")
    assert (told.code, told.summary["kind"]) == (2, "ConfigError")
    assert told.summary["message"] == "objectives.survive: 3 can't be met by 4+2 and 1+2: at best it is 2"
    assert "8+3" in told.summary["hint"]
    assert [met(each) for each in told.summary["layouts"]] == [{"survive": False}] * 2
    told = ckpt("plan", "4+2")
    assert told.code == 2
    assert "4+2: survive 3 MISSED by 1 (2)" in told.out


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        (("--rto", "5s"), "objectives.rto: 5 s can't be met", "931 GiB a second"),
        (("--rpo", "20s"), "objectives.rpo: 20 s can't be met", "bandwidth"),
        (("--rpo", "60s", "--interval", 100), "at best it is 117 s", "--interval 43"),
        (("--survive-domains", 3), "objectives.survive_domains: 3 can't be met", "domains"),
    ],
)
def test_what_would_meet_it_is_said(words, message, hint, monkeypatch):
    monkeypatch.delenv("CKPT_STORE", raising=False)
    code, lines = ask("4+2", *words)
    assert code == 2
    assert message in lines[-1]["message"]
    assert hint in lines[-1]["hint"]


def test_the_interval_keeps_to_the_rpo(monkeypatch):
    monkeypatch.delenv("CKPT_STORE", raising=False)
    code, lines = ask("4+2", "--rpo", "1m")
    (found,) = lines[-1]["layouts"]
    assert (code, found["interval"], found["age"]) == (0, 43.0, 60.0)
    out = StringIO()
    with redirect_stdout(out):
        run(["plan", "4+2", "--rpo", "1m"])
    assert "4+2: rpo 60 s holds with 0 s to spare (60 s); saved to every 43 s, best for training is " in out.getvalue()


# -- prices ----------------------------------------

TABLE = """[prices]
storage = 0.01
puts = 0.0
gets = 0.0
egress = 0.1
ingress = 0.0
job = "b"
[prices.targets.f]
storage = 0.05
"""


def test_a_store_s_prices_are_reckoned_with_and_options_before_them(tmp_path):
    """Of 4 TB at 4+2 each target holds 1 TB, and five of them are read 667 GB from afar."""
    ckpt = Ckpt(tmp_path)
    ckpt.write("4+2", "64KiB", TABLE)
    words = ("plan", "--state", "4TB", "--keep", 1, "--json")
    own = ckpt(*words).summary["layouts"][0]
    assert own["storage"] == pytest.approx(5 * 10 + 50)
    restores = 30 * 24 / (24 / (2048 * 6.5e-3))
    assert own["restoring"] == pytest.approx(restores * 5 * 4000 / 6 * 0.1)
    assert ckpt(*words, "--price", "storage=0").summary["layouts"][0]["storage"] == pytest.approx(50)
    assert "list prices" not in ckpt("plan").out


def test_prices_that_are_missing_are_named(tmp_path):
    ckpt = Ckpt(tmp_path)
    ckpt.write("4+2", "64KiB", "[prices]\nstorage = 0.01\n")
    told = ckpt("plan", "--json")
    assert (told.code, told.summary["kind"]) == (2, "ConfigError")
    assert told.summary["message"].startswith("prices missing: egress, gets, ingress, puts;")
    assert "--price egress=" in told.summary["hint"]
    free = [word for name in ("puts", "gets", "egress", "ingress") for word in ("--price", f"{name}=0")]
    assert ckpt("plan", *free).code == 0


def test_without_any_it_is_said_whose_they_are(tmp_path):
    assert "at list prices, since none are given" in Ckpt(tmp_path)("plan").out


# -- tiers ----------------------------------------


def test_a_near_tier_before_each_layout(monkeypatch):
    monkeypatch.delenv("CKPT_STORE", raising=False)
    words = ("8+4@4", "--interval", 3600, "--near", "3+1", "--near-interval", 300, "--near-bandwidth", "10TB")
    code, lines = ask(*words)
    (found,) = lines[-1]["layouts"]
    tiers = found["tiers"]
    assert (code, tiers["near"], tiers["survives"]) == (0, "3+1", {"targets": 1, "domains": 1})
    assert (tiers["restore_near"], tiers["restore_far"]) == (0.5, 10.0)
    assert (tiers["lost_near"], tiers["lost_far"]) == (pytest.approx(151 + 2 / 3), 1816.0)
    assert tiers["goodput"] > found["goodput"] + 0.2
    told = StringIO()
    with redirect_stdout(told):
        assert run(["plan", *map(str, words)]) == 0
    assert "3+1, then 8+4@4 1 node 1.4e-04 5 min 60 min" in " ".join(told.getvalue().split())
    assert ask(*words, "--near-loss", 1)[1][-1]["layouts"][0]["tiers"]["lost"] == tiers["lost_far"]
    assert ask("8+4@4")[1][-1]["layouts"][0]["tiers"] is None


# -- what was measured ----------------------------------------


def test_bench_is_fed_to_plan(tmp_path):
    ckpt = Ckpt(tmp_path, "abc", "2+1")
    assert ckpt("init").code == 0
    measured = ckpt("bench", "--size", "300kB", "--rounds", "1", "--json")
    file = tmp_path / "bench.json"
    file.write_text(measured.out)
    rates = {each["what"]: each["rate"] for each in measured.summary["timed"]}
    told = ckpt("plan", "--bench", file, "--processes", 10, "--state", "1GB", "--json")
    assert told.code == 0
    assert told.summary["job"]["bandwidth"] == pytest.approx(10 * 1.5 * rates["save"])
    slowest = min(rates["load"], rates["load, 1 targets lost"])
    assert told.summary["layouts"][0]["restore"] == pytest.approx(1e9 / (10 * slowest))
    assert told.summary["layouts"][0]["save"] == pytest.approx(1e9 / (10 * rates["save"]))
