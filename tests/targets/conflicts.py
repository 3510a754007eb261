"""The commit protocol over one target whose server answers a conditional put with 409, though nothing is there."""

import manifests
from ckptstore.targets import TargetRegister
from localstack.faults import refuses
from manifests.testing import save_manifest


def assert_commits_over_a_409(target, server):
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
