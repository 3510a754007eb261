"""Two targets in one place would fail together, whatever their names: refused before anything is written."""

from datetime import date

import pytest

import ckptstore
from ckptstore.config import Config, TargetConfig
from ckptstore.errors import ConfigError
from ckptstore.opened import Opened, shared
from ckptstore.operations.setup import init
from tests.cli.support import Ckpt

MINIO = {"endpoint": "http://127.0.0.1:9000"}
OTHER = {"endpoint": "http://127.0.0.1:9001"}
FSSPEC = {**MINIO, "client": "fsspec"}


def settings(folder, *places):
    """A store whose targets are called p, q, r …; each place is a url, or a url and its options."""
    pairs = [place if isinstance(place, tuple) else (place, {}) for place in places]
    targets = [TargetConfig(name="pqrstu"[i], url=url, options=options) for i, (url, options) in enumerate(pairs)]
    return Config(name="s", code="1+1", require_tolerance=0, targets=targets, folder=str(folder))


def refused(config, words):
    """Opening and making the store both say so."""
    for ask in (ckptstore.open, Opened, lambda given: init(shared(given))):
        with pytest.raises(ConfigError, match=words) as caught:
            ask(config)
        assert caught.value.key == "targets.url"


@pytest.mark.parametrize(
    "places",
    [
        ("a", "a/"),
        ("a", "./x/../a"),
        ("a", "file://a"),
        ("a", "fsspec+file://a"),
        ("a", "fsspec+local://a"),
        ("a", ("a", {"client": "fsspec"})),
        ("memory://m/x", "memory://m//x/"),
        ("s3://b", "s3://b/"),
        (("s3://b/x", MINIO), ("s3://b//x/", MINIO)),
        (("s3://b/x", MINIO), ("s3://b/x", {"endpoint": "http://127.0.0.1:9000/", "region": "x", "deadline": 5})),
        (("s3://b/x", MINIO), ("s3://b/x", FSSPEC)),
        (("s3://b/x", MINIO), ("fsspec+s3a://b/x", MINIO)),
    ],
    ids=str,
)
def test_one_place_under_two_names_is_refused(tmp_path, places):
    refused(settings(tmp_path, *places), "p and q are one place")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "places",
    [
        ("a", "a/sub"),
        (".", "a"),
        ("a", "fsspec+file://a/runs"),
        ("s3://b", "s3://b/sub"),
        (("s3://b/x", MINIO), ("s3://b/x/y/z", FSSPEC)),
        ("fsspec+sftp://host/x", "fsspec+sftp://host/x/y"),
    ],
    ids=str,
)
def test_a_place_inside_another_is_refused(tmp_path, places):
    refused(settings(tmp_path, *places), "q lies inside p")
    refused(settings(tmp_path, *reversed(places)), "p lies inside q")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "places",
    [
        ("a", "ab", "a-b"),
        ("memory://apart/x", "memory://apart/x/y"),
        ("s3://b/x", "s3://b/xy", "s3://c/x", "gs://b/x"),
        (("s3://b", MINIO), ("s3://b", OTHER)),
        ("fsspec+sftp://one/x", "fsspec+sftp://two/x"),
        (("fsspec+sftp://h/x", {"filesystem": {"port": 1}}), ("fsspec+sftp://h/x", {"filesystem": {"port": 2}})),
        (("fsspec+sftp://h/x", {"filesystem": {"since": date(2020, 1, 1)}}), "fsspec+sftp://h/x"),
    ],
    ids=str,
)
def test_places_beside_each_other_are_fine(tmp_path, places):
    ckptstore.open(settings(tmp_path, *places))


def test_a_link_is_where_it_leads(tmp_path):
    (tmp_path / "real" / "below").mkdir(parents=True)
    for link, to in (("x", "real"), ("y", "real"), ("z", "real/below"), ("c", "real"), ("loop", "loop")):
        (tmp_path / link).symlink_to(to)
    refused(settings(tmp_path, "x", "y"), "p and q are one place")
    refused(settings(tmp_path, "x", "z"), "q lies inside p")
    refused(settings(tmp_path, "x/later", "y/later"), "p and q are one place")
    ckptstore.open(settings(tmp_path, "loop", "real"))


def test_init_writes_nothing_where_two_places_are_one(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "x").symlink_to("real")
    (tmp_path / "y").symlink_to("real")
    ckpt = Ckpt(tmp_path, names="xyz", code="2+1")
    assert "x and y are one place" in ckpt("init").err
    assert ckpt("ls").code == 2
    ckpt.path.unlink()
    places = [tmp_path / name for name in "xyz"]
    answer = ckpt("init", "--code", "2+1", "--targets", *places)
    assert (answer.code, "x and y are one place" in answer.err) == (2, True)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["real", "x", "y"]


def test_a_path_that_none_can_be_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"targets\.q\.url"):
        ckptstore.open(settings(tmp_path, "a", "a\0b"))
