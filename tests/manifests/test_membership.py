import pytest
from groups import RUN, new_group, paths_under, registers, save

import manifests
from manifests.founding import init_store
from manifests.group import Group
from manifests.testing import MemoryRegister, save_manifest


def test_init_refuses_a_target_that_holds_a_store():
    _, targets = new_group(3, 1)
    with pytest.raises(manifests.Conflict) as raised:
        init_store([*targets, MemoryRegister("d")], t=1)
    assert raised.value.target == "a"


@pytest.mark.parametrize(("n", "t"), [(3, 3), (1, 1), (2, -1)])
def test_init_refuses_a_tolerance_that_cannot_be(n, t):
    with pytest.raises(ValueError, match=f"t={t}"):
        init_store(registers(n), t=t)


def test_init_refuses_one_name_twice():
    with pytest.raises(ValueError, match="one name"):
        init_store([MemoryRegister("a"), MemoryRegister("a")], t=0)


def test_init_that_failed_half_way_is_finished_under_the_id_put_first():
    targets = registers(3)
    targets[2].lose_before = 100
    with pytest.raises(manifests.Unavailable):
        init_store(targets, t=1)
    targets[2].lose_before = 0
    store_id = init_store(targets, t=1)
    assert Group.open(targets).store_id == store_id
    assert {s.identity.store_id for s in Group.open(targets).standings.values()} == {store_id}


@pytest.mark.parametrize("fault", ["lose_before", "lose_after"])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_o28_init_and_readmission_outlast_puts_that_are_lost(fault, count):
    """Every put is cast again; a joining token never: another one is put above it."""
    targets = registers(3)
    for target in targets:
        setattr(target, fault, count)
    init_store(targets, t=1)
    group = Group.open(targets)
    session = group.open_session(RUN)
    save(group, session, 1)
    assert {standing.state for standing in group.standings.values()} == {"valid"}
    tokens = [standing.incarnation for standing in group.standings.values()]
    assert len(set(tokens)) == 3


def test_init_needs_every_member():
    targets = registers(3)
    targets[1].down = True
    with pytest.raises(manifests.Unavailable):
        init_store(targets, t=1)


def test_a_wiped_target_learns_everything_before_it_counts():
    group, targets = new_group(3, 1)
    session = group.open_session(RUN)
    for ordinal in (1, 2):
        save(group, session, ordinal)
    group.delete(RUN, session, 1)
    group.void(RUN, session, 3)
    expected = sorted(p.partition("/commit/")[2].partition("/")[2] for p in targets[1].objects)
    targets[0].wipe()
    assert group.readmit("a") == ()
    assert sorted(p.partition("/commit/")[2].partition("/")[2] for p in targets[0].objects) == expected
    targets[1].down = True
    history = Group.open(targets).history(RUN)
    assert ([c.ordinal for c in history.checkpoints], history.voided) == ([2], ((session, 3),))


def test_stray_objects_beside_the_runs_do_not_hinder_a_readmission():
    group, targets = new_group(3, 1)
    session = group.open_session(RUN)
    save(group, session, 1)
    for register in targets:
        register.objects |= {"runs/.DS_Store": b"", "runs/Thumbs.db/x": b"", "runs/": b""}
    targets[0].wipe()
    group.readmit("a")
    assert group.history(RUN).latest.seen_on == ("a", "b", "c")
    targets.append(MemoryRegister("d"))
    group = Group.open(targets)
    group.change_members(["a", "b", "d"], 1)
    assert group.history(RUN).latest.seen_on == ("a", "b", "d")


def test_readmitting_a_valid_target_does_nothing():
    group, targets = new_group(3, 1)
    before = dict(targets[0].objects)
    group.readmit("a")
    assert targets[0].objects == before


def test_a_dead_readmission_is_taken_over_and_its_late_finish_refused():
    group, targets = new_group(3, 1)
    targets[0].wipe()
    targets[0].hold_late = True
    with pytest.raises(manifests.Unavailable):
        group.readmit("a")
    targets[0].hold_late = False
    group.readmit("a")
    incarnation = group.standings["a"].incarnation
    targets[0].land()
    group.refresh()
    assert group.standings["a"].state == "valid"
    assert group.standings["a"].incarnation == incarnation


