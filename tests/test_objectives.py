"""`[objectives]`: durations as people write them, and every wrong value names its key."""

import pytest

from ckptstore.config import Config
from ckptstore.errors import ConfigError
from ckptstore.objectives import Objectives
from ckptstore.retention import Retention

SIX = [{"name": name, "url": f"/ckpt/{name}"} for name in "abcdef"]


def config(**objectives) -> Config:
    return Config.from_dict({"name": "s", "targets": SIX, "objectives": objectives}, origin="store.toml")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90s", 90),
        ("15m", 900),
        ("1h30m", 5400),
        ("1h 30m", 5400),
        ("2d", 172800),
        ("0.5s", 0.5),
        (45, 45),
        (1.5, 1.5),
        ("1d2h3m4s", 93784),
        ("2w", 1209600),
    ],
)
def test_durations(text, seconds):
    found = config(rto=text, rpo=text).objectives
    assert (found.rto_seconds, found.rpo_seconds) == (seconds, seconds)


def test_durations_are_written_alike_in_retention():
    assert Retention(grace="1h30m").grace_seconds == 5400


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("rpo", "soon"),
        ("rpo", ""),
        ("rto", "15"),
        ("rto", "0s"),
        ("rto", 0),
        ("rto", -5),
        ("rto", "30m1h"),
        ("rto", "99999d"),
        ("rto", float("inf")),
        ("rto", float("nan")),
        ("survive", -1),
        ("survive_domains", -2),
    ],
)
def test_wrong_values_name_their_key(key, value):
    with pytest.raises(ConfigError) as caught:
        config(**{key: value})
    assert caught.value.key == f"objectives.{key}"
    assert f"objectives.{key} = " in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize("wrong", [{"rto": True}, {"survive": "2"}, {"survive": 1.5}, {"surive": 2}, {"rpo": [1]}])
def test_wrong_types_and_slips_are_refused_with_the_file(wrong):
    with pytest.raises(ConfigError, match=r"store\.toml.*(rto|surviv|surive|rpo)"):
        config(**wrong)


def test_what_is_made_in_python_is_checked_too():
    for wrong in ({"survive": True}, {"rto": True}, {"rto": [5]}):
        with pytest.raises(ConfigError, match="objectives"):
            Objectives(**wrong)


def test_a_store_without_objectives_has_none():
    found = Config.from_dict({"name": "s", "targets": SIX}).objectives
    assert (found.rpo_seconds, found.rto_seconds, found.survive, found.survive_domains) == (None, None, None, None)


def test_more_than_the_layout_survives_opens_all_the_same():
    assert config(survive=5).objectives.survive == 5
