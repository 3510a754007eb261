import hashlib
import time

import msgspec
import pytest
from groups import RUN, new_group, paths_under, save

import manifests
from manifests.group import Group
from manifests.testing import MemoryRegister, save_manifest, sealed_for


def three_saves():
    group, targets = new_group(3, 1)
    session = group.open_session(RUN)
    for ordinal in (1, 2, 3):
        save(group, session, ordinal, step=10 * ordinal)
    return group, targets, session


def test_a_run_without_saves_has_no_latest():
    group, _ = new_group(3, 1)
    history = group.history(RUN)
    assert (history.latest, history.checkpoints, history.problems) == (None, (), ())


def test_o07_latest_is_found_by_commit_records_alone():
    group, targets, session = three_saves()
    assert group.history(RUN).latest.key == (session, 3)
    assert not [path for register in targets for path in register.objects if "latest" in path]


@pytest.mark.parametrize("bit", [8, 700, 2400])
def test_o43_one_damaged_copy_hides_nothing_and_is_healed(bit):
    group, targets, _ = three_saves()
    path = paths_under(targets[0], "manifests")[1]
    before = targets[0].objects[path]
    targets[0].damage(path, bit)
    for _ in range(3):
        history = group.history(RUN)
        assert [c.manifest.step for c in history.checkpoints] == [10, 20, 30]
    healed = group.heal(RUN)
    assert [target for target, _ in healed.put] == ["a"]
    assert targets[0].objects[path] == before
    assert group.heal(RUN).put == ()


def test_o43_copies_deleted_on_t_targets_are_put_back():
    group, targets, _ = three_saves()
    expected = dict(targets[2].objects)
    for path in [p for p in targets[2].objects if "/commit/" in p]:
        del targets[2].objects[path]
    assert len(group.history(RUN).checkpoints) == 3
    group.heal(RUN)
    assert targets[2].objects == expected


def test_o43_a_manifest_without_a_good_copy_is_a_warning_and_the_others_are_listed():
    group, targets, session = three_saves()
    for register in targets:
        register.damage(paths_under(register, "manifests")[2], 100)
    history = group.history(RUN)
    assert history.latest.key == (session, 2)
    (problem,) = history.problems
    assert problem.fatal
    assert set(problem.targets) == {"a", "b", "c"}
    assert group.heal(RUN).incomplete == (problem.name,)


def test_o72_a_deleted_save_stays_deleted_when_a_target_comes_back():
    group, targets, session = three_saves()
    targets[2].down = True
    Group.open(targets).delete(RUN, session, 3)
    targets[2].down = False
    targets[0].down = True
    assert Group.open(targets).history(RUN).latest.key == (session, 2)
    targets[0].down = False
    group.heal(RUN)
    history = group.history(RUN)
    assert [c.key for c in history.deleted] == [(session, 3)]
    assert paths_under(targets[2], "marks")


def test_undelete_undoes_every_delete_mark():
    group, _, session = three_saves()
    group.delete(RUN, session, 3)
    group.delete(RUN, session, 3)
    assert len(group.history(RUN).deleted[0].deletes) == 2
    group.undelete(RUN, session, 3)
    assert group.history(RUN).latest.key == (session, 3)
    group.delete(RUN, session, 3)
    assert group.history(RUN).latest.key == (session, 2)


def test_tags_move_and_go():
    group, _, session = three_saves()
    group.tag(RUN, session, 1, "best")
    group.tag(RUN, session, 2, "best")
    assert {name: c.key for name, c in group.history(RUN).tags.items()} == {"best": (session, 2)}
    group.untag(RUN, "best")
    assert group.history(RUN).tags == {}


def test_marks_on_what_was_never_saved_are_refused():
    group, _, session = three_saves()
    with pytest.raises(manifests.NoSuchCheckpoint):
        group.delete(RUN, session, 9)


def test_the_highest_version_of_a_manifest_counts_and_all_are_kept():
    group, _, session = three_saves()
    for step in (31, 32):
        group.supersede(save_manifest(RUN, session, 3, step=step, kind="repair"))
    latest = group.history(RUN).latest
    assert latest.manifest.step == 32
    assert [manifest.version for manifest in latest.versions] == [1, 2, 3]


def test_a_manifest_of_another_save_under_this_name_is_not_believed():
    group, targets, session = three_saves()
    path = paths_under(targets[0], "manifests")[2]
    targets[0].objects[path] = sealed_for(path, save_manifest(RUN, session, 9, step=99))
    assert [c.manifest.step for c in group.history(RUN).checkpoints] == [10, 20, 30]
    group.heal(RUN)
    assert targets[0].objects[path] == sealed_for(path, save_manifest(RUN, session, 3, step=30))


