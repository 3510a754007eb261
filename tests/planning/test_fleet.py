"""Published figures, limits that are known, and a job simulated failure by failure."""

import math
import random

import pytest

from ckptstore.errors import UsageError
from ckptstore.planning import (
    Job,
    Layout,
    Prices,
    Rates,
    best_interval,
    compare,
    daly_interval,
    goodput,
    mttf_hours,
    young_interval,
)
from ckptstore.planning.cost import fragments_of, restore_cost, save_cost, storage_cost


@pytest.mark.parametrize(("gpus", "hours"), [(16_384, 1.8), (131_072, 0.23)])
def test_published_times_between_interruptions(gpus, hours):
    """Kokolis et al., HPCA 2025: projected for 16,384 and 131,072 GPUs."""
    assert mttf_hours(gpus) == pytest.approx(hours, rel=0.05)


def test_the_best_interval_is_dalys_where_that_holds_and_the_goodput_is_highest_there():
    for stall, mttf in ((2.0, 6480.0), (30.0, 6480.0), (60.0, 828.0)):
        best = best_interval(stall=stall, mttf=mttf)
        assert best == pytest.approx(daly_interval(stall, mttf), rel=0.02)
        values = [goodput(best * f, stall=stall, lag=0, restart=0, mttf=mttf) for f in (0.8, 0.95, 1.0, 1.05, 1.25)]
        assert max(values) == values[2]
    assert young_interval(2.0, 6480.0) == math.sqrt(2 * 2.0 * 6480.0)
    assert daly_interval(5000.0, 2000.0) == 2000.0


@pytest.mark.parametrize(
    ("interval", "stall", "lag", "restart", "mttf"), [(160, 2, 0, 0, 6480), (300, 20, 45, 400, 3000)]
)
def test_goodput_is_what_a_job_gets_that_is_interrupted_by_chance(interval, stall, lag, restart, mttf):
    found = goodput(interval, stall=stall, lag=lag, restart=restart, mttf=mttf)
    assert found == pytest.approx(trained(interval, stall, lag, restart, mttf), rel=0.02)


def trained(interval, stall, lag, restart, mttf, segments=60_000):
    """The share of time of a job that has to do a segment (training and stall) again after each interruption."""
    rng, clock = random.Random(5), 0.0
    for _ in range(segments):
        while (until := rng.expovariate(1 / mttf)) < interval + stall:
            clock += until
            while (again := rng.expovariate(1 / mttf)) < restart + lag:
                clock += again
            clock += restart + lag
        clock += interval + stall
    return segments * interval / clock


def test_extremes():
    assert goodput(100, stall=1, lag=0, restart=0, mttf=0.01) == 0.0
    assert best_interval(stall=2.0, mttf=6480.0, least=500.0) == 500.0
    with pytest.raises(UsageError):
        mttf_hours(0)
    with pytest.raises(UsageError):
        Job(bandwidth=0.0)


def test_costs_by_hand():
    layout, prices = Layout.parse("4+2@2"), Prices(storage=0.02, puts=5.0, gets=0.4, transfer=0.1)
    state, fragment = 400e9, 100e6
    assert fragments_of(layout, state, fragment) == 6000
    assert storage_cost(layout, prices, state, 3) == pytest.approx(3 * 600 * 0.02)
    assert save_cost(layout, prices, state, fragment) == pytest.approx(6 * 5.0 + 300 * 0.1)
    assert restore_cost(layout, prices, state, fragment) == pytest.approx(4 * 0.4 + 100 * 0.1)


def test_a_code_over_regions_beside_copies():
    """The question that a plan is to answer: it loses less often than two copies, stores less, and sends more away."""
    job, rates = Job(), Rates()
    coded, copies = compare([Layout.parse("8+4@4"), Layout.parse("1+1@2")], job, rates)
    assert coded.loss < copies.loss / 20
    assert coded.storage < copies.storage
    assert coded.saving > copies.saving, "three quarters of 1.5 x go to other regions, and half of 2 x"
    assert coded.survives.targets > copies.survives.targets
    assert coded.loss >= coded.loss_independent
    assert 0.9 < coded.goodput < 1.0
    assert compare([Layout.parse("8+4@4")], job, rates) == [coded]
