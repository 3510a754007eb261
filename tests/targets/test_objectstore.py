"""What only an object store does: its errors as ours, conflicts, time-outs, credentials, missing buckets."""

import socket
import threading
import time

import pytest

from ckptstore.errors import (
    AccessDenied,
    NoSpace,
    ObjectNotFound,
    ShortObject,
    TargetUnavailable,
    TargetUnusable,
)
from ckptstore.targets import MeterTarget, Reason, open_target
from ckptstore.targets.objecterrors import error_for
from localstack.faults import leaves, loses_replies, performs_but_refuses, refuses, slow
from tests.targets.conftest import SECRET

FAST = {"deadline": 3.0, "read_timeout": 1.0, "timeout": 2.0}


@pytest.fixture
def target(server):
    target = open_target("s", "s3://bucket/prefix", options={"endpoint": server.endpoint, **FAST})
    yield target
    target.close()


@pytest.fixture
def bare(target):
    """Without retries and health."""
    return target.inner.inner.inner


def test_o31_a_409_with_foreign_content_is_a_conflict(target, server):
    server.hold("prefix/m/1", b"theirs")
    server.inject(refuses(409, "ConditionalRequestConflict"), "PutObject", times=1)
    assert target.put_if_absent("m/1", b"mine") is False
    assert server.objects == {"prefix/m/1": b"theirs"}
    assert server.count("PutObject") == 1


def test_o31_a_409_after_which_a_foreign_object_lands_is_a_conflict(target, server):
    """The 409 was told while the other writer was still at it: its object is found when the conflict is looked at."""

    def fault(exchange):
        server.hold("prefix/m/1", b"theirs")
        refuses(409, "ConditionalRequestConflict")(exchange)

    server.inject(fault, "PutObject")
    assert target.put_if_absent("m/1", b"mine") is False
    assert server.count("PutObject") == 1


@pytest.mark.parametrize("fault", [performs_but_refuses(500, "InternalError"), loses_replies], ids=["500", "cut"])
def test_a_put_if_absent_whose_reply_is_lost_is_sent_once(target, server, fault):
    """The put was carried out, and then the answer was 500, or the connection broke: one that was in use before."""
    target.put("a", b"a connection to use again")

    server.inject(fault, "PutObject")
    with pytest.raises(TargetUnavailable):
        target.put_if_absent("m/1", b"mine")
    assert server.count("PutObject") == 2
    assert server.objects["prefix/m/1"] == b"mine"


@pytest.mark.parametrize(
    ("status", "code", "kind", "reason"),
    [
        (403, "AccessDenied", AccessDenied, None),
        (401, "Unauthorized", AccessDenied, None),
        (400, "ExpiredToken", AccessDenied, None),
        (403, "RequestTimeTooSkewed", AccessDenied, None),
        (404, "NoSuchKey", ObjectNotFound, None),
        (404, "NoSuchBucket", TargetUnavailable, Reason.GONE),
        (400, "RequestTimeout", TargetUnavailable, Reason.BROKEN),
        (429, "SlowDown", TargetUnavailable, Reason.BUSY),
        (500, "InternalError", TargetUnavailable, Reason.BUSY),
        (503, "SlowDown", TargetUnavailable, Reason.BUSY),
        (507, "XMinioStorageFull", NoSpace, None),
        (501, "NotImplemented", TargetUnusable, None),
        (400, "InvalidRequest", TargetUnusable, None),
    ],
)
def test_each_status_is_transient_or_permanent(bare, server, status, code, kind, reason):
    """By every verb that meets it; the message names target, path, status and code."""
    server.inject(refuses(status, code))
    for verb in (bare.get, lambda path: bare.put(path, b"x"), lambda path: list(bare.list(path + "/"))):
        with pytest.raises(kind) as caught:
            verb("a/b")
        assert caught.value.fields.get("reason") == reason
        assert caught.value.target == "s"
        assert f"HTTP {status} {code}" in str(caught.value)
        assert SECRET not in repr(caught.value)


def test_a_403_is_not_tried_again(target, server):
    server.inject(refuses(403, "AccessDenied"))
    with pytest.raises(AccessDenied, match="credentials"):
        target.get("a")
    assert server.count("GetObject") == 1


def test_o28_throttling_is_borne(target, server):
    server.hold("prefix/a", b"x")
    server.inject(refuses(503, "SlowDown"), times=3)
    assert bytes(target.get("a")) == b"x"
    assert server.count("GetObject") == 4


def test_a_missing_bucket_is_not_a_missing_object(bare, server):
    """HEAD's answer has no body to tell them apart, so a GET is asked."""
    server.memory.buckets.clear()
    with pytest.raises(TargetUnavailable) as caught:
        bare.head("a")
    assert caught.value.reason == Reason.GONE


def test_o03_an_answer_of_200_that_left_some(target, server):
    """DeleteObjects says 200 and names in its body what it did not delete: asked again one by one, and told."""
    server.inject(leaves(["prefix/b"]), "DeleteObjects")
    for name in "abc":
        target.put(name, b"x")
    failed = target.delete(["a", "b", "c"])
    assert {path: type(failure) for path, failure in failed.items()} == {"b": AccessDenied}
    assert set(server.objects) == {"prefix/b"}
    server.heal()
    assert target.delete(["a", "b", "c"]) == {}
    assert server.objects == {}


