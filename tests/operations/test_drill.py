"""Drills: what is lost is lost for the drill only, and what it says of each checkpoint is so."""

import json
import os
import shutil
from itertools import combinations
from pathlib import Path
from xml.etree import ElementTree as ET

import msgspec
import numpy as np
import pytest

from ckptstore.config import Config
from ckptstore.errors import CorruptError, NotFoundError, UsageError
from ckptstore.events import FragmentDamaged, Progress, TargetFailed
from ckptstore.objectives import Objectives
from ckptstore.operations.drill import Round, drill, perform, restoring
from ckptstore.operations.drill.placements import gather, worst_set
from ckptstore.operations.drill.writing import as_junit
from ckptstore.operations.marking import delete
from ckptstore.operations.promises import beyond_layout
from ckptstore.run import Run
from ckptstore.selection import Selector, history_of
from tests.operations.digests import digests
from tests.operations.pages import Page
from tests.support import RUN, Listener, make_store, random_bytes


def with_objectives(config: Config, **objectives: object) -> Config:
    return msgspec.structs.replace(config, objectives=Objectives(**objectives))


@pytest.fixture
def store(tmp_path):
    """Two checkpoints of three stripes and more on six targets."""
    found = make_store(tmp_path / "targets")
    for step in (1, 2):
        found.save({"w": random_bytes(900_000, step), "b": np.arange(17.0)}, step=step, ranks=2)
    return found


def states(report) -> list[str]:
    return [result.state for result in report.results]


def only(report):
    (result,) = report.results
    return result


def verdicts(report) -> dict[str, str]:
    return {each.objective: each.verdict for each in report.verdicts}


# -- what comes back ----------------------------------------


def test_two_of_six_lost_and_not_a_byte_of_the_store_changed(store):
    before = digests(store.root)
    times = {path: path.stat().st_mtime_ns for path in store.root.rglob("*")}
    config = with_objectives(store.config, survive=2, rto="1h", rpo="1h")
    report = drill(config, RUN, every=True)
    assert states(report) == ["restored", "restored"]
    assert verdicts(report) == {"survive": "pass", "rto": "pass", "rpo": "pass"}
    assert report.exit_code == 0
    (each,) = report.rounds
    assert len(each.faults.lost) == 2
    assert "worst set of all 15" in each.faults.how
    assert digests(store.root) == before
    assert {path: path.stat().st_mtime_ns for path in store.root.rglob("*")} == times


def test_what_is_missing_already_counts_for_the_worst_set_and_for_what_is_survived(store):
    """Else the worst set may be what is damaged, the loss of which takes nothing more away."""
    config = with_objectives(store.config, survive=2)
    shutil.rmtree(store.root / "d/data")
    report = drill(config, RUN)
    (each,) = report.rounds
    assert "d" not in each.faults.lost
    assert states(report) == ["lost"]
    assert verdicts(report) == {"survive": "fail"}
    assert report.next == "ckpt repair"
    store.repair()
    assert verdicts(drill(config, RUN)) == {"survive": "pass"}


def test_whatever_is_done_to_it_the_store_is_as_it_was(store, tmp_path):
    before = digests(store.root)
    rounds = [
        Round(lose=3),
        Round(lose_targets=[*"abcdef"]),
        Round(empty=["a", "b", "c"]),
        Round(empty=[*"abcdef"]),
        Round(corrupt=[*"abc"]),
        Round(corrupt=[*"abcdef"]),
        Round(slow={"a": 0.001}, throttle={"b": "100MiB"}),
    ]
    report = drill(store.config, RUN, every=True, rounds=rounds, report_dir=tmp_path / "r", scratch=tmp_path / "s")
    assert states(report) == ["lost"] * 12 + ["restored"] * 2
    assert report.exit_code == 4
    assert digests(store.root) == before


def test_a_window_of_one_stripe_is_enough(tmp_path):
    store = make_store(tmp_path, window=6 * (64 << 10))
    store.save({"w": random_bytes(1_500_000)}, step=1, ranks=1)
    assert only(drill(store.config, RUN)).state == "restored"


def test_every_byte_of_every_shard_is_compared(store):
    result = only(drill(store.config, RUN))
    assert result.name == "step-2"
    assert result.bytes == result.total == store.latest().bytes
    records = [store.record(store.latest(), shard) for shard in range(2)]
    assert result.blocks == sum(4 for record in records for _ in record.stripes)
    assert result.predicted_read <= result.read < 1.1 * result.predicted_read


