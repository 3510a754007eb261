"""A real server that stops answering, and comes back."""

import time

import pytest

from ckptstore.errors import TargetUnavailable
from ckptstore.targets import Reason, open_target
from ckptstore.targets.health import HealthTarget
from ckptstore.targets.retry import RetryTarget
from localstack.servers import SeaweedServer

pytestmark = pytest.mark.servers


@pytest.fixture
def server(monkeypatch):
    with SeaweedServer() as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        yield server


def test_a_paused_server_costs_one_time_out_and_recovers(server):
    """SIGSTOP: the kernel takes connections and nothing answers. One read_timeout, then none, then it is back."""
    opened = open_target("s", "s3://bucket/p", options={"endpoint": server.endpoint, "read_timeout": 2.0})
    target = RetryTarget(HealthTarget(opened.inner.inner.inner, cool_down=1.0))
    target.put("a", b"before")
    server.pause()
    begun = time.monotonic()
    for _ in range(5):
        with pytest.raises(TargetUnavailable) as caught:
            target.get("a")
    assert time.monotonic() - begun < 4
    assert caught.value.reason == Reason.RESTING
    server.resume()
    end = time.monotonic() + 30
    while time.monotonic() < end:
        time.sleep(0.2)
        try:
            assert bytes(target.get("a")) == b"before"
            break
        except TargetUnavailable:
            continue
    assert target.put_if_absent("b", b"after") is True


def test_a_killed_server_has_kept_what_it_acknowledged(server):
    """And the target goes on with it after it started again on the same port and folder."""
    target = open_target("s", "s3://bucket/p", options={"endpoint": server.endpoint})
    for i in range(20):
        target.put(f"a/{i}", b"%d" % i)
    server.process.kill()
    server.stop()
    server.start()
    assert {bytes(target.get(f"a/{i}")) for i in range(20)} == {b"%d" % i for i in range(20)}