def test_a_range_ignored_is_told_apart_from_a_short_object(bare, server):
    server.hold("prefix/a", b"0123456789")
    server.inject(refuses(416, "InvalidRange"), "GetObject")
    for read in (lambda n: bare.get("a", length=n), lambda n: bare.get_into("a", memoryview(bytearray(n)))):
        with pytest.raises(TargetUnusable, match="range"):
            read(5)
        with pytest.raises(ShortObject, match="10 bytes"):
            read(11)


def test_refused_connections_fail_soon_and_then_at_once():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        endpoint = f"http://127.0.0.1:{free.getsockname()[1]}"
    target = open_target("s", "s3://bucket", options={"endpoint": endpoint})
    begun = time.monotonic()
    with pytest.raises(TargetUnavailable) as caught:
        target.get("a")
    assert caught.value.reason == Reason.UNREACHABLE
    assert 0.9 < time.monotonic() - begun < 3
    begun = time.monotonic()
    for _ in range(50):
        with pytest.raises(TargetUnavailable):
            target.get("a")
    assert time.monotonic() - begun < 0.5


def test_a_server_that_hangs_costs_one_time_out_for_all_threads():
    with socket.create_server(("127.0.0.1", 0)) as silent:  # takes connections, never answers
        endpoint = f"http://127.0.0.1:{silent.getsockname()[1]}"
        target = open_target("s", "s3://bucket", options={"endpoint": endpoint, **FAST})
        begun = time.monotonic()
        with pytest.raises(TargetUnavailable) as caught:
            target.put("a", b"x")
        assert caught.value.reason == Reason.TIMEOUT
        assert 0.4 < time.monotonic() - begun < 2
        threads = [threading.Thread(target=pytest.raises, args=(TargetUnavailable, target.get, "a")) for _ in range(8)]
        begun = time.monotonic()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert time.monotonic() - begun < 0.4


def test_a_large_body_may_go_out_for_longer_than_the_silence_allowed(server, bare):
    """obstore's read_timeout counts from the first byte sent: large bodies go by a client without it."""
    server.inject(slow(1.6), "PutObject")
    bare.put("large", bytes(2 << 20))
    assert len(server.objects["prefix/large"]) == 2 << 20
    with pytest.raises(TargetUnavailable) as caught:
        bare.put("small", b"x")
    assert caught.value.reason == Reason.TIMEOUT


@pytest.mark.parametrize("cut", [False, True], ids=["stalls", "cut"])
def test_a_body_that_stalls_or_is_cut_is_unavailable(cut):
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer():
            connection = server.accept()[0]
            connection.recv(65536)
            connection.sendall(
                b"HTTP/1.1 206 X\r\nContent-Length: 9000\r\nContent-Range: bytes 0-8999/9000\r\nETag: x\r\n"
                b"Last-Modified: Wed, 21 Oct 2026 07:28:00 GMT\r\n\r\n" + b"x" * 1000
            )
            if cut:
                connection.close()
            else:
                time.sleep(2)

        threading.Thread(target=answer, daemon=True).start()
        endpoint = f"http://127.0.0.1:{server.getsockname()[1]}"
        bare = open_target("s", "s3://bucket", options={"endpoint": endpoint, **FAST}).inner.inner.inner
        with pytest.raises(TargetUnavailable) as caught:
            bare.get_into("a", memoryview(bytearray(9000)))
        assert caught.value.reason == (Reason.BROKEN if cut else Reason.TIMEOUT)


def test_no_credentials_are_told_as_such(monkeypatch, server):
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    # Where there is a metadata service it would be asked; here nothing listens at the address that stands for it.
    monkeypatch.setenv("AWS_METADATA_ENDPOINT", "http://127.0.0.1:9")
    target = open_target("s", "s3://bucket", options={"endpoint": server.endpoint, **FAST})
    with pytest.raises(AccessDenied, match="no credentials"):
        target.get("a")


def test_bytes_are_signed_only_where_the_wire_is_bare(server):
    """Over TLS and on loopback a signature would only cost time."""
    from ckptstore.targets.objectclient import _wants_signature
    from ckptstore.targets.options import Options

    endpoints = {None: False, "https://s3.example": False, "http://127.0.0.1:1": False, "http://10.0.0.1:9000": True}
    for endpoint, signed in endpoints.items():
        assert _wants_signature(Options("obstore", endpoint=endpoint)) is signed
        assert _wants_signature(Options("obstore", endpoint=endpoint, signed_payload=not signed)) is not signed


def test_reading_a_slice_reads_a_slice(target, server):
    meter = MeterTarget(target)
    meter.put("a", bytes(1000))
    assert (meter.requests, meter.bytes_written) == ({"put": 1}, 1000)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ('Bulk delete request failed for key a: gone. (code: 404)\nNotFound { code: "404", }', ObjectNotFound),
        ('Bulk delete request failed for key a\nDeleteFailed { code: "403", }', AccessDenied),
        ("Wanted range starting at 10, but object was only 10 bytes long", ShortObject),
        ('Failed to parse value for CONTENT_RANGE header: "bytes 0--1/0"\nParseContentRange { }', ShortObject),
    ],
)
def test_what_obstore_tells_of_azurite_s_answers(text, kind):
    """As seen by tests/conformance/test_azurite.py, which takes node.js."""
    assert type(error_for(ValueError(text), "t", "a")) is kind
