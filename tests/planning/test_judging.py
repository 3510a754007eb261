"""Objectives beside layouts: by hand, to the second, and what no layout can do."""

import pytest

from ckptstore.objectives import Objectives
from ckptstore.planning import Job, Layout, Rates, compare
from ckptstore.planning.judging import Verdict, unmet_by_all

JOB = Job(state=1e12, bandwidth=100e9, stall=2.0)  # 4+2 is saved in 15 s and read in 10 s


def judged(job: Job, *layouts: str, **objectives) -> list[dict[str, Verdict]]:
    found = compare([Layout.parse(each) for each in layouts], job, Rates(), Objectives(**objectives))
    return [{verdict.objective: verdict for verdict in each.verdicts} for each in found]


def test_each_objective_holds_or_is_missed_by_so_much():
    """Saved to every 100 s, stalled for 2 s, there after 15 s: at most 117 s old."""
    job = Job(state=1e12, bandwidth=100e9, stall=2.0, interval=100.0)
    (found,) = judged(job, "4+2@3", rpo="2m", rto="8s", survive=2, survive_domains=2)
    assert {name: (verdict.reached, verdict.spare, verdict.met) for name, verdict in found.items()} == {
        "rpo": (117.0, 3.0, True),
        "rto": (10.0, -2.0, False),
        "survive": (2, 0, True),
        "survive_domains": (1, -1, False),
    }


def test_without_objectives_nothing_is_judged():
    assert judged(JOB, "4+2") == [{}]


def test_the_interval_keeps_to_the_rpo_where_none_is_given():
    best = compare([Layout.parse("4+2")], JOB, Rates())[0]
    assert best.interval == best.best > 60
    bound = compare([Layout.parse("4+2")], JOB, Rates(), Objectives(rpo=60))[0]
    assert bound.interval == pytest.approx(60 - 2 - 15)
    assert (bound.best, bound.age) == (best.best, pytest.approx(60))
    assert not bound.missed
    assert bound.goodput < best.goodput
    assert bound.saving > best.saving
    loose = compare([Layout.parse("4+2")], JOB, Rates(), Objectives(rpo="1d"))[0]
    assert loose.interval == best.best


def test_what_no_interval_can_do_is_missed():
    """A save takes 15 s, and the next one begins when it has ended: never younger than 32 s."""
    (found,) = judged(JOB, "4+2", rpo=30)
    assert found["rpo"].reached == pytest.approx(32)
    assert not found["rpo"].met
    assert judged(JOB, "4+2", rpo=32)[0]["rpo"].met


@pytest.mark.parametrize("rpo", [61.7, 77.77, 93.1, 123.456])
def test_what_is_kept_to_the_second_is_not_missed_by_rounding(rpo):
    job = Job(state=1.7e12, bandwidth=103e9, stall=1.3)
    for layout in ("4+2", "7+3", "5+1", "3+2"):
        assert judged(job, layout, rpo=rpo)[0]["rpo"].met


def test_a_read_bandwidth_of_its_own_decides_the_restore():
    job = Job(state=1e12, bandwidth=100e9, read_bandwidth=50e9)
    assert judged(job, "4+2", rto=19)[0]["rto"].spare == -1


def test_only_what_all_miss_can_t_be_met():
    found = judged(JOB, "4+2", "8+4@4", rto=5, survive=3)
    (verdict,) = unmet_by_all([list(each.values()) for each in found])
    assert (verdict.objective, verdict.spare) == ("rto", -5)
    nearest = unmet_by_all([list(each.values()) for each in judged(JOB, "4+2", "8+4@4", survive=5)])
    assert [(each.objective, each.reached) for each in nearest] == [("survive", 4)]
