import hashlib
import json

import pytest
from groups import RUN, new_group, registers, save

import manifests
from manifests import paths
from manifests.founding import init_store
from manifests.group import Group
from manifests.schema import Standing
from manifests.seal import seal, unseal
from manifests.testing import MemoryRegister, save_manifest


def state(group: Group, target: str) -> str:
    group.refresh()
    return group.standings[target].state


def test_a_new_store_has_valid_targets_with_incarnations_of_their_own():
    group, _ = new_group(3, 1)
    assert {s.state for s in group.standings.values()} == {"valid"}
    assert len({s.incarnation for s in group.standings.values()}) == 3
    assert (group.members.targets, group.members.t) == (["a", "b", "c"], 1)


def test_a_wiped_target_is_absent():
    group, targets = new_group(3, 1)
    targets[0].wipe()
    assert state(group, "a") == "absent"


def test_a_target_of_another_store_is_foreign():
    group, targets = new_group(3, 1)
    other = [MemoryRegister("a")]
    init_store(other, t=0)
    targets[0].objects = other[0].objects
    assert state(group, "a") == "foreign"
    assert group.store_id in group.standings["a"].reason


def test_a_target_under_another_name_is_foreign():
    group, targets = new_group(3, 1)
    targets[0].objects, targets[1].objects = targets[1].objects, targets[0].objects
    assert state(group, "a") == "foreign"
    assert "'b'" in group.standings["a"].reason


@pytest.mark.parametrize("path", [paths.IDENTITY, paths.standing(1), paths.standing(2)])
def test_a_target_whose_standing_is_damaged_does_not_count_until_it_is_readmitted(path):
    group, targets = new_group(3, 1)
    session = group.open_session(RUN)
    save(group, session, 1)
    targets[0].damage(path, 300)
    assert state(group, "a") == "damaged"
    group.readmit("a")
    assert state(group, "a") == "valid"
    targets[1].down = True
    assert Group.open(targets).history(RUN).latest.key == (session, 1)


def newer(data: bytes, **changes: object) -> bytes:
    """Return a sealed document as a newer release would have written it."""
    raw = json.loads(data) | changes
    del raw["sha256"]
    body = json.dumps(raw, sort_keys=True, separators=(",", ":")).encode()
    return body[:-1] + b',"sha256":"' + hashlib.sha256(body).hexdigest().encode() + b'"}'


NEWER = [{"requires": ["leases"]}, {"format": [2, 0]}, {"requires": ["leases"], "state": "resting", "format": [1, 1]}]


@pytest.mark.parametrize("path", [paths.IDENTITY, paths.standing(1), paths.standing(2)])
@pytest.mark.parametrize("changes", NEWER[:2])
def test_a_target_whose_standing_a_newer_release_wrote_counts_for_nothing_and_is_left_alone(path, changes):
    group, targets = new_group(3, 1)
    targets[0].objects[path] = newer(targets[0].objects[path], **changes)
    before = dict(targets[0].objects)
    assert state(group, "a") == "newer"
    assert path in group.standings["a"].reason
    assert "upgrade ckptstore" in group.standings["a"].reason
    with pytest.raises(manifests.NotUnderstood, match="upgrade ckptstore") as raised:
        group.readmit("a")
    assert raised.value.target == "a"
    session = group.open_session(RUN)
    assert group.commit(save_manifest(RUN, session, 1)).held == ("b", "c")
    assert targets[0].objects == before


def test_a_state_that_a_newer_release_added_is_not_damage():
    group, targets = new_group(3, 1)
    targets[0].objects[paths.standing(2)] = newer(targets[0].objects[paths.standing(2)], **NEWER[2])
    assert state(group, "a") == "newer"


@pytest.mark.parametrize("damaged", [paths.IDENTITY, paths.standing(2)])
def test_damage_does_not_make_a_target_of_a_newer_release_one_to_be_readmitted(damaged):
    group, targets = new_group(3, 1)
    targets[0].objects[paths.standing(1)] = newer(targets[0].objects[paths.standing(1)], **NEWER[0])
    targets[0].damage(damaged, 300)
    assert state(group, "a") == "newer"


def test_what_a_newer_release_said_before_the_token_that_counts_is_history():
    group, targets = new_group(3, 1)
    targets[0].objects[paths.standing(4)] = targets[0].objects.pop(paths.standing(2))
    targets[0].objects[paths.standing(3)] = targets[0].objects.pop(paths.standing(1))
    targets[0].objects[paths.standing(1)] = newer(targets[0].objects[paths.standing(3)], **NEWER[0])
    assert state(group, "a") == "valid"


