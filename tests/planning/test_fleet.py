"""Published figures, limits that are known, and a job simulated failure by failure."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckptstore.errors import ConfigError, UsageError
from ckptstore.placement import Place
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
from ckptstore.prices import FIELDS, Tariff


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
    """400 GB at 4+2: 100 GB on each of six targets, three of them in another region; 1000 stripes of 4 x 100 MB."""
    layout = Layout.parse("4+2@2")
    prices = Prices(storage=0.02, puts=5.0, gets=0.4, egress=0.1, ingress=0.05)
    state, fragment = 400e9, 100e6
    assert fragments_of(layout, state, fragment) == 6000
    assert storage_cost(layout, prices, state, 3).dollars == pytest.approx(3 * 600 * 0.02)
    assert save_cost(layout, prices, state, fragment).dollars == pytest.approx(6 * 5.0 + 300 * 0.05)
    assert restore_cost(layout, prices, state, fragment).dollars == pytest.approx(4 * 0.4 + 200 * 0.1)


def test_costs_of_a_store_are_those_of_its_targets():
    """Of 300 GB at 2+1, 150 GB on each target and 100 GB read from each; c is dear, and the job is beside b."""
    places = [Place("a", "east"), Place("b", "west"), Place("c", "west")]
    layout = Layout.of_places("store", 2, 1, places)
    prices = Prices(
        storage=0.02, puts=0.0, gets=0.0, egress=0.1, ingress=0.0, job="west", targets={"c": Tariff(storage=1.0)}
    )
    assert storage_cost(layout, prices, 300e9, 1).dollars == pytest.approx(150 * 0.02 * 2 + 150 * 1.0)
    assert restore_cost(layout, prices, 300e9, 1e8).dollars == pytest.approx(100 * 0.1)
    dear = Prices(storage=0.02, puts=0.0, gets=0.0, egress=0.1, domains={"west": Tariff(egress=0.2)})
    assert restore_cost(layout, dear, 300e9, 1e8).dollars == pytest.approx(200 * 0.2), "the job is where a is"


@given(
    st.sampled_from(["4+2", "8+4@4", "1+2@3"]),
    st.floats(1e3, 1e14),
    st.floats(1.0, 10.0),
    st.lists(st.floats(0.0, 10.0), min_size=5, max_size=5),
)
def test_more_bytes_never_cost_less(name, state, times, amounts):
    layout, prices = Layout.parse(name), Prices(**dict(zip(FIELDS, amounts, strict=True)))
    for cost in (
        lambda size: storage_cost(layout, prices, size, 3),
        lambda size: save_cost(layout, prices, size, 2**24),
        lambda size: restore_cost(layout, prices, size, 2**24),
    ):
        assert cost(state * times).known >= cost(state).known * (1 - 1e-9) >= 0


@pytest.mark.parametrize(
    ("given", "missing"),
    [
        ({"storage": 0.02}, ["egress", "gets", "ingress", "puts"]),
        ({"storage": 0.02, "puts": 0.0, "gets": 0.0, "ingress": 0.0}, ["egress"]),
    ],
)
def test_a_price_that_is_missing_is_named_and_never_0(given, missing):
    with pytest.raises(ConfigError, match=f"prices missing: {', '.join(missing)}; ") as raised:
        compare([Layout.parse("4+2@2")], Job(prices=Prices(**given)), Rates())
    assert (raised.value.missing, raised.value.key) == (missing, f"prices.{missing[0]}")
    assert raised.value.hint


def test_a_price_of_what_is_not_done_is_not_missed():
    """In one region nothing crosses any."""
    job = Job(prices=Prices(storage=0.02, puts=0.0, gets=0.0))
    (found,) = compare([Layout.parse("4+2@1")], job, Rates())
    assert found.monthly == pytest.approx(10 * 5e12 * 1.5 / 1e9 * 0.02)


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
