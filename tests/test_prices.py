"""`[prices]`: whose price counts, what is missing, and every wrong value names its key."""

import pytest

from ckptstore.config import Config
from ckptstore.errors import ConfigError
from ckptstore.prices import LIST_PRICES, Bill, Prices, Tariff

TARGETS = [{"name": name, "url": f"/{name}", "domain": "east" if name in "abc" else "west"} for name in "abcdef"]


def prices(**given) -> Prices:
    return Config.from_dict({"name": "s", "targets": TARGETS, "prices": given}, origin="store.toml").prices


def test_a_target_before_its_domain_before_all():
    found = prices(
        storage=0.02,
        egress=0.1,
        domains={"west": {"storage": 0.03, "gets": 0.5}},
        targets={"f": {"storage": 0.0, "egress": 0.2}},
    )
    assert found.of("a", "east", job="east") == Tariff(storage=0.02, egress=0.0, ingress=0.0)
    assert found.of("d", "west", job="east") == Tariff(storage=0.03, gets=0.5, egress=0.1)
    assert found.of("f", "west", job="east") == Tariff(storage=0.0, gets=0.5, egress=0.2)


def test_what_stays_where_the_job_is_crosses_nothing_unless_it_has_a_price():
    found = prices(egress=0.1, ingress=0.05, job="west", domains={"west": {"egress": 0.01}})
    assert found.of("a", "east", job="east") == Tariff(egress=0.1, ingress=0.05)
    assert found.of("d", "west", job="east") == Tariff(egress=0.01, ingress=0.0)


def test_without_any_the_list_counts_and_never_some_of_both():
    assert prices().or_list() == LIST_PRICES
    assert prices(job="west").or_list().job == "west"
    assert prices(storage=0.01).or_list() == Prices(storage=0.01)
    assert prices(targets={"a": {"gets": 0.0}}).are_given


def test_one_price_for_all_that_is_stored():
    found = prices(storage=0.02, domains={"west": {"storage": 0.03, "gets": 0.5}}).storing_at(1.0)
    assert found.of("d", "west", job="east").storage == found.of("a", "east", job="east").storage == 1.0
    assert found.domains["west"].gets == 0.5


def test_a_sum_with_a_price_missing_is_unknown_and_nothing_is_missed_for_nothing():
    bill = Bill()
    bill.add(Tariff(storage=0.5), storage=4.0, gets=0.0)
    assert bill.dollars == 2.0
    bill.add(Tariff(storage=0.5), storage=1.0, gets=0.001)
    assert (bill.dollars, bill.known, bill.missing) == (None, 2.5, {"gets"})


@pytest.mark.parametrize(
    ("given", "key"),
    [
        ({"storage": -0.01}, "prices.storage"),
        ({"egress": float("nan")}, "prices.egress"),
        ({"puts": float("inf")}, "prices.puts"),
        ({"domains": {"west": {"gets": -1}}}, "prices.domains.west.gets"),
        ({"targets": {"f": {"ingress": -1.0}}}, "prices.targets.f.ingress"),
        ({"job": "north"}, "prices.job"),
        ({"domains": {"north": {"gets": 1.0}}}, "prices.domains"),
        ({"targets": {"z": {"gets": 1.0}}}, "prices.targets"),
    ],
)
def test_wrong_values_name_their_key(given, key):
    with pytest.raises(ConfigError) as raised:
        prices(**given)
    assert raised.value.key == key
    assert key in raised.value.message
    assert raised.value.hint


@pytest.mark.parametrize("given", [{"storrage": 1.0}, {"storage": "0.02"}, {"gets": True}, {"domains": {"west": 1.0}}])
def test_what_is_no_price_is_refused(given):
    with pytest.raises(ConfigError, match=r"storrage|storage|gets|west|domains") as raised:
        prices(**given)
    assert raised.value.hint


def test_prices_made_in_python_are_checked_too():
    with pytest.raises(ConfigError, match=r"prices\.gets"):
        Prices(gets=True)
