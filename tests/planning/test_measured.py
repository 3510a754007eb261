"""From the JSON of `ckpt bench` to bandwidths; what is none of it is refused in words."""

import json

import pytest

from ckptstore.errors import UsageError
from ckptstore.planning import Measured, read_bench

TIMED = [
    {"what": "save", "rate": 100.0},
    {"what": "load", "rate": 300.0},
    {"what": "load, 2 targets lost", "rate": 200.0},
    {"what": "repair of one target", "rate": 50.0},
]
GOOD = {"type": "summary", "command": "bench", "code": 0, "erasure_code": "4+2", "timed": TIMED}


def written(tmp_path, *documents):
    file = tmp_path / "bench.json"
    file.write_text("".join(f"{json.dumps(each)}\n" for each in documents))
    return file


def test_saves_write_parity_too_and_loads_are_as_slow_as_with_targets_lost(tmp_path):
    assert read_bench(written(tmp_path, GOOD)) == Measured(write=150.0, read=200.0)


def test_the_last_summary_counts(tmp_path):
    older = {**GOOD, "timed": [{**each, "rate": 1.0} for each in TIMED]}
    assert read_bench(written(tmp_path, older, {"type": "other"}, GOOD)).write == 150.0


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"command": "verify"}, "no summary of ckpt bench"),
        ({"timed": TIMED[1:]}, "no save"),
        ({"timed": TIMED[:1]}, "no load"),
        ({"timed": None}, "'timed' is None"),
        ({"timed": ["save"]}, "no save"),
        ({"erasure_code": None}, "'erasure_code' is None"),
        ({"erasure_code": "much"}, "is no layout"),
        ({"timed": [{"what": "save", "rate": 0}, *TIMED[1:]]}, "rate of 'save' is 0"),
        ({"timed": [{"what": "save", "rate": "fast"}, *TIMED[1:]]}, "rate of 'save' is 'fast'"),
        ({"timed": [*TIMED[:1], {"what": "load", "rate": float("nan")}]}, "rate of 'load' is nan"),
    ],
)
def test_what_bench_did_not_write_is_refused(tmp_path, change, why):
    with pytest.raises(UsageError, match=why) as raised:
        read_bench(written(tmp_path, {**GOOD, **change}))
    assert (raised.value.key, bool(raised.value.hint)) == ("bench", True)


@pytest.mark.parametrize("data", [b"", b"{", b"[1, 2]", b"\xff", b"null"])
def test_no_json_of_ours_is_refused(tmp_path, data):
    file = tmp_path / "bench.json"
    file.write_bytes(data)
    with pytest.raises(UsageError, match=r"no JSON|no summary"):
        read_bench(file)


def test_a_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(UsageError, match="No such file"):
        read_bench(tmp_path / "none.json")