@pytest.mark.parametrize("lost", [{"lose_targets": ["a", "c", "e"]}, {"lose": 3}, {"empty": ["a", "b", "c"]}])
def test_three_lost_are_too_many_and_no_wrong_byte_is_taken_for_right(store, lost):
    config = with_objectives(store.config, survive=2, rto="1h", rpo="1h")
    report = drill(config, RUN, rounds=[Round(**lost)])
    result = only(report)
    assert (result.state, result.bytes, result.blocks) == ("lost", 0, 0)
    assert result.kind in {"OutOfReach", "DataLost", "CorruptError", "NotFoundError"}
    assert result.message
    assert report.exit_code == 4
    assert verdicts(report) == {"survive": "untested", "rto": "untested", "rpo": "untested"}
    assert "more was lost than the 2" in report.next


def test_a_lost_target_and_a_corrupt_one_are_within_m(store):
    report = drill(store.config, RUN, rounds=[Round(lose_targets=["a"], corrupt=["b"])], every=True)
    assert states(report) == ["restored", "restored"]
    assert only(drill(store.config, RUN, rounds=[Round(lose_targets=["a"], corrupt=["b", "c"])])).state == "lost"


def test_corrupt_targets_are_read_and_what_they_gave_is_refused(store):
    listener = Listener()
    report = drill(store.config, RUN, rounds=[Round(corrupt=["a", "b"], empty=[])], observer=listener)
    assert only(report).state == "restored"
    assert only(report).read > only(report).bytes
    assert not [e for e in listener.events if isinstance(e, FragmentDamaged | TargetFailed)]


def test_a_decoder_that_gives_other_bytes_is_found_out(store, monkeypatch):
    """The load's own checks out of the way: the drill compares for itself."""
    real = restoring.verified

    def lying(*arguments):
        for stripe in real(*arguments):
            stripe.buffer[5] ^= 1
            yield stripe

    monkeypatch.setattr(restoring, "verified", lying)
    result = only(drill(store.config, RUN))
    assert (result.state, result.kind) == ("lost", CorruptError.__name__)
    assert "differs from the digest recorded" in result.message


def test_what_is_really_lost_counts(store):
    store.wipe("f")
    report = drill(with_objectives(store.config, survive=2), RUN, rounds=[Round(lose_targets=["a", "b"])])
    assert (only(report).state, report.exit_code) == ("lost", 4)
    assert (verdicts(report), report.next) == ({"survive": "fail"}, "ckpt repair")


def test_rot_that_nobody_saw_is_found_and_the_next_step_is_to_look_for_it(store):
    for fragment in store.fragments(store.latest()):
        if fragment.target == "f":
            store.flip(fragment)
    report = drill(with_objectives(store.config, survive=2), RUN, rounds=[Round(lose_targets=["a", "b"])])
    assert (only(report).state, report.exit_code) == ("lost", 4)
    assert (verdicts(report), report.next) == ({"survive": "fail"}, "ckpt verify --read-data")


def test_what_is_really_out_of_reach_is_not_missing(store):
    store.take_away("f")
    report = drill(store.config, RUN, rounds=[Round(lose_targets=["a"]), Round(lose_targets=["a", "b"])])
    assert states(report) == ["restored", "unknown"]
    assert [*report.out_of_reach] == ["f"]
    assert (report.exit_code, report.next) == (5, "ckpt doctor")


def test_one_that_is_deleted_meanwhile_is_no_failure(store, monkeypatch):
    def after_it_is_gone(*arguments):
        fragments = [f for shard in range(2) for f in store.fragments(store.latest(), shard)]
        delete(store.opened, RUN, Selector(step=2))
        for fragment in fragments:
            store.remove(fragment)
        return restoring.restore_stripes(*arguments)

    monkeypatch.setattr(perform, "restore_stripes", after_it_is_gone)
    report = drill(store.config, RUN, rounds=[Round(lose=1)])
    assert (states(report), report.exit_code) == (["changed"], 11)
    assert only(report).kind == "DataLost"


# -- which are lost ----------------------------------------


