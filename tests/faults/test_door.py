"""What keeps a store from being written to is found before training begins: by `doctor` and by `run.check`."""

import time

import pytest

from ckptstore.errors import AccessDenied, CkptStoreError, TargetUnusable, ToleranceError
from ckptstore.opened import release
from ckptstore.operations.doctor import examine
from ckptstore.operations.setup import init
from ckptstore.store import Store
from ckptstore.targets import open_target
from localstack import faults
from localstack.faulty import FaultyServer
from tests.faults.support import ARRAYS, CREDENTIALS, FAST, served, settings_of, timed
from tests.support import assert_equal, reopen


def change(name, value):
    """The service asks for other credentials than those that the client has."""

    def cause(server):
        server.credentials = {**CREDENTIALS, name: value}

    return cause


def read_only(server):
    for operation in ("PutObject", "DeleteObject*", "PostObject"):
        server.inject(faults.refuses(403, "AccessDenied"), operation)


def no_bucket(server):
    server.memory.buckets.clear()


def skewed(server):
    server.memory.clock_offset = 3600


def elsewhere(server):
    server.inject(faults.refuses(301, "PermanentRedirect"))


def no_room(server):
    server.inject(faults.full(), "PutObject")


CAUSES = {
    "wrong secret": (change("AWS_SECRET_ACCESS_KEY", "another"), "SignatureDoesNotMatch"),
    "wrong key": (change("AWS_ACCESS_KEY_ID", "another"), "InvalidAccessKeyId"),
    "expired token": (change("AWS_SESSION_TOKEN", "newer"), "ExpiredToken"),
    "wrong region": (change("AWS_REGION", "eu-west-1"), "AuthorizationHeaderMalformed"),
    "another region": (elsewhere, "elsewhere"),
    "clock": (skewed, "RequestTimeTooSkewed"),
    "no bucket": (no_bucket, "NoSuchBucket"),
    "read-only": (read_only, "AccessDenied"),
    "full": (no_room, "InsufficientStorage"),
}


@pytest.mark.parametrize("name", CAUSES)
def test_o27_doctor_and_the_check_before_training_name_target_and_cause(three, name):
    cause, word = CAUSES[name]
    before = three.held()
    cause(three.servers["b"])
    report, seconds = timed(lambda: examine(three.reopen().store.opened))
    (found,) = [health for health in report.targets if health.problems]
    assert found.name == "b"
    assert any(word in problem for problem in found.problems)
    assert report.exit_code != 0
    run = Store(three.store.config).run("demo")
    began = time.monotonic()
    with pytest.raises(CkptStoreError, match=word) as caught:
        run.check()
    release(three.store.config)
    assert caught.value.target == "b"
    assert max(seconds, time.monotonic() - began) < 10
    assert three.held() == before


def test_o27_all_of_it_wrong_is_told_as_well(three):
    for server in three.servers.values():
        server.credentials = {**CREDENTIALS, "AWS_SECRET_ACCESS_KEY": "another"}
    before = three.held()
    report, _ = timed(lambda: examine(three.reopen().store.opened))
    assert [health.name for health in report.targets if health.problems] == ["a", "b", "c"]
    assert report.exit_code == 12
    with pytest.raises(CkptStoreError, match=r"a: .*SignatureDoesNotMatch.*b: .*c: "):
        Store(three.store.config).run("demo").check()
    release(three.store.config)
    assert three.held() == before


def test_a_check_where_all_is_well_says_what_a_save_survives_and_leaves_nothing(six):
    before = six.held()
    run = Store(six.store.config).run("demo")
    assert run.check().targets == 2
    release(six.store.config)
    assert six.held() == before


def test_a_check_bears_an_outage_that_a_save_would_bear(six):
    six.servers["a"].stop()
    assert Store(six.store.config).run("demo").check().targets == 1
    release(six.store.config)


@pytest.mark.parametrize("client", ["obstore", "fsspec"])
def test_o02_a_service_that_drops_conditions_holds_no_manifests(tmp_path, client):
    servers = {name: FaultyServer(credentials=CREDENTIALS).start() for name in "abc"}
    for server in servers.values():
        server.inject(faults.drops_conditions, "PutObject")
    config = settings_of(servers, "2+1", client=client)
    with pytest.raises(TargetUnusable, match=r"target a can't hold manifests: put-if-absent overwrites"):
        init(reopen(tmp_path, config).opened)
    for server in servers.values():
        assert server.objects == {}
        server.stop()


def test_o02_a_service_that_begins_to_drop_conditions_is_refused_at_the_next_opening(three):
    """A proxy put in front of it, say."""
    before = three.held()
    three.inject(faults.drops_conditions, "PutObject")
    with pytest.raises(ToleranceError, match="overwrote"):
        three.reopen().store.save(ARRAYS)
    assert three.held() == before


@pytest.mark.parametrize("client", ["obstore", "fsspec"])
def test_o30_a_token_is_renewed_in_the_environment(monkeypatch, client):
    monkeypatch.setenv("AWS_SESSION_TOKEN", "first")
    with FaultyServer(credentials={**CREDENTIALS, "AWS_SESSION_TOKEN": "first"}) as server:
        target = open_target("a", "s3://bucket", options={"endpoint": server.endpoint, "client": client, **FAST})
        target.put("x", b"1")
        server.credentials = {**CREDENTIALS, "AWS_SESSION_TOKEN": "second"}
        with pytest.raises(AccessDenied, match="ExpiredToken"):
            target.put("x", b"2")
        monkeypatch.setenv("AWS_SESSION_TOKEN", "second")
        target.put("x", b"3")
        assert server.objects == {"x": b"3"}


def test_o30_a_token_that_expires_between_two_saves_is_renewed(tmp_path, monkeypatch):
    """The job, or what provides its credentials, puts the new one into the environment."""
    with served(tmp_path, require_tolerance=0) as made:
        monkeypatch.setenv("AWS_SESSION_TOKEN", "first")
        for server in made.servers.values():
            server.credentials = {**CREDENTIALS, "AWS_SESSION_TOKEN": "first"}
        made.store.save(ARRAYS, step=1)
        for server in made.servers.values():
            server.credentials = {**CREDENTIALS, "AWS_SESSION_TOKEN": "second"}
        with pytest.raises(CkptStoreError):
            made.store.save(ARRAYS, step=2)
        monkeypatch.setenv("AWS_SESSION_TOKEN", "second")
        made.store.save(ARRAYS, step=3)
        assert made.store.latest().step == 3
        assert_equal(made.store.load(), ARRAYS)
