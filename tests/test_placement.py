"""Placement: even spread, distinct targets and domains, and what survives, against brute force."""

from collections import Counter
from itertools import combinations

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import erasure
from ckptstore.placement import (
    Place,
    Survives,
    choose_copies,
    full_tolerance,
    place_stripe,
    rehome,
    survives,
)
from ckptstore.tolerance import stripe_survives

TARGETS = [f"t{i}" for i in range(12)]


@st.composite
def place_lists(draw, least=1, most=10):
    count = draw(st.integers(least, most))
    domains = draw(st.lists(st.sampled_from("uvwxyz"), min_size=count, max_size=count))
    return [Place(target, domain) for target, domain in zip(TARGETS, domains, strict=False)]


def apart(count: int) -> list[Place]:
    return [Place(target, target) for target in TARGETS[:count]]


@given(st.text("0123456789abcdef", min_size=1, max_size=8), st.integers(0, 99), st.integers(0, 24), place_lists())
def test_fragments_are_spread_evenly_and_over_distinct_targets(shard, stripe, n, places):
    at = place_stripe(shard, stripe, n, places)
    counts = Counter(at)
    assert len(at) == n
    assert len(counts) == min(n, len(places))
    assert max(counts.values(), default=0) - min((counts[i] for i in range(len(places))), default=0) <= 1


@given(st.integers(0, 99), st.integers(1, 10), place_lists())
def test_domains_come_before_a_second_fragment_in_one(stripe, n, places):
    assume(n <= len(places))
    domains = Counter(places[i].domain for i in place_stripe("s", stripe, n, places))
    assert len(domains) == min(n, len({place.domain for place in places}))


@given(place_lists(), st.integers(1, 12))
def test_placement_is_a_pure_function_of_shard_stripe_and_targets(places, n):
    assert place_stripe("s", 3, n, places) == place_stripe("s", 3, n, list(places))


def test_data_and_parity_take_turns_on_every_target():
    seen = {(i, at) for stripe in range(200) for i, at in enumerate(place_stripe("s", stripe, 6, apart(6)))}
    assert len(seen) == 36


def test_every_target_gets_its_share_of_many_stripes():
    counts = Counter(at for stripe in range(500) for at in place_stripe("s", stripe, 6, apart(9)))
    assert min(counts.values()) > 0.8 * 500 * 6 / 9


@given(place_lists(), st.integers(1, 15))
def test_copies_take_distinct_targets_and_domains_first(places, count):
    chosen = choose_copies("name", count, places)
    domain = {place.target: place.domain for place in places}
    assert len(set(chosen)) == len(chosen) == min(count, len(places))
    assert len({domain[target] for target in chosen}) == min(len(chosen), len(set(domain.values())))


# -- what survives ----------------------------------------


def worst_case(groups: list[str | None], k: int) -> int:
    """The most groups that can go, whichever they are, with k fragments left."""
    living = [group for group in groups if group is not None]
    names = sorted(set(living))
    reached = -1
    for lost in range(len(names) + 1):
        if any(sum(g not in gone for g in living) < k for gone in combinations(names, lost)):
            return reached
        reached = lost
    return reached


homes_lists = st.lists(st.sampled_from([*TARGETS[:6], None]), min_size=1, max_size=12)


@given(homes_lists, st.integers(1, 8), st.lists(st.sampled_from("xyz"), min_size=6, max_size=6))
def test_survives_is_what_every_subset_of_losses_leaves(homes, k, labels):
    domains = dict(zip(TARGETS, labels, strict=False))
    by_domain = [None if home is None else domains[home] for home in homes]
    assert survives(homes, k, domains) == Survives(worst_case(homes, k), worst_case(by_domain, k))


def test_a_target_without_a_domain_is_its_own():
    assert survives(["a", "b", "c"], 2, {}) == Survives(1, 1)


def test_nothing_stored_is_lost_already():
    assert survives([], 1, {}) == survives([None, None], 1, {}) == Survives(-1, -1)


@pytest.mark.parametrize(
    ("k", "m", "count", "expected"),
    [(4, 2, 6, 2), (4, 2, 5, 1), (4, 2, 4, 1), (4, 2, 3, 1), (8, 4, 12, 4), (4, 2, 1, 0)],
)
def test_o19_tolerance_falls_visibly_with_fewer_targets(k, m, count, expected):
    assert full_tolerance(k, m, apart(count)).targets == expected


@given(st.integers(1, 8), st.integers(0, 4), st.integers(1, 10), st.integers(1, 40))
def test_a_short_stripe_survives_no_less_than_a_full_one(k, m, count, length):
    """Empty fragments are known to be zeros: they are not stored, and never lost."""
    places = apart(count)
    shape = erasure.StripeShape(k, m, length)
    homes = [places[at].target if shape.stored(i) else None for i, at in enumerate(place_stripe("", 0, k + m, places))]
    assert stripe_survives(shape, homes, {}).targets >= full_tolerance(k, m, places).targets


# -- rehome ----------------------------------------


def fewest_moves(homes: list[str | None], places: list[Place]) -> int:
    """An even spread keeps of each target its share; the larger shares go to those that have most."""
    floor, larger = divmod(len(homes), len(places))
    counts = sorted((Counter(homes)[place.target] for place in places), reverse=True)
    kept = sum(min(count, floor + (i < larger)) for i, count in enumerate(counts))
    return len(homes) - kept


@settings(max_examples=300)
@given(homes_lists, place_lists(most=8))
def test_rehome_is_even_and_moves_as_few_as_that_takes(homes, places):
    found = rehome(homes, places)
    counts = [Counter(found)[place.target] for place in places]
    assert len(found) == len(homes) == sum(counts)
    assert max(counts) - min(counts) <= 1
    assert sum(a != b for a, b in zip(homes, found, strict=True)) == fewest_moves(homes, places)


@given(homes_lists, place_lists(most=8))
def test_rehome_twice_moves_nothing(homes, places):
    once = rehome(homes, places)
    assert rehome(once, places) == once


def test_rehome_prefers_an_unused_domain():
    places = [Place("a", "x"), Place("b", "x"), Place("c", "y")]
    assert rehome(["a", None], places) == ["a", "c"]
