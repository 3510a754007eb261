"""Damage of every kind is right or refused, found, and repaired byte-equal: a sample here, all of it in `make soak`."""

import time
from collections.abc import Iterable

import pytest

from ckptstore.load.fetch import Fetcher
from ckptstore.operations import survey
from ckptstore.operations.mend import Mender
from tests.faults.campaign.campaign import Outcome, run, run_all
from tests.faults.campaign.counts import COLUMNS, by, proof_of
from tests.faults.report import keep

INJECTIONS = 10_000
SAMPLE = 300
SOAK = ".venv/bin/pytest -m soak --timeout 7200 -s tests/faults/campaign"


def assert_none_silent(outcomes: Iterable[Outcome]) -> None:
    silent = [str(outcome) for outcome in outcomes if outcome.silent]
    assert not silent, "\n".join(silent[:20])


@pytest.mark.parametrize("part", range(2))  # two, for two processes to share
def test_a_sample_of_the_corruption_campaign(part):
    outcomes = [run(seed) for seed in range(part, SAMPLE, 2)]
    assert_none_silent(outcomes)
    assert {"bit-equal", "refused"} < {outcome.load for outcome in outcomes} < set(COLUMNS)


@pytest.mark.soak
def test_the_corruption_campaign():
    start = time.monotonic()
    outcomes = list(run_all(range(INJECTIONS)))
    keep("corruption", proof_of(outcomes, time.monotonic() - start, SOAK))
    assert_none_silent(outcomes)


@pytest.mark.parametrize(
    ("room", "name", "broken"),
    [
        (Fetcher, "_is_good", lambda *_: True),
        (survey, "_bad_rows", lambda *_: frozenset()),
        (Mender, "_restore", lambda *_: None),
    ],
    ids=["digests aren't checked", "verify doesn't read", "repair leaves documents as they are"],
)
def test_the_campaign_finds_a_store_that_is_silently_wrong(monkeypatch, room, name, broken):
    monkeypatch.setattr(room, name, broken)
    assert any(run(seed).silent for seed in range(22, 62))  # from where each is found soon


def test_outcomes_are_counted():
    outcomes = [
        Outcome(1, "4+2", "fragment", "flipped", "bit-equal", "byte-equal"),
        Outcome(2, "4+2", "fragment", "zeroed", "refused", "left"),
        Outcome(3, "2+1", "marks", "flipped", silent="a wrong byte"),
    ]
    assert by("what", outcomes) == [
        ["what", *COLUMNS, "repaired byte-equal"],
        ["fragment", 1, 1, 0, 0, 0, 1],
        ["marks", 0, 0, 0, 0, 1, 0],
    ]
    assert proof_of(outcomes, 60.0, "make soak").counts["silent"] == 1
    with pytest.raises(AssertionError, match=r"seed 3: .*python -m tests\.faults\.campaign 3"):
        assert_none_silent(outcomes)
