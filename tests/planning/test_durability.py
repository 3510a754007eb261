"""The chain against closed forms, exact arithmetic and chance."""

import math
import time
from decimal import Decimal, localcontext

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ckptstore.errors import UsageError
from ckptstore.placement import Place, Survives
from ckptstore.planning import Layout, Rates, loss_probability, simulate_losses
from ckptstore.planning.durability import HOURS_A_YEAR, events, start


def test_without_redundancy_the_first_loss_counts():
    rates = Rates(target_loss=0.3, domain_loss=0.0)
    assert loss_probability(Layout.parse("4+0"), rates, 2.0) == pytest.approx(-math.expm1(-4 * 0.3 * 2.0), rel=1e-12)


def test_a_shock_to_the_only_domain_loses_everything():
    rates = Rates(target_loss=0.0, domain_loss=0.25)
    assert loss_probability(Layout.parse("4+2@1"), rates) == pytest.approx(-math.expm1(-0.25), rel=1e-12)
    assert loss_probability(Layout.parse("4+2@6"), Rates(0.0, 0.0)) == 0.0


def test_two_copies_have_the_closed_form():
    """The two eigenvalues of [[-2a, 2a], [b, -a - b]], b = 1 / rebuild, give the probability of not being lost."""
    a, b = 0.05, HOURS_A_YEAR / 24
    root = math.sqrt((3 * a + b) ** 2 - 8 * a * a)
    fast, slow = (3 * a + b + root) / 2, 4 * a * a / (3 * a + b + root)
    kept = (fast * math.exp(-slow) - slow * math.exp(-fast)) / (fast - slow)
    assert loss_probability(Layout.parse("1+1"), Rates(a, 0.0, 24.0)) == pytest.approx(1 - kept, rel=1e-9)


@pytest.mark.parametrize(
    ("layout", "rates"),
    [
        ("4+2", Rates(0.0157, 0.0, 36.0)),
        ("8+4@4", Rates(0.0157, 0.001, 36.0)),
        ("8+4", Rates(1e-4, 0.0, 6.0)),
        ("1+3@2", Rates(2.0, 0.5, 500.0)),
    ],
)
def test_tiny_probabilities_are_exact(layout, rates):
    """By the Taylor series with eighty digits."""
    found = Layout.parse(layout)
    assert loss_probability(found, rates) == pytest.approx(float(by_decimals(found, rates)), rel=1e-9)


def by_decimals(layout: Layout, rates: Rates) -> Decimal:
    with localcontext() as context:
        context.prec = 80
        states, matrix = [start(layout)], {}
        for state in states:
            for rate, after in events(state, rates):
                lost = sum(gone for _, gone in after) > layout.m
                if not lost and after not in states:
                    states.append(after)
                key = (state, None if lost else after)
                matrix[key] = matrix.get(key, Decimal(0)) + Decimal(rate)
        names = [*states, None]
        leaving = {state: sum((rate for (s, _), rate in matrix.items() if s == state), Decimal(0)) for state in names}
        steps = 1 << 14
        vector = {state: Decimal(int(state == states[0])) for state in names}
        step = Decimal(1) / steps
        single = {state: one_step(state, names, matrix, leaving, step) for state in names}
        power = single
        for _ in range(14):
            power = {s: {t: sum(power[s][u] * power[u][t] for u in names) for t in names} for s in names}
        return sum(vector[s] * power[s][None] for s in names)


def one_step(state, names, matrix, leaving, step):
    """The row of exp(Q step) of one state."""
    row = {name: Decimal(int(name == state)) for name in names}
    term = dict(row)
    for order in range(1, 40):
        moved = {name: -term[name] * leaving[name] for name in names}
        for (source, after), rate in matrix.items():
            moved[after] += term[source] * rate
        term = {name: value * step / order for name, value in moved.items()}
        row = {name: row[name] + term[name] for name in names}
    return row