def test_a_target_that_a_newer_release_uses_is_not_taken_as_a_member():
    _, targets = new_group(3, 1)
    targets.append(MemoryRegister("d"))
    group = Group.open(targets)
    targets[3].objects = {paths.standing(1): newer(targets[0].objects[paths.standing(1)], **NEWER[0])}
    before = dict(targets[3].objects)
    with pytest.raises(manifests.NotUnderstood):
        group.change_members(["a", "b", "d"], 1)
    assert targets[3].objects == before
    assert group.members.number == 1


def test_targets_that_only_a_newer_release_understands_are_not_taken_for_no_store():
    _, targets = new_group(2, 1)
    for register in targets:
        register.objects[paths.IDENTITY] = newer(register.objects[paths.IDENTITY], **NEWER[1])
    with pytest.raises(manifests.NoQuorum, match="upgrade ckptstore"):
        Group.open(targets)
    with pytest.raises(manifests.Conflict, match="upgrade ckptstore"):
        init_store(targets, t=1)


def test_a_valid_statement_that_lost_its_token_says_nothing():
    group, targets = new_group(3, 1)
    del targets[0].objects[paths.standing(1)]
    assert state(group, "a") == "absent"


def test_a_late_statement_of_a_forgotten_incarnation_says_nothing():
    group, targets = new_group(3, 1)
    group.readmit("a")
    late = Standing(incarnation="forgotten", state="valid", members=group.members)
    targets[0].objects[paths.standing(7)] = seal(late)
    assert state(group, "a") == "valid"
    assert group.standings["a"].incarnation != "forgotten"
    session = group.open_session(RUN)
    save(group, session, 1)
    assert group.history(RUN).latest.seen_on == ("a", "b", "c")


def test_targets_that_hold_nothing_are_no_store():
    with pytest.raises(manifests.NotAStore):
        Group.open(registers(3))


def test_targets_out_of_reach_are_not_taken_for_no_store():
    _, targets = new_group(3, 1)
    for register in targets:
        register.down = True
    with pytest.raises(manifests.NoQuorum):
        Group.open(targets)


def test_a_store_none_of_whose_targets_counts_is_still_a_store():
    _, targets = new_group(3, 1)
    for register in targets:
        del register.objects[paths.standing(1)]
    targets[0].damage(paths.standing(2), 300)
    with pytest.raises(manifests.NoQuorum) as raised:
        Group.open(targets)
    assert "can't be read" in raised.value.reasons["a"]
    assert "wiped" in raised.value.reasons["b"]


def test_targets_that_are_all_of_another_store_are_not_this_one():
    group, targets = new_group(2, 1)
    init_store(other := registers(2), t=1)
    for register, found in zip(targets, other, strict=True):
        register.objects = found.objects
    with pytest.raises(manifests.NotAStore, match="belongs to store"):
        group.refresh()


def test_targets_that_are_all_under_other_names_are_not_this_store():
    _, targets = new_group(2, 1)
    targets[0].objects, targets[1].objects = targets[1].objects, targets[0].objects
    with pytest.raises(manifests.NotAStore, match="it says it is"):
        Group.open(targets)


def test_a_flipped_bit_anywhere_in_a_sealed_document_is_found():
    group, targets = new_group(1, 0)
    data = targets[0].objects[paths.standing(2)]
    assert unseal(Standing, data).incarnation == group.standings["a"].incarnation
    for position in range(len(data)):
        damaged = bytearray(data)
        damaged[position] ^= 1
        with pytest.raises(manifests.FormatError):
            unseal(Standing, bytes(damaged))


def test_o02_a_target_that_ignores_conditions_is_refused():
    targets = registers(3)
    targets[1].conditional = False
    with pytest.raises(manifests.NotConditional) as raised:
        init_store(targets, t=1)
    assert raised.value.register == "b"
    assert "ckptstore.json" in raised.value.message
    assert "hold fragments" in raised.value.message


def test_o02_a_replacement_that_ignores_conditions_is_not_readmitted():
    group, targets = new_group(3, 1)
    targets[1].wipe()
    targets[1].conditional = False
    with pytest.raises(manifests.NotConditional):
        group.readmit("b")
    assert state(group, "b") != "valid"
