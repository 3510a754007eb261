"""The protocol over real directories, by the same registers that the store uses."""

import shutil
import time

import pytest
from groups import RUN, save

import manifests
from ckptstore.targets import TargetRegister, open_target
from manifests.founding import init_store
from manifests.group import Group
from manifests.testing import save_manifest, sealed_for


@pytest.fixture
def registers(tmp_path):
    made = []
    for name in "abcdef":
        (tmp_path / name).mkdir()
        made.append(TargetRegister(open_target(name, tmp_path / name)))
    init_store(made, t=2)
    return made


def test_o71_o72_o73_over_directories(tmp_path, registers):
    group = Group.open(registers)
    old = group.open_session(RUN)
    save(group, old, 1, step=10)
    new = group.open_session(RUN)
    with pytest.raises(manifests.Fenced):
        group.commit(save_manifest(RUN, old, 2, step=20))
    save(group, new, 1, step=30)
    shutil.move(tmp_path / "c", tmp_path / "away")
    Group.open(registers).delete(RUN, new, 1)
    shutil.move(tmp_path / "away", tmp_path / "c")
    assert Group.open(registers).history(RUN).latest.manifest.step == 10


def test_a_wiped_directory_is_readmitted(tmp_path, registers):
    group = Group.open(registers)
    save(group, group.open_session(RUN), 1, step=10)
    shutil.rmtree(tmp_path / "a")
    (tmp_path / "a").mkdir()
    group = Group.open(registers)
    assert group.standings["a"].state == "absent"
    group.readmit("a")
    assert "a" in group.history(RUN).latest.seen_on


def test_the_history_of_two_hundred_checkpoints_is_read_well_below_a_second(tmp_path, registers):
    group = Group.open(registers)
    session = group.open_session(RUN)
    for register in registers:
        prefix = manifests.paths.commit_prefix(RUN, group.standings[register.name].incarnation)
        for ordinal in range(1, 201):
            name = f"{prefix}manifests/{session}.{ordinal:06d}/000001"
            path = tmp_path / register.name / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(sealed_for(name, save_manifest(RUN, session, ordinal)))
    start = time.process_time()
    history = group.history(RUN)
    assert time.process_time() - start < 1.0
    assert len(history.checkpoints) == 200
    assert history.latest.seen_on == tuple("abcdef")