def test_what_a_newer_release_wrote_is_read_around_but_nothing_is_written():
    group, targets, session = three_saves()
    for register in targets:
        path = paths_under(register, "manifests")[2]
        newer = msgspec.structs.replace(save_manifest(RUN, session, 3), requires=["quantum-codes"])
        register.objects[path] = sealed_for(path, newer)
    history = group.history(RUN)
    assert history.latest.key == (session, 2)
    assert history.latest_in_doubt.newer
    assert history.latest_in_doubt.save == (session, 3)
    assert history.begun == ()
    before = [dict(register.objects) for register in targets]
    for change in (
        lambda: group.heal(RUN),
        lambda: group.delete(RUN, session, 1),
        lambda: group.tag(RUN, session, 1, "best"),
        lambda: group.untag(RUN, "best"),
        lambda: group.supersede(save_manifest(RUN, session, 2, kind="repair")),
    ):
        with pytest.raises(manifests.NotUnderstood, match="upgrade ckptstore"):
            change()
    assert [register.objects for register in targets] == before


def as_format_2(path: str, data: bytes) -> bytes:
    body = data[:-77].replace(b'"format":[1,0]', b'"format":[2,0]') + b"}"
    place = f"{RUN}/{path.split('/', 4)[4]}".encode()
    return body[:-1] + b',"sha256":"' + hashlib.sha256(place + body).hexdigest().encode() + b'"}'


def test_a_newer_major_version_is_read_around_and_never_put_over():
    group, targets, session = three_saves()
    path = paths_under(targets[0], "manifests")[2]
    targets[0].objects[path] = as_format_2(path, targets[0].objects[path])
    for register in targets[1:]:
        del register.objects[paths_under(register, "manifests")[2]]
    history = group.history(RUN)
    assert history.latest.key == (session, 2)
    assert (history.latest_in_doubt.newer, history.latest_in_doubt.targets) == (True, ("a",))
    with pytest.raises(manifests.NotUnderstood):
        group.heal(RUN)
    kept = targets[0].objects[path]
    targets[1].wipe()
    group.readmit("b")
    assert [register.objects[p] for register in targets[1:2] for p in paths_under(register, "manifests")][2] == kept


def test_latest_is_in_doubt_where_a_later_save_has_no_good_copy():
    group, targets, session = three_saves()
    assert group.history(RUN).latest_in_doubt is None
    for register in targets[:2]:
        register.damage(paths_under(register, "manifests")[2], 100)
    assert group.history(RUN).latest_in_doubt is None
    targets[2].damage(paths_under(targets[2], "manifests")[2], 100)
    doubt = group.history(RUN).latest_in_doubt
    assert (doubt.save, doubt.fatal, doubt.newer) == ((session, 3), True, False)
    save(group, session, 4)
    assert group.history(RUN).latest_in_doubt is None


def test_latest_is_not_in_doubt_for_an_earlier_save_or_for_one_that_is_deleted():
    group, targets, session = three_saves()
    group.delete(RUN, session, 3)
    for register in targets:
        for path in paths_under(register, "manifests")[::2]:
            register.damage(path, 100)
    history = group.history(RUN)
    assert {problem.save for problem in history.problems} == {(session, 1), (session, 3)}
    assert history.latest.key == (session, 2)
    assert history.latest_in_doubt is None


def test_latest_is_in_doubt_where_nothing_else_is_there():
    group, targets = new_group(2, 1)
    session = group.open_session(RUN)
    save(group, session, 1)
    for register in targets:
        register.damage(paths_under(register, "manifests")[0], 100)
    assert group.history(RUN).latest is None
    assert group.history(RUN).latest_in_doubt.save == (session, 1)


def test_latest_is_in_doubt_where_a_void_is_beside_a_damaged_copy_that_may_be_a_save():
    group, targets, session = three_saves()
    group.void(RUN, session, 4)
    assert group.history(RUN).voided == ((session, 4),)
    targets[0].damage(paths_under(targets[0], "manifests")[3], 100)
    history = group.history(RUN)
    assert (history.voided, history.begun) == ((), ())
    assert history.latest_in_doubt.save == (session, 4)
    group.heal(RUN)
    assert group.history(RUN).latest_in_doubt is None


