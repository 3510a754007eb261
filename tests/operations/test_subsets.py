"""Parts of the data: consecutive days leave nothing out, parts are disjoint and together everything."""

import math
from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckptstore.errors import UsageError
from ckptstore.operations.subsets import ALL, NOTHING, SPACE, Part, Subset, Window, turn

DAYS = st.integers(700_000, 800_000)
NAMES = [f"shard{i % 7}/{i}" for i in range(60)]
SHARES = st.one_of(
    st.fractions(min_value=Fraction(1, 40), max_value=1),
    st.floats(0.025, 1).map(Fraction),
    st.integers(1, 40).map(lambda parts: Fraction(1, parts)),
)


@given(share=SHARES, first=DAYS)
def test_consecutive_days_leave_no_gap(share, first):
    """As arcs, for every place there can be; and so for every name."""
    windows = [turn(share, first + day) for day in range(math.ceil(1 / share))]
    for one, next_one in pairwise(windows):
        assert (one.start + one.width) % SPACE == next_one.start
    assert sum(window.width for window in windows) >= SPACE
    assert all(any(window.holds(name) for window in windows) for name in NAMES)


@given(share=SHARES, first=DAYS)
def test_no_fewer_days_would_do(share, first):
    windows = [turn(share, first + day) for day in range(math.ceil(1 / share) - 1)]
    assert sum(window.width for window in windows) < SPACE


@given(given=st.one_of(st.floats(0.025, 1), st.decimals(3, 100, places=3).map(lambda n: f"{n}%")), first=DAYS)
def test_what_callers_give_covers_as_many_days_as_it_says(given, first):
    subset = Subset.of(given)
    days = math.ceil(1 / subset.share)
    windows = [subset.window(stored=1, day=first + day) for day in range(days)]
    assert all(any(window.holds(name) for window in windows) for name in NAMES)
    assert abs(float(subset.share) - (given if isinstance(given, float) else float(given[:-1]) / 100)) < 1e-12


@given(parts=st.integers(1, 40), day=DAYS)
def test_parts_are_disjoint_and_complete(parts, day):
    windows = [Subset.of(f"{part}/{parts}").window(1, day) for part in range(1, parts + 1)]
    assert all(sum(window.holds(name) for window in windows) == 1 for name in NAMES)
    assert sum(window.width for window in windows) == SPACE
    assert windows == [Subset.of(f"{part}/{parts}").window(1, day + 1) for part in range(1, parts + 1)]


@given(size=st.integers(1, 10**13), whole=st.integers(0, 60), rest=st.floats(0, 1), first=DAYS)
def test_so_many_bytes_cover_all_in_as_many_days_as_they_take(size, whole, rest, first):
    stored = max(size * whole + int(size * rest), 1)
    subset = Subset.of(f"{size}B")
    days = math.ceil(Fraction(stored, size))
    windows = [subset.window(stored, first + day) for day in range(days)]
    assert all(Fraction(window.width, SPACE) <= Fraction(size, stored) + Fraction(1, SPACE) for window in windows)
    assert sum(window.width for window in windows) == SPACE
    assert len({window.start for window in windows}) == days


def test_more_bytes_than_there_are_is_all():
    assert Subset.of("200GiB").window(stored=10, day=5) == ALL
    assert Subset.of("1B").window(stored=0, day=5) == ALL


def test_all_and_nothing():
    assert ALL.holds("x")
    assert not NOTHING.holds("x")
    assert turn(Fraction(1), 738_000) == ALL
    assert [*ALL.stripes("x", 3)] == [0, 1, 2]
    assert [*NOTHING.stripes("x", 3)] == []


def test_an_arc_goes_round_the_end():
    window = Window(SPACE - 10, SPACE // 2)
    rest = Window(SPACE // 2 - 10, SPACE // 2)
    assert all(window.holds(name) != rest.holds(name) for name in NAMES)


def test_a_tenth_is_about_a_tenth():
    window = Subset.of("10%").window(1, 738_123)
    held = sum(window.holds(f"s/{i}") for i in range(5000))
    assert 400 < held < 600


@pytest.mark.parametrize(
    "wrong",
    ["0%", "100.1%", "-1%", "%", "1e1%", "0/7", "8/7", "3/0", "3/", "/7", "10", "0.5", "0GiB", "1 XB", "", "ten"],
)
def test_what_is_no_part_names_the_option(wrong):
    with pytest.raises(UsageError, match="--read-data-subset"):
        Subset.of(wrong, "--read-data-subset")


@pytest.mark.parametrize("wrong", ["0/4", "5/4", "1", "", "1/0", "a/b", "-1/4", None, 3])
def test_what_is_no_part_of_the_work_names_the_option(wrong):
    with pytest.raises(UsageError, match="--shard"):
        Part.parse(wrong, "--shard")


@given(of=st.integers(1, 20))
def test_every_shard_is_one_parts(of):
    parts = [Part.parse(f"{number}/{of}") for number in range(1, of + 1)]
    assert all(sum(part.shards.holds(name) for part in parts) == 1 for name in NAMES)
    assert [part.leads for part in parts] == [True] + [False] * (of - 1)
    assert [str(part) for part in parts] == [f"{number}/{of}" for number in range(1, of + 1)]
