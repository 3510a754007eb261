"""Two tiers: by hand, against closed forms, and against a job simulated interruption by interruption."""

import random

import pytest

from ckptstore.errors import UsageError
from ckptstore.planning import Job, Layout, Near, Rates, compare, with_near
from ckptstore.planning.durability import HOURS_A_YEAR
from ckptstore.planning.tiers import beyond_near


def test_all_of_it_by_hand():
    """800 GB on 8 nodes. Near: 3+1 at 40 GB/s, there 26.67 s later, read in 20 s. Far: read in 80 s, there in 120 s."""
    job = Job(gpus=64, state=800e9, bandwidth=10e9, stall=4.0, restart=100.0, interval=3596.0)
    (far,) = compare([Layout.parse("4+2")], job, Rates())
    found = with_near(Near(Layout.parse("3+1"), 40e9, 296.0, 0.25), job, far)
    mttf = 24 / (8 * 6.5e-3) * 3600
    assert found.survives == (1, 1)
    assert (found.restore_near, found.restore_far) == (20.0, 80.0)
    assert found.lost_near == pytest.approx(300 / 2 + 800 / 3 / 10)
    assert found.lost_far == pytest.approx(3600 / 2 + 120)
    assert found.lost == pytest.approx(0.75 * (150 + 80 / 3) + 0.25 * 1920)
    assert found.restore == 0.75 * 20 + 0.25 * 80
    assert found.monthly == pytest.approx(far.storage + far.saving + far.restoring / 4)
    assert found.held == pytest.approx(800e9 * 4 / 3 / 8)
    assert found.goodput == pytest.approx((1 - (found.lost + 100 + 35) / mttf) / (1 + 4 / 296 + 4 / 3596))


def test_one_copy_survives_no_interruption_and_two_have_the_closed_form():
    """Two nodes are both lost at the rate 2 a a / (3 a + b), by losses of a node and saves; half as many pairs."""
    job = Job()
    assert beyond_near(Layout.parse("1+0"), job, 300.0) == pytest.approx(1.0, rel=1e-9)
    a, b = 6.5e-3 * 365, HOURS_A_YEAR / (600 / 3600)
    assert beyond_near(Layout.parse("1+1"), job, 300.0) == pytest.approx(a / (3 * a + b), rel=1e-4)


def test_a_stronger_near_tier_needs_the_far_one_less_and_an_older_one_more():
    job = Job()
    shares = [beyond_near(Layout.parse(layout), job, 300.0) for layout in ("3+0", "3+1", "3+2")]
    assert 1.0 >= shares[0] > shares[1] > shares[2] > 0
    assert beyond_near(Layout.parse("3+1"), job, 3000.0) > shares[1]


@pytest.mark.parametrize("beyond", [0.0, 0.1, 0.5])
def test_the_training_that_is_left_is_what_a_simulated_job_gets(beyond):
    job = Job(gpus=16384, state=1e12, bandwidth=20e9, stall=3.0, restart=120.0, interval=1000.0)
    (far,) = compare([Layout.parse("4+2")], job, Rates())
    assert (far.interval, far.save) == (1000.0, 75.0)
    found = with_near(Near(Layout.parse("3+1"), 1e12, 200.0, beyond), job, far)
    assert found.goodput == pytest.approx(simulated(job, found, far.interval, far.save), rel=0.02)
    assert found.goodput < 0.96, "interruptions cost enough for that to mean something"


def simulated(job, tiers, interval, save, days=200):
    """Second by second of a job that saves to both tiers and goes back to what was there when it was interrupted."""
    rng, clock, end = random.Random(11), 0.0, days * 86400.0
    work, near, far = 0.0, 0.0, 0.0
    while clock < end:
        until = clock + rng.expovariate(1 / job.mttf)
        begun = [(clock, "near", near), (clock, "far", far)]
        next_near, next_far = work + tiers.interval, max(far + interval, work)
        while True:
            wait = min(next_near, next_far) - work
            if clock + wait >= until:
                work, clock = work + until - clock, until
                break
            work, clock = work + wait, clock + wait
            kind = "near" if next_near <= next_far else "far"
            lag = tiers.save if kind == "near" else save
            begun.append((clock + lag, kind, work))
            clock += job.stall
            next_near, next_far = (work + tiers.interval, next_far) if kind == "near" else (next_near, work + interval)
        there = [(kind, at) for when, kind, at in begun if when <= until]
        far = max(at for kind, at in there if kind == "far")
        deep = rng.random() < tiers.beyond
        near = far if deep else max(at for _, at in there)
        work = near
        clock = until + job.restart + (tiers.restore_far if deep else tiers.restore_near)
    return work / clock


@pytest.mark.parametrize(
    ("given", "key"),
    [
        ({"bandwidth": 0.0}, "near.bandwidth"),
        ({"bandwidth": 1e9, "interval": -1.0}, "near.interval"),
        ({"bandwidth": 1e9, "beyond": 1.5}, "near.beyond"),
        ({"bandwidth": 1e9, "beyond": float("nan")}, "near.beyond"),
    ],
)
def test_what_is_no_near_tier_is_refused(given, key):
    with pytest.raises(UsageError) as raised:
        Near(Layout.parse("3+1"), **given)
    assert raised.value.key == key