@settings(deadline=None, max_examples=30)
@given(
    st.sampled_from(["2+1", "4+2", "4+2@3", "8+4@4", "1+2@3", "6+3@3"]),
    st.floats(1e-6, 3.0),
    st.floats(0.0, 1.0),
    st.floats(0.1, 2000.0),
)
def test_more_of_anything_bad_is_never_better(layout, target, domain, hours):
    found, rates = Layout.parse(layout), Rates(target, domain, hours)
    loss = loss_probability(found, rates)
    assert 0.0 <= loss <= 1.0
    nearly = loss * (1 - 1e-9)
    assert loss_probability(found, Rates(2 * target, domain, hours)) >= nearly
    assert loss_probability(found, Rates(target, domain + 0.1, hours)) >= nearly
    assert loss_probability(found, Rates(target, domain, 2 * hours)) >= nearly
    assert loss_probability(found, rates, 2.0) >= nearly
    assert loss_probability(found, rates.independent()) <= loss * (1 + 1e-9)


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 8), st.integers(0, 4), st.floats(1e-6, 3.0), st.floats(0.1, 2000.0))
def test_a_stronger_code_never_loses_more_often_target_by_target(k, m, target, hours):
    """More parity for the same data, and the same targets with less data on them."""
    rates = Rates(target, 0.0, hours)
    weaker = loss_probability(Layout.parse(f"{k}+{m}"), rates) * (1 + 1e-9)
    assert loss_probability(Layout.parse(f"{k}+{m + 1}"), rates) <= weaker
    if k > 1:
        assert loss_probability(Layout.parse(f"{k - 1}+{m + 1}"), rates) <= weaker


@pytest.mark.parametrize(
    ("layout", "rates", "trials"),
    [
        ("2+1", Rates(0.3, 0.02, 700.0), 2_000_000),
        ("4+2@3", Rates(0.5, 0.05, 400.0), 2_000_000),
        pytest.param("8+4@4", Rates(1.0, 0.2, 500.0), 1_000_000, marks=pytest.mark.soak),
        ("1+1@2", Rates(0.2, 0.0, 300.0), 6_000_000),
    ],
)
def test_chance_agrees_within_three_per_cent(layout, rates, trials):
    exact = loss_probability(Layout.parse(layout), rates)
    found = simulate_losses(Layout.parse(layout), rates, trials=trials, seed=7)
    assert exact >= 1e-3
    assert found.error < 0.01 * exact, "enough trials for the comparison to mean something"
    assert found.probability == pytest.approx(exact, rel=0.03)


def test_the_same_seed_gives_the_same_answer():
    rates = Rates(0.5, 0.05, 400.0)
    one, other, third = (simulate_losses(Layout.parse("2+1"), rates, trials=5000, seed=seed) for seed in (3, 3, 4))
    assert one == other != third


@pytest.mark.parametrize("text", ["", "4", "4+2@", "4+2@7", "0+2", "4+2@0", "200+56", "4+2 ", "a+b", "-1+2"])
def test_what_is_no_layout_is_refused(text):
    with pytest.raises(UsageError, match=r"layout|wanted"):
        Layout.parse(text)


def test_a_layout_says_what_it_survives():
    assert Layout.parse("8+4@4").domains == (3, 3, 3, 3)
    assert Layout.parse("8+4@4").survives == (4, 1)
    assert Layout.parse("1+2@3").survives == (2, 2)
    assert Layout.parse("5+2@3").domains == (2, 2, 3)
    assert Layout.parse("4+2").overhead == 1.5


def test_a_store_survives_no_more_than_its_votes():
    places = [Place(name, name) for name in "abcdef"]
    assert Layout.of_places("store", 4, 2, places).survives == (2, 2)
    assert Layout.of_places("store", 4, 2, places, Survives(1, 1)).survives == (1, 1)


@pytest.mark.parametrize("bad", [{"target_loss": -1.0}, {"domain_loss": math.nan}, {"rebuild_hours": 0.0}])
def test_rates_that_are_none_are_refused(bad):
    with pytest.raises(UsageError):
        Rates(**bad)


@pytest.mark.parametrize("layout", ["1+254", "20+4@6", "16+8@8"])
def test_wide_layouts_are_answered_in_seconds(layout):
    begun = time.process_time()
    assert 0 <= loss_probability(Layout.parse(layout), Rates()) < 1e-3
    assert time.process_time() - begun < 20


@pytest.mark.parametrize("layout", ["100+20@6", "40+20@5", "128+127@2"])
def test_layouts_with_more_states_than_can_be_reckoned_with_are_refused_at_once(layout):
    with pytest.raises(UsageError, match="more than 600 different states of loss"):
        loss_probability(Layout.parse(layout), Rates())


@pytest.mark.parametrize(("what", "value"), [("trials", 0), ("trials", -5), ("seed", -1)])
def test_trials_that_can_not_be_are_refused(what, value):
    with pytest.raises(UsageError, match=f"{what} = {value}") as raised:
        simulate_losses(Layout.parse("2+1"), Rates(), **{what: value})
    assert raised.value.fields["key"] == what
