"""Log records are JSON lines, and no credential is in them."""

import io
import json
import logging

import pytest
import torch

import ckptstore
from ckptstore import telemetry
from ckptstore.errors import NotFoundError
from ckptstore.events import FragmentDamaged, RequestEnded, RunVerified, TargetFailed, WorkEnded
from tests.support import make_store

SECRETS = {"AWS_SECRET_ACCESS_KEY": "known-secret-0000000000000000000000000001"}
LEAKY = f"put http://user:known-password@host/a?X-Signature=known-signature: {SECRETS['AWS_SECRET_ACCESS_KEY']}"


@pytest.fixture
def stream(monkeypatch):
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    logger = logging.getLogger("ckptstore")
    before = logger.level, logger.propagate
    stream = io.StringIO()
    handler = telemetry.log_json(stream, level=logging.DEBUG)
    yield stream
    logger.removeHandler(handler)
    logger.setLevel(before[0])
    logger.propagate = before[1]


def lines(stream):
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_real_work_is_logged_as_json(stream, tmp_path):
    store = make_store(tmp_path)
    with ckptstore.open(store.config) as opened, telemetry.observe(telemetry.LogObserver()):
        run = opened.run("r")
        run.save({"w": torch.arange(10.0)}, step=5)
        run.verify()
        with pytest.raises(NotFoundError):
            run.load({}, step=6)
    found = lines(stream)
    assert {(line["logger"], line["level"]) for line in found} == {("ckptstore", "info"), ("ckptstore", "error")}
    ended = [line for line in found if line["event"] == "WorkEnded"]
    assert [(line["work"], line["run"], line["outcome"]) for line in ended] == [
        ("save", "r", "ok"),
        ("verify", "r", "ok"),
        ("load", "r", "NotFoundError"),
    ]
    assert ended[0]["step"] == 5
    assert ended[0]["seconds"] > 0
    assert ended[0]["bytes"] > 0
    (verified,) = [line for line in found if line["event"] == "RunVerified"]
    assert (verified["states"]["good"], verified["targets"]) == (1, 2)


@pytest.mark.parametrize(
    "event",
    [
        TargetFailed("save", "a", LEAKY),
        FragmentDamaged("a", "data/x", LEAKY),
        WorkEnded(1, "save", "r", 5, 1.0, 0, "error", LEAKY),
    ],
)
def test_no_credential_is_logged(stream, event):
    telemetry.LogObserver()(event)
    assert len(lines(stream)) == 1
    assert "known" not in stream.getvalue()


def test_no_credential_is_logged_by_others_through_the_formatter(stream):
    error = ValueError(LEAKY)
    logging.getLogger("ckptstore.other").error("at %s", LEAKY, exc_info=error)
    (line,) = lines(stream)
    assert "ValueError" in line["traceback"]
    assert "known" not in stream.getvalue()


def test_a_line_stays_a_line(stream):
    telemetry.LogObserver()(TargetFailed("save", "a", "two\nlines"))
    (line,) = lines(stream)
    assert line["reason"] == "two\nlines"


def test_requests_are_logged_where_they_fail_and_at_level_debug_only(stream):
    log = telemetry.LogObserver()
    for outcome in ("ok", "absent", "busy"):
        log(RequestEnded("a", "put", 5, 0.1, outcome))
    logging.getLogger("ckptstore").setLevel(logging.INFO)
    log(RequestEnded("a", "put", 5, 0.1, "busy"))
    assert [(line["outcome"], line["level"]) for line in lines(stream)] == [("busy", "debug")]


def test_a_verify_that_found_something_is_a_warning(stream):
    telemetry.LogObserver()(RunVerified("r", {"good": 1, "lost": 1}, {"missing": 3}, -1, -1, 9, 9))
    (line,) = lines(stream)
    assert (line["level"], line["findings"]) == ("warning", {"missing": 3})