def test_the_worst_set_is_that_which_leaves_least(tmp_path):
    """Of seven targets a stripe is on six: the search finds two whose loss costs most."""
    store = make_store(tmp_path, "abcdefg")
    store.save({"w": random_bytes(300_000)}, step=1)
    history = history_of(store.opened, RUN)
    placements = gather(store.opened, history, history.checkpoints)
    units = [frozenset(name) for name in "abcdefg"]
    worst = worst_set(placements, units, 2, frozenset())
    assert (worst.looked_at, worst.sets) == (21, 21)
    least = min(placements.margin(frozenset(pair)) for pair in combinations("abcdefg", 2))
    assert placements.margin(worst.gone) == least == 0
    held = {pair: sum(placements.data[name] for name in pair) for pair in combinations("abcdefg", 2)}
    full = [pair for pair in held if placements.margin(frozenset(pair)) == least]
    assert sum(placements.data[name] for name in worst.gone) == max(held[pair] for pair in full)


@pytest.mark.parametrize("base", [frozenset(), frozenset("c")])
@pytest.mark.parametrize("code", ["4+2", "2+1"])
def test_a_search_that_would_take_too_long_still_finds_one_that_leaves_least(tmp_path, monkeypatch, code, base):
    store = make_store(tmp_path, "abcdefghi", code)
    store.save({"w": random_bytes(2_000_000)}, step=1)
    history = history_of(store.opened, RUN)
    placements = gather(store.opened, history, history.checkpoints)
    units = [frozenset(name) for name in "abcdefghi" if name not in base]
    for count in (1, 2, 3):
        exhaustive = worst_set(placements, units, count, base)
        with monkeypatch.context() as context:
            context.setattr("ckptstore.operations.drill.placements.STEPS", 2 * len(placements.all_patterns))
            sampled = worst_set(placements, units, count, base)
        assert sampled.looked_at <= 2 < exhaustive.looked_at
        assert placements.margin(sampled.gone | base) == placements.margin(exhaustive.gone | base)


def test_a_search_that_would_take_too_long_is_told(store, monkeypatch):
    monkeypatch.setattr("ckptstore.operations.drill.placements.STEPS", 1)
    (each,) = drill(store.config, RUN, rounds=[Round(lose=2)]).rounds
    assert "of 15 sets 1 were looked at" in each.faults.how
    assert len(each.faults.lost) == 2


def test_a_draw_is_repeated_by_its_seed(store):
    rounds = [Round(lose=2, random=True)]
    drawn = [drill(store.config, RUN, rounds=rounds, seed=seed).rounds[0].faults.lost for seed in (1, 1, 2, 3, 4)]
    assert drawn[0] == drawn[1]
    assert len({*drawn}) > 1
    several = drill(store.config, RUN, rounds=rounds * 4, seed=1).rounds
    assert several[0].faults.lost == drawn[0]
    assert len({each.faults.lost for each in several}) > 1


def test_domains_are_lost_whole(tmp_path):
    store = make_store(tmp_path, domains=dict(zip("abcdef", "xxyyzz", strict=True)))
    store.save({"w": random_bytes(300_000)}, step=1)
    config = with_objectives(store.config, survive_domains=1, survive=2)
    report = drill(config, RUN)
    assert [len(each.faults.lost) for each in report.rounds] == [2, 2]
    assert report.rounds[1].domains_lost == 1
    assert verdicts(report) == {"survive": "pass", "survive_domains": "pass"}
    assert drill(config, RUN, rounds=[Round(lose_domains=["y"])]).rounds[0].faults.lost == ("c", "d")
    report = drill(config, RUN, rounds=[Round(lose_targets=["a", "c", "e"])])
    assert verdicts(report) == {"survive": "untested", "survive_domains": "untested"}


def test_without_objectives_as_many_are_lost_as_the_code_has_parity(tmp_path):
    store = make_store(tmp_path, "abc", "2+1")
    store.save({"w": random_bytes(100_000)}, step=1)
    report = drill(store.config, RUN)
    assert len(report.rounds[0].faults.lost) == 1
    assert report.verdicts == []


# -- how long, and how new ----------------------------------------


def test_slow_and_throttled_targets_are_measured(store):
    slow = only(drill(store.config, RUN, rounds=[Round(slow=dict.fromkeys("abcdef", "0.05s"))]))
    assert slow.state == "restored"
    assert slow.seconds > 0.15
    throttled = only(drill(store.config, RUN, rounds=[Round(throttle=dict.fromkeys("abcdef", "1MiB"))]))
    assert throttled.seconds > throttled.bytes / (6 << 20)
    assert throttled.predicted is not None


