"""What only fsspec targets do: errors of other people's clients as ours, a bound where they have none, roots."""

import errno
import socket
import time

import fsspec
import pytest

from ckptstore.errors import AccessDenied, NoSpace, ObjectNotFound, TargetUnavailable, TargetUnusable
from ckptstore.targets import Reason, open_target
from ckptstore.targets.filesystemerrors import error_for
from localstack.faults import cuts, loses_replies, performs_but_refuses, refuses
from localstack.faulty import FaultyServer

FAST = {"client": "fsspec", "deadline": 8.0, "read_timeout": 5.0, "timeout": 5.0}


@pytest.fixture
def target(server):
    return open_target("f", "s3://bucket/prefix", options={"endpoint": server.endpoint, **FAST})


def test_o31_a_conflict_with_foreign_content_is_a_conflict(target, server):
    server.hold("prefix/m/1", b"theirs")
    assert target.put_if_absent("m/1", b"mine") is False
    server.inject(refuses(409, "ConditionalRequestConflict"), "PutObject", times=1)
    assert target.put_if_absent("m/1", b"mine") is False
    assert server.objects == {"prefix/m/1": b"theirs"}


@pytest.mark.parametrize(
    "fault",
    [performs_but_refuses(500, "InternalError"), performs_but_refuses(503, "SlowDown"), loses_replies],
    ids=["500", "503", "cut"],
)
def test_a_put_if_absent_whose_reply_is_lost_is_sent_once(target, server, fault):
    """aiohttp by itself sends a PUT again where the connection breaks."""
    assert target.put_if_absent("m/0", b"a connection to use again") is True

    server.inject(fault, "PutObject")
    with pytest.raises(TargetUnavailable):
        target.put_if_absent("m/1", b"mine")
    assert server.count("PutObject") == 2
    assert server.objects["prefix/m/1"] == b"mine"


def test_what_a_user_asks_of_botocore_leaves_one_request(server):
    mine = {"config_kwargs": {"retries": {"max_attempts": 3}, "user_agent_extra": "mine"}}
    target = open_target("f", "s3://bucket", options={"endpoint": server.endpoint, "filesystem": mine, **FAST})
    server.inject(refuses(500, "InternalError"))
    with pytest.raises(TargetUnavailable):
        target.put_if_absent("m/1", b"mine")
    assert server.count("PutObject") == 1


@pytest.mark.parametrize("fault", [refuses(503, "backendError"), cuts], ids=["503", "cut"])
def test_gcsfs_sends_a_put_if_absent_once(server, fault, monkeypatch):
    """By itself it would send it six times, and meet its own first try."""
    monkeypatch.setenv("GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT", "false")
    target = open_target("f", "fsspec+gs://bucket", options={"endpoint": server.endpoint, "timeout": 5.0})
    server.inject(fault)
    with pytest.raises(TargetUnavailable):
        target.put_if_absent("m/1", b"mine")
    assert [request.method for request in server.log] == ["POST"]


def test_the_same_bytes_of_another_are_a_conflict(target, server):
    """Nobody can tell them from our own, and the protocol takes "created" to mean that this call did."""
    server.hold("prefix/m/1", b"mine")
    assert target.put_if_absent("m/1", b"mine") is False


@pytest.mark.parametrize(
    ("status", "code", "kind", "reason"),
    [
        (403, "AccessDenied", AccessDenied, None),
        (404, "NoSuchBucket", TargetUnavailable, Reason.GONE),
        (503, "SlowDown", TargetUnavailable, Reason.BUSY),
        (500, "InternalError", TargetUnavailable, Reason.BUSY),
        (507, "XMinioStorageFull", NoSpace, None),
        (400, "InvalidRequest", TargetUnusable, None),
    ],
)
def test_each_status_is_transient_or_permanent(target, server, status, code, kind, reason):
    server.inject(refuses(status, code))
    bare = target.inner.inner.inner
    for verb in (bare.get, lambda path: bare.put(path, b"x")):
        with pytest.raises(kind) as caught:
            verb("a/b")
        assert caught.value.fields.get("reason") == reason


def test_a_403_is_not_tried_again(target, server):
    server.inject(refuses(403, "AccessDenied"))
    with pytest.raises(AccessDenied):
        target.put("a", b"x")
    assert server.count("PutObject") == 1


def test_a_server_that_hangs_is_bounded():
    """s3fs by itself waits over five minutes for a put."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        endpoint = f"http://127.0.0.1:{silent.getsockname()[1]}"
        target = open_target("f", "s3://bucket", options={"endpoint": endpoint, **FAST, "timeout": 1.0})
        begun = time.monotonic()
        for verb in (lambda: target.put("a", b"x"), lambda: target.get("a"), lambda: [*target.list("")]):
            with pytest.raises(TargetUnavailable):
                verb()
        assert time.monotonic() - begun < 3


def test_a_refused_connection_is_unreachable():
    with FaultyServer() as gone:
        endpoint = gone.endpoint
    target = open_target("f", "s3://bucket", options={"endpoint": endpoint, **FAST})
    with pytest.raises(TargetUnavailable) as caught:
        target.put("a", b"x")
    assert caught.value.reason == Reason.UNREACHABLE


def test_a_root_that_is_not_there_is_unavailable_and_not_made(tmp_path):
    target = open_target("f", tmp_path / "root", options={"client": "fsspec"})
    verbs = (
        lambda: target.get("a"),
        lambda: target.put("a/b", b"x"),
        lambda: [*target.list("")],
        lambda: target.list_folders(""),
    )
    for verb in verbs:
        with pytest.raises(TargetUnavailable) as caught:
            verb()
        assert caught.value.reason == Reason.GONE
    assert not (tmp_path / "root").exists()
    target.create_root()
    with pytest.raises(ObjectNotFound):
        target.get("a")


def test_real_folders_are_made_where_a_filesystem_has_them(tmp_path):
    target = open_target("f", f"file://{tmp_path}/root", options={"client": "fsspec"})
    target.create_root()
    target.put("a/b/c", [b"1", b"2"])
    assert (tmp_path / "root" / "a" / "b" / "c").read_bytes() == b"12"
    assert [entry.path for entry in target.list("")] == ["a/b/c"]
    assert target.list_folders("a/") == ["b"]
    with pytest.raises(TargetUnusable, match="no atomic create"):
        target.put_if_absent("a/d", b"1")


@pytest.mark.parametrize(
    ("raised", "kind", "reason"),
    [
        (TimeoutError("slow"), TargetUnavailable, Reason.TIMEOUT),
        (fsspec.exceptions.FSTimeoutError(), TargetUnavailable, Reason.TIMEOUT),
        (ConnectionRefusedError(errno.ECONNREFUSED, "no"), TargetUnavailable, Reason.UNREACHABLE),
        (ConnectionResetError(errno.ECONNRESET, "cut"), TargetUnavailable, Reason.BROKEN),
        (PermissionError("no"), AccessDenied, None),
        (OSError("Forbidden: https://storage/x"), AccessDenied, None),
        (OSError(errno.ENOSPC, "full"), NoSpace, None),
        (OSError(errno.EIO, "bad disk"), TargetUnavailable, Reason.BROKEN),
        (ValueError("what is this"), TargetUnusable, None),
    ],
)
def test_each_exception_is_transient_or_permanent(raised, kind, reason):
    found = error_for(raised, "f", "a/b")
    assert type(found) is kind
    assert found.fields.get("reason") == reason
    assert (found.target, found.path) == ("f", "a/b")