@pytest.mark.parametrize(("marked", "doubtful"), [(1, False), (3, True)])
def test_an_unreadable_mark_may_be_the_deletion_of_the_latest(marked, doubtful):
    group, targets, session = three_saves()
    group.delete(RUN, session, marked)
    for register in targets:
        register.damage(paths_under(register, "marks")[0], 100)
    history = group.history(RUN)
    assert history.latest.key == (session, 3)
    assert (history.latest_in_doubt is not None) == doubtful


def test_an_unreadable_mark_may_undo_the_deletion_of_a_later_save():
    group, targets, session = three_saves()
    group.delete(RUN, session, 3)
    (first,) = paths_under(targets[0], "marks")
    group.undelete(RUN, session, 3)
    for register in targets:
        undeletes = [path for path in paths_under(register, "marks") if path.rpartition("/")[2] not in first]
        register.damage(undeletes[0], 100)
    history = group.history(RUN)
    assert history.latest.key == (session, 2)
    assert history.latest_in_doubt.save == (session, 3)


def test_a_copy_that_gets_out_of_reach_does_not_make_a_damaged_one_good(monkeypatch):
    """Heard are then only targets whose copies are damaged: that nothing of the save was read must be told."""
    group, targets, session = three_saves()
    for register in targets[:2]:
        register.damage(paths_under(register, "manifests")[2], 100)
    path = paths_under(targets[2], "manifests")[2]
    original = targets[2].get

    def get(asked: str) -> bytes | None:
        if asked == path:
            targets[2].down = True
        return original(asked)

    monkeypatch.setattr(targets[2], "get", get)
    history = group.history(RUN)
    assert history.heard == ("a", "b")
    assert history.latest.key == (session, 2)
    assert history.latest_in_doubt.save == (session, 3)


def test_names_of_strangers_are_reported_and_do_no_harm():
    group, targets, session = three_saves()
    prefix = paths_under(targets[0], "manifests")[0].rpartition("manifests/")[0]
    targets[0].objects[prefix + "manifests/readme.txt"] = b"hello"
    history = group.history(RUN)
    assert history.latest.key == (session, 3)
    assert "readme.txt" in history.problems[0].name
    assert not history.problems[0].fatal


def test_reading_two_hundred_checkpoints_costs_one_get_each_and_well_below_a_second():
    group, targets = new_group(6, 2)
    session = group.open_session(RUN)
    for ordinal in range(1, 201):
        group.begin(RUN, session, ordinal)
        group.commit(save_manifest(RUN, session, ordinal))
    for register in targets:
        register.requests = 0
    start = time.process_time()
    assert len(group.history(RUN).checkpoints) == 200
    assert time.process_time() - start < 1.0
    assert sum(register.requests for register in targets) == 200 + 3 * 6


class Refusing(MemoryRegister):
    """A register on which some paths may not be read."""

    secret = "/commit/"

    def get(self, path: str) -> bytes | None:
        self._check(path)
        return super().get(path)

    def list(self, prefix: str) -> list[str]:
        self._check(prefix)
        return super().list(prefix)

    def _check(self, path: str) -> None:
        if self.secret in path:
            message = f"{self.name}: 403 Forbidden: {path}"
            raise manifests.Unavailable(message, register=self.name, path=path, final=True, refused=True)


@pytest.mark.parametrize("secret", ["/commit/", "/manifests/"])
def test_where_votes_may_not_be_read_each_target_and_cause_is_named_at_once(secret):
    _, targets, _ = three_saves()
    refusing = [Refusing(register.name, register.objects) for register in targets]
    for register in refusing[:2]:
        register.secret = secret
    refusing[2].secret = "nothing"
    began = time.monotonic()
    with pytest.raises(manifests.NoQuorum, match=r"a: 403 Forbidden.*b: 403 Forbidden") as caught:
        Group.open(refusing).history(RUN)
    assert time.monotonic() - began < 1.0
    assert caught.value.refused
    assert set(caught.value.reasons) == {"a", "b"}
    refusing[1].secret = "nothing"
    assert len(Group.open(refusing).history(RUN).checkpoints) == 3


def test_where_targets_fail_for_the_moment_the_last_cause_is_named():
    group, targets, _ = three_saves()
    paths = [path for register in targets[:2] for path in register.objects if "/manifests/" in path]
    for register in targets[:2]:
        register.get = lambda path, name=register.name, get=register.get: (
            get(path) if path not in paths else _reset(name, path)
        )
    with pytest.raises(manifests.NoQuorum, match=r"a: connection reset.*b: connection reset") as caught:
        group.history(RUN)
    assert "refused" not in caught.value.fields


def _reset(name: str, path: str) -> bytes:
    raise manifests.Unavailable(f"{name}: connection reset", register=name, path=path)
