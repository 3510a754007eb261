"""A target that hangs, stalls or throttles costs one wait an operation, however many stripes there are."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from ckptstore.errors import AccessDenied, OutOfReach, TargetUnavailable
from ckptstore.events import TargetFailed
from ckptstore.targets import open_target
from localstack import faults
from localstack.faulty import FaultyServer
from tests.faults.support import CREDENTIALS, FAST, served, timed
from tests.support import Listener, assert_equal, random_bytes

MANY = {"weights": random_bytes(4_000_000)}  # 62 stripes of 4 x 16 KiB
AT_ONCE = 16
"""Threads that ask at once: so many requests may be under way when a target is found out of reach."""


@pytest.mark.parametrize("fault", [faults.hangs, faults.stalls(10)], ids=["hangs", "stalls"])
def test_o29_a_load_of_many_stripes_waits_once_for_a_target_that_stalls(six, fault):
    six.store.save(MANY, step=1)
    rule = six.servers["a"].inject(fault, "GetObject", "*/data/*")
    listener = Listener()
    store = six.reopen().store
    loaded, seconds = timed(lambda: store.load(observer=listener))
    assert_equal(loaded, MANY)
    assert seconds < 3 * FAST["read_timeout"] + 5
    assert 1 <= rule.hits <= AT_ONCE
    assert [event.target for event in listener.of(TargetFailed)] == ["a"]


def test_o29_a_target_that_stalls_is_out_of_reach_and_not_corrupt(six):
    six.store.save(MANY, step=1)
    rule = six.servers["a"].inject(faults.stalls(10), "GetObject", "*/data/*")
    health, seconds = timed(lambda: six.reopen().store.verify(read_data=True))
    assert {(finding.kind, finding.target) for finding in health.findings} == {("unreachable", "a")}
    assert health.state == "degraded"
    assert 1 <= rule.hits <= AT_ONCE
    assert seconds < 3 * FAST["read_timeout"] + 5


def test_a_save_of_many_stripes_waits_once_for_a_target_that_hangs(six):
    rule = six.servers["a"].inject(faults.hangs, "PutObject", "*/data/*")
    listener = Listener()
    manifest, seconds = timed(lambda: six.store.save(MANY, step=1, observer=listener))
    assert seconds < 3 * FAST["read_timeout"] + 5
    assert 1 <= rule.hits <= AT_ONCE
    assert [missing.target for missing in manifest.missing] == ["a"]
    assert [event.target for event in listener.of(TargetFailed)] == ["a"]
    assert_equal(six.store.load(), MANY)


def test_six_targets_that_all_hang_refuse_within_ten_seconds(six):
    six.inject(faults.hangs)
    begun = time.monotonic()
    with pytest.raises(OutOfReach, match="no answer in time"):
        six.reopen().store.load()
    assert time.monotonic() - begun < 10
    begun = time.monotonic()
    with pytest.raises(OutOfReach):
        six.reopen().store.save(MANY)
    assert time.monotonic() - begun < 10


def test_o28_saves_and_loads_outlast_throttling(tmp_path):
    """30 % of all requests, of put-if-absents too, by sixteen threads; init as well."""
    options = {**FAST, "deadline": 20.0}
    arrays = {"weights": random_bytes(400_000)}
    throttled = faults.refuses(503, "SlowDown", retry_after=1)
    with served(tmp_path, "abcdef", "4+2", options=options) as made:
        rules = made.inject(throttled, share=0.3)
        began = time.monotonic()
        made.store.save(arrays, step=1)
        assert_equal(made.reopen().store.load(), arrays)
        assert time.monotonic() - began < 20.0
        assert sum(rule.hits for rule in rules) > 20


def test_o28_init_outlasts_throttling(tmp_path, monkeypatch):
    """Its put-if-absents too, of which each is one request."""
    throttled = faults.refuses(503, "SlowDown")
    began = FaultyServer.start
    monkeypatch.setattr(FaultyServer, "start", lambda self: (self.inject(throttled, share=0.3), began(self))[1])
    with served(tmp_path, options={**FAST, "deadline": 20.0}) as made:
        assert {each.state for each in made.store.opened.group.standings.values()} == {"valid"}


def test_o28_votes_outlast_two_seconds_in_which_every_one_is_refused(three):
    """Each put-if-absent is one request, so the protocol casts again."""
    until = time.monotonic() + 2

    def fault(exchange):
        if time.monotonic() < until:
            faults.refuses(503, "SlowDown")(exchange)
        else:
            exchange.go_on()

    three.inject(fault, "PutObject", "*/runs/*/commit/*")
    three.store.save(MANY, step=1)
    assert time.monotonic() > until
    assert three.store.latest().step == 1


def test_o28_throttling_that_does_not_end_gives_one_clear_error_in_time(three):
    three.store.save(MANY, step=1)
    rules = three.inject(faults.refuses(503, "SlowDown"))
    store = three.reopen().store
    with pytest.raises(OutOfReach, match="HTTP 503 SlowDown") as caught:
        store.load()
    began = time.monotonic()
    with pytest.raises(OutOfReach):
        store.load()
    assert time.monotonic() - began < 6 * FAST["deadline"] + 2
    assert all(f"{name}: " in caught.value.message for name in "abc")
    assert sum(rule.hits for rule in rules) < 60


def test_o28_sixteen_threads_do_not_come_back_together():
    """Bursts of sixteen requests within 10 ms are what keeps a throttling service from recovering."""
    with FaultyServer(credentials=CREDENTIALS) as server:
        target = open_target("a", "s3://bucket", options={"endpoint": server.endpoint, **FAST, "deadline": 3.0})
        times: list[float] = []

        def fault(exchange):
            times.append(time.monotonic())
            faults.refuses(503, "SlowDown")(exchange)

        server.inject(fault)
        start = threading.Barrier(16)

        def ask(_):
            start.wait()
            with pytest.raises(TargetUnavailable):
                target.get("a")

        with ThreadPoolExecutor(16) as pool:
            list(pool.map(ask, range(16)))
    late = sorted(times)[len(times) // 2 :]
    early = sorted(times)[: len(times) // 2]
    assert late[-1] - late[0] > early[-1] - early[0]  # the waits grow: the second half takes longer
    assert len(times) < 16 * 12


def test_o28_a_wait_that_the_service_asks_for_is_kept():
    """By s3fs; obstore doesn't tell the headers of an error."""
    with FaultyServer(credentials=CREDENTIALS) as server:
        options = {"endpoint": server.endpoint, "client": "fsspec", **FAST, "deadline": 5.0}
        target = open_target("a", "s3://bucket", options=options)
        server.hold("a", b"x")
        assert bytes(target.get("a")) == b"x"
        server.inject(faults.refuses(503, "SlowDown", retry_after=1), times=1)
        found, seconds = timed(lambda: target.get("a"))
        assert bytes(found) == b"x"
        assert seconds >= 1


@pytest.mark.parametrize("client", ["obstore", "fsspec"])
def test_o30_a_403_on_every_put_is_asked_once(client):
    with FaultyServer(credentials=CREDENTIALS) as server:
        target = open_target("a", "s3://bucket", options={"endpoint": server.endpoint, "client": client, **FAST})
        server.inject(faults.refuses(403, "AccessDenied"), "PutObject")
        with pytest.raises(AccessDenied, match="AccessDenied"):
            target.put("a", b"x")
        assert server.count("PutObject") == 1


def test_o30_a_save_that_every_target_refuses_fails_at_once(three):
    rules = three.inject(faults.refuses(403, "AccessDenied"), "PutObject")
    with pytest.raises(AccessDenied, match="AccessDenied"):
        three.store.save(MANY)
    assert [rule.hits for rule in rules] == [1, 1, 1]