def test_objectives_that_are_missed(store):
    report = drill(with_objectives(store.config, rto=0.0001, survive=2, rpo="1h"), RUN)
    assert states(report) == ["restored"]
    assert verdicts(report) == {"survive": "pass", "rto": "fail", "rpo": "pass"}
    assert (report.exit_code, report.next) == (3, "see what other layouts take: ckpt plan")


def test_an_old_checkpoint_misses_the_rpo_only_where_the_latest_was_drilled(store, monkeypatch):
    monkeypatch.setattr("ckptstore.operations.drill.judging.age_of", lambda created, now: 7200.0)
    config = with_objectives(store.config, rpo="1h")
    assert verdicts(drill(config, RUN)) == {"rpo": "fail"}
    assert verdicts(drill(config, RUN, Selector(step=1))) == {"rpo": "untested"}
    report = drill(config, RUN)
    assert (report.exit_code, "ckpt log" in report.next) == (3, True)


def test_a_sample_is_scaled_to_all_bytes_and_says_so(store):
    config = with_objectives(store.config, rto="1h")
    report = drill(config, RUN, sample=0.4, seed=3)
    result = only(report)
    assert 0 < result.bytes < result.total
    assert result.whole_seconds > result.seconds
    assert "scaled from a sample" in report.verdicts[0].found
    assert only(drill(config, RUN, sample=0.4, seed=3)).bytes == result.bytes
    assert only(drill(config, RUN, sample=1e-9)).blocks > 0


def test_what_the_layout_cannot_keep_is_said_and_drilled(store):
    config = with_objectives(store.config, survive=3, survive_domains=3)
    beyond = beyond_layout(config)
    assert len(beyond) == 2
    assert (
        "objectives.survive = 3 can't be met: code 4+2 over 6 targets in 6 domains survives the loss of 2" in beyond[0]
    )
    report = drill(config, RUN)
    assert verdicts(report) == {"survive": "fail", "survive_domains": "fail"}
    assert (report.exit_code, report.beyond_layout) == (4, beyond)
    assert "more parity" in report.next
    report = drill(config, RUN, rounds=[Round(lose=1)])
    assert verdicts(report) == {"survive": "fail", "survive_domains": "fail"}
    assert report.exit_code == 3


def test_predicted_from_earlier_drills_where_nothing_can_be_measured(store, tmp_path):
    reports = tmp_path / "reports"
    first = drill(store.config, RUN, report_dir=reports)
    assert first.prediction.source == "measured"
    (reports / "drill-other.json").write_text("[1]")
    os.mkfifo(reports / "drill-pipe.json")
    store.take_away("a", "b")  # all but the probe of the latest works without them
    for fragment in store.fragments(store.latest()):
        if fragment.target in "cd":
            store.remove(fragment)
    report = drill(store.config, RUN, rounds=[Round()], report_dir=reports)
    assert report.prediction.source == "history"
    assert report.prediction.rate > 0
    assert only(report).state == "unknown"


# -- what can't be ----------------------------------------


@pytest.mark.parametrize(
    ("wrong", "key"),
    [
        ({"lose_targets": ["z"]}, "lose_targets"),
        ({"lose_domains": ["mars"]}, "lose_domains"),
        ({"corrupt": ["z"]}, "corrupt"),
        ({"lose": 7}, "lose"),
        ({"lose": -1}, "lose"),
        ({"lose_any_domains": 7}, "lose_any_domains"),
        ({"random": True}, "random"),
        ({"lose": 1, "lose_any_domains": 1}, "lose"),
        ({"lose_targets": ["a"], "corrupt": ["a"]}, "corrupt"),
        ({"slow": {"a": "quickly"}}, "slow a"),
        ({"throttle": {"a": "0B"}}, "throttle"),
        ({"throttle": {"a": "fast"}}, "throttle a"),
    ],
)
def test_rounds_that_can_not_be_name_their_field(store, wrong, key):
    with pytest.raises(UsageError) as caught:
        drill(store.config, RUN, rounds=[Round(**wrong)])
    assert caught.value.key == key
    assert key in caught.value.message


@pytest.mark.parametrize("rounds", [[], [{"lose": 1}]])
def test_what_is_no_round_is_refused(store, rounds):
    with pytest.raises(UsageError, match="round"):
        drill(store.config, RUN, rounds=rounds)


