"""The commit protocol over one target whose server answers a conditional put with 409, though nothing is there."""

import manifests
from ckptstore.targets import TargetRegister
from manifests.testing import save_manifest
from tests.targets.http_stub import error


def assert_commits_over_a_409(target, stub):
    """The manifest's first put is refused so; the protocol puts it again."""
    registers = [TargetRegister(target)]
    manifests.init_store(registers, t=0)
    group = manifests.Group.open(registers)
    session = group.open_session("run")
    refused = []

    def script(method, path):
        if method == "PUT" and "/manifests/" in path and not refused:
            refused.append(path)
            return error(409, "ConditionalRequestConflict")
        return None

    stub.script = script
    committed = group.commit(save_manifest("run", session, 1, step=7))
    assert committed.held == (target.name,)
    assert refused
    assert refused[0] in stub.objects
    assert group.history("run").latest.manifest.step == 7
