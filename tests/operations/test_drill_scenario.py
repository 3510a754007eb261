"""Scenario files: what is written there is done, and a slip is told with the file and the field."""

import pytest

from ckptstore.config import Config
from ckptstore.errors import ConfigError, UsageError
from ckptstore.operations.drill import Round, read_scenario

SIX = [{"name": name, "url": f"/ckpt/{name}", "domain": (name in "abc" and "east") or "west"} for name in "abcdef"]
CONFIG = Config.from_dict({"name": "s", "targets": SIX})

GOOD = """
name = "what we fear"

[[rounds]]
name = "a region is gone"
lose_domains = ["east"]

[[rounds]]
lose = 2
random = true

[[rounds]]
lose_targets = ["a"]
corrupt = ["b"]
empty = ["e"]
slow = { c = "0.5s" }
throttle = { d = "10MiB" }
"""


def read(tmp_path, text):
    path = tmp_path / "fears.toml"
    path.write_text(text, encoding="utf-8")
    return read_scenario(path, CONFIG)


def test_a_scenario_is_read(tmp_path):
    scenario = read(tmp_path, GOOD)
    assert scenario.name == "what we fear"
    assert scenario.rounds[0] == Round(name="a region is gone", lose_domains=["east"])
    assert scenario.rounds[1] == Round(lose=2, random=True)
    third = scenario.rounds[2]
    assert (third.slow, third.throttle, third.empty) == ({"c": "0.5s"}, {"d": "10MiB"}, ["e"])


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[[round]]\nlose = 1", "round: there is no such field; did you mean rounds?"),
        ("[[rounds]]\nlose_target = ['a']", r"rounds\[0\]\.lose_target: there is no such field; did you mean lose_t"),
        ("[[rounds]]\n[[rounds]]\ncorupt = ['a']", r"rounds\[1\]\.corupt: .*did you mean corrupt"),
        ("[[rounds]]\nlose = 'two'", "lose"),
        ("[[rounds]]\nslow = 5", "slow"),
        ("rounds = 3", "rounds"),
        ("rounds = [3]", "rounds"),
        ("rounds = []", "rounds"),
        ("name = 'nothing'", "rounds"),
        ("lose = [", "TOML"),
        ("[[rounds]]\ncorrupt = ['q']", r"rounds\[0\]\.corrupt: the store has no target 'q'"),
        ("[[rounds]]\nlose_domains = ['north']", r"rounds\[0\]\.lose_domains: the store has no domain 'north'"),
        ("[[rounds]]\nlose = 7", r"rounds\[0\]\.lose = 7"),
        ("[[rounds]]\nslow = { a = 'a while' }", r"rounds\[0\]\.slow a = 'a while'"),
        ("[[rounds]]\nthrottle = { a = 'much' }", r"rounds\[0\]\.throttle a = 'much'"),
        ("[[rounds]]\nlose_targets = ['a']\nempty = ['a']", r"rounds\[0\]\.empty"),
    ],
)
def test_a_slip_is_told_with_the_file_and_the_field(tmp_path, text, told):
    with pytest.raises((ConfigError, UsageError), match=told) as caught:
        read(tmp_path, text)
    assert "fears.toml" in caught.value.message


def test_no_file(tmp_path):
    with pytest.raises(ConfigError, match="no scenario file") as caught:
        read_scenario(tmp_path / "none.toml", CONFIG)
    assert caught.value.hint
    with pytest.raises(ConfigError, match="can't be read"):
        read_scenario(tmp_path, CONFIG)
