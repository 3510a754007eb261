"""A conditional put answered with 409 though nothing is there, by every client of an object store."""

import pytest

import manifests
from ckptstore.errors import TargetUnavailable
from ckptstore.targets import Reason, TargetRegister, open_target
from localstack.faults import refuses
from manifests.testing import save_manifest

CLIENTS = {
    "obstore": {"deadline": 3.0, "read_timeout": 1.0, "timeout": 2.0},
    "fsspec": {"client": "fsspec", "deadline": 8.0, "read_timeout": 5.0, "timeout": 5.0},
}


@pytest.fixture(params=CLIENTS)
def target(request, server):
    target = open_target("s", "s3://bucket/prefix", options={"endpoint": server.endpoint, **CLIENTS[request.param]})
    yield target
    target.close()


def test_o31_a_409_with_the_key_absent_is_transient(target, server):
    """Neither "exists" nor tried again: that is the protocol's."""
    server.inject(refuses(409, "ConditionalRequestConflict"), "PutObject", times=1)
    with pytest.raises(TargetUnavailable) as caught:
        target.put_if_absent("m/1", b"mine")
    assert caught.value.reason == Reason.BUSY
    assert server.objects == {}
    assert server.count("PutObject") == 1


def test_o31_a_commit_over_a_409_with_the_key_absent_succeeds(target, server):
    """The manifest's first put is refused so; the protocol puts it again."""
    registers = [TargetRegister(target)]
    manifests.init_store(registers, t=0)
    group = manifests.Group.open(registers)
    session = group.open_session("run")
    rule = server.inject(refuses(409, "ConditionalRequestConflict"), "PutObject", "*/manifests/*", times=1)
    committed = group.commit(save_manifest("run", session, 1, step=7))
    assert committed.held == (target.name,)
    assert rule.hits == 1
    assert any("/manifests/" in key for key in server.objects)
    assert group.history("run").latest.manifest.step == 7