def test_folders_inside_a_target_and_full_ones_are_refused(store, tmp_path):
    for inside in ("scratch", "report_dir"):
        with pytest.raises(UsageError, match="inside target a") as caught:
            drill(store.config, RUN, **{inside: store.root / "a" / "x"})
        assert caught.value.key == inside
    assert not (store.root / "a" / "x").exists()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thing").touch()
    with pytest.raises(UsageError, match="holds something"):
        drill(store.config, RUN, scratch=tmp_path / "full")
    with pytest.raises(UsageError, match="no whole files"):
        drill(store.config, RUN, scratch=tmp_path / "new", sample=0.5)
    for sample in (0, 2, True, "10%"):
        with pytest.raises(UsageError, match="sample"):
            drill(store.config, RUN, sample=sample)
    with pytest.raises(UsageError, match="all checkpoints and"):
        drill(store.config, RUN, Selector(step=1), every=True)


def test_no_such_run_or_checkpoint(store):
    with pytest.raises(NotFoundError, match="nosuch"):
        drill(store.config, "nosuch")
    with pytest.raises(NotFoundError, match="step 9"):
        drill(store.config, RUN, Selector(step=9))


# -- what is written ----------------------------------------


def test_into_a_scratch_folder_as_standard_files(store, tmp_path):
    from safetensors.numpy import load_file

    result = only(
        drill(store.config, RUN, Selector(step=1), scratch=tmp_path / "out", rounds=[Round(empty=["a", "b"])])
    )
    assert result.state == "restored"
    tensors = {}
    for path in (tmp_path / "out" / "round-1" / result.key).iterdir():
        tensors |= load_file(path)
    assert tensors["w"].tobytes() == random_bytes(900_000, 1).tobytes()


def test_reports_for_scripts_servers_and_people(store, tmp_path):
    config = with_objectives(store.config, survive=2, rto=1e-6, rpo="1h")
    nasty = "<script>alert('$x')</script> & \x1b[31m"
    rounds = [Round(name=nasty, lose=2), Round(lose=3), Round(slow={"c": 0.01})]
    report = drill(config, RUN, every=True, rounds=rounds, report_dir=tmp_path / "reports")
    assert len({path.rpartition(".")[0] for path in report.files}) == 1
    found = {path.rpartition(".")[2]: path for path in report.files}

    document = json.loads(Path(found["json"]).read_text(encoding="utf-8"))
    assert (document["format"], document["exit_code"], document["rounds"][0]["name"]) == (1, 4, nasty)
    assert [r["state"] for each in document["rounds"] for r in each["results"]] == states(report)

    suite = ET.parse(found["xml"]).getroot().find("testsuite")
    cases = suite.findall("testcase")
    assert len(cases) == len(report.results) + len(report.verdicts) == int(suite.get("tests"))
    assert int(suite.get("failures")) == len(suite.findall("testcase/failure")) == 3
    assert suite.find("testcase/failure").get("message")

    text = Path(found["html"]).read_text(encoding="utf-8")
    page = Page(text.encode())
    assert page.links == []
    assert nasty.partition("\x1b")[0] in page.said
    assert "<script>" not in text
    for must in ("What to do next", "step-1", "did NOT come back", "prefers-color-scheme", "max-width", "CRC-32C"):
        assert must in text


def test_two_reports_of_one_second_are_two(store, tmp_path):
    config = with_objectives(store.config)
    files = [drill(config, RUN, report_dir=tmp_path / "reports").files for _ in range(3)]
    assert len({name for each in files for name in each}) == 9
    assert len([*(tmp_path / "reports").iterdir()]) == 9


def test_untested_and_unknown_are_neither_passed_nor_failed_in_junit(store):
    store.take_away("f")
    config = with_objectives(store.config, survive=2, rto="1h")
    report = drill(config, RUN, rounds=[Round(lose_targets=["a", "b"])])
    suite = ET.fromstring(as_junit(report)).find("testsuite")
    assert int(suite.get("errors")) == 1


def test_python_drills_a_run_and_tells_how_far_it_is(store, tmp_path):
    listener = Listener()
    report = Run(store.config, RUN).drill(1, rounds=[Round(lose=1)], report_dir=tmp_path / "r", observer=listener)
    assert only(report).name == "step-1"
    steps = [event for event in listener.events if isinstance(event, Progress)]
    assert sum(step.done for step in steps) == steps[0].total == only(report).total