def test_votes_in_flight_to_a_forgotten_incarnation_have_no_effect():
    group, targets = new_group(3, 1)
    session = group.open_session(RUN)
    targets[0].hold_late = True
    assert group.commit(save_manifest(RUN, session, 1)).held == ("b", "c")
    targets[0].hold_late = False
    targets[0].wipe()
    group.readmit("a")
    group.delete(RUN, session, 1)
    expected = paths_under(targets[0], "manifests")
    targets[0].land()
    assert group.history(RUN).latest is None
    assert len(paths_under(targets[0], "manifests")) == len(expected) + 1
    assert group.heal(RUN).put == ()


def test_readmission_needs_enough_targets_that_remember():
    group, targets = new_group(3, 1)
    targets[0].wipe()
    targets[1].down = True
    with pytest.raises(manifests.NoQuorum) as raised:
        group.readmit("a")
    assert (raised.value.valid, raised.value.needed) == (1, 2)


def test_a_target_that_is_no_member_is_not_readmitted():
    _, targets = new_group(3, 1)
    group = Group.open([*targets, MemoryRegister("d")])
    with pytest.raises(manifests.Conflict):
        group.readmit("d")


def test_members_are_changed_and_nothing_is_lost():
    group, targets = new_group(3, 1)
    session = group.open_session(RUN)
    save(group, session, 1)
    group.delete(RUN, session, 1)
    save(group, session, 2)
    targets.append(MemoryRegister("d"))
    targets[0].down = True
    group = Group.open(targets)
    group.change_members(["b", "c", "d"], 1)
    assert (group.members.targets, group.members.old) == (["b", "c", "d"], None)
    targets[1].down = True
    history = Group.open(targets[2:]).history(RUN)
    assert [c.ordinal for c in history.checkpoints] == [2]
    assert [c.ordinal for c in history.deleted] == [1]


def test_a_reader_of_the_old_members_meets_the_change():
    group, targets = new_group(3, 1)
    stale = Group.open(targets)
    targets.append(MemoryRegister("d"))
    Group.open(targets).change_members(["a", "b", "d"], 1)
    assert stale.members.number == 1
    session = group.open_session(RUN)
    assert group.commit(save_manifest(RUN, session, 1)).held == ("a", "b")
    assert stale.history(RUN).latest.key == (session, 1)


def test_a_removed_target_that_comes_back_has_no_old_votes():
    group, targets = new_group(3, 1)
    session = group.open_session(RUN)
    for register in targets[1:]:
        register.lose_before = 10
    with pytest.raises(manifests.InDoubt):
        group.commit(save_manifest(RUN, session, 1))
    for register in targets[1:]:
        register.lose_before = 0
    targets[0].down = True
    group = Group.open([*targets, MemoryRegister("d")])
    group.change_members(["b", "c", "d"], 1)
    assert group.void(RUN, session, 1) == "voided"
    targets[0].down = False
    group.change_members(["a", "b", "c"], 1)
    assert group.history(RUN).voided == ((session, 1),)
    assert group.history(RUN).latest is None


def test_an_interrupted_change_is_finished_by_doing_it_again():
    group, targets = new_group(3, 1)
    targets.append(MemoryRegister("d"))
    group = Group.open(targets)
    targets[3].lose_after = 2
    for _ in range(5):
        try:
            group.change_members(["a", "b", "d"], 1)
        except manifests.Unavailable:
            continue
        break
    assert (group.members.targets, group.members.old) == (["a", "b", "d"], None)
    assert {group.standings[name].state for name in "abd"} == {"valid"}


def test_members_that_stay_learn_what_they_missed():
    group, targets = new_group(3, 1)
    session = group.open_session(RUN)
    targets[2].down = True
    save(group, session, 1)
    targets[2].down = False
    group.change_members(["b", "c"], 1)
    targets[1].down = True
    assert Group.open(targets[1:]).history(RUN).latest.key == (session, 1)
