"""What keeps a store from being written to is found before training begins: by `doctor` and by `run.check`."""

import time

import msgspec
import pytest
import torch

from ckptstore.errors import AccessDenied, CkptStoreError, OutOfReach, TargetUnusable, ToleranceError
from ckptstore.notices import SaveFailedWarning
from ckptstore.opened import release
from ckptstore.operations.doctor import examine
from ckptstore.operations.setup import init
from ckptstore.retention import Retention
from ckptstore.store import Store
from ckptstore.targets import open_target
from ckptstore.tolerant import TolerantRun
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


@pytest.mark.parametrize("name", ["wrong secret", "wrong key", "expired token", "read-only"])
def test_credentials_that_every_target_refuses_are_told_as_such_and_never_tolerated(three, name, recwarn):
    cause, word = CAUSES[name]
    for server in three.servers.values():
        cause(server)
    run = Store(three.store.config).run("demo")
    state = {"w": torch.zeros(4)}
    tolerant = TolerantRun(run, tolerate_failures=3)
    saves = [run.check, lambda: run.save(state, step=1), lambda: tolerant.save(state, step=1)]
    loads = [] if name == "read-only" else [run.latest, lambda: run.load(dict(state), step=1)]
    for ask in [*saves, *loads]:
        with pytest.raises(AccessDenied, match=word):
            ask()
    release(three.store.config)
    assert not [warning for warning in recwarn if issubclass(warning.category, SaveFailedWarning)]


def test_credentials_that_end_between_two_saves_of_one_process_are_told_as_such(three):
    run = TolerantRun(Store(three.store.config).run("demo"), tolerate_failures=3)
    run.save({"w": torch.zeros(4)}, step=1)
    for server in three.servers.values():
        read_only(server)
    with pytest.raises(AccessDenied):
        run.save({"w": torch.zeros(4)}, step=2)
    release(three.store.config)


def test_marks_that_every_target_refuses_are_not_in_doubt(three):
    run = Store(three.store.config).run("demo")
    run.save({"w": torch.zeros(4)}, step=1)
    for server in three.servers.values():
        read_only(server)
    for change_it in (lambda: run.tag(1, "best"), lambda: run.delete(1), lambda: run.prune(Retention(keep_last=1))):
        with pytest.raises(AccessDenied):
            change_it()
    release(three.store.config)


def test_a_checkpoint_named_by_its_step_loads_where_most_targets_refuse_us(three):
    run = Store(three.store.config).run("demo")
    run.save({"w": torch.ones(4)}, step=1)
    release(three.store.config)
    for name in "ab":
        three.servers[name].inject(faults.refuses(403, "AccessDenied"), "List*")
    with pytest.raises(AccessDenied, match="AccessDenied"):
        run.latest()
    state = {"w": torch.zeros(4)}
    with pytest.warns(UserWarning, match="may not be seen"):
        run.load(state, step=1)
    assert state["w"].sum() == 4
    release(three.store.config)


def test_settings_that_name_another_place_are_never_tolerated(three, tmp_path):
    """Too few targets, and no outage that may pass."""
    other = msgspec.structs.replace
    targets = [other(spec, name={"a": "b", "b": "a"}.get(spec.name, spec.name)) for spec in three.store.config.targets]
    config = other(three.store.config, targets=targets, require_tolerance=1)
    with pytest.raises(CkptStoreError, match="target a is where the store keeps target b"):
        TolerantRun(Store(config).run("demo"), tolerate_failures=3).save({"w": torch.zeros(4)}, step=1)
    release(config)


def test_refused_credentials_beside_an_outage_that_decides_are_out_of_reach(three):
    three.servers["a"].credentials = {**CREDENTIALS, "AWS_ACCESS_KEY_ID": "another"}
    three.servers["b"].stop()
    with pytest.raises(OutOfReach):
        Store(three.store.config).run("demo").latest()
    release(three.store.config)
