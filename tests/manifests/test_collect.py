"""Ending saves for good, and what is left of them."""

import pytest
from groups import new_group, paths_under, save

import manifests
from manifests.testing import save_manifest

RUN = "r"


def deleted(n: int = 3, t: int = 1):
    """A group with one deleted save, and another; returns it, its registers, the session and the delete marks."""
    group, targets = new_group(n, t)
    session = group.open_session(RUN)
    for ordinal in (1, 2):
        save(group, session, ordinal)
    group.delete(RUN, session, 1)
    return group, targets, session, group.history(RUN).find(session, 1).deletes


def left_of(target, session, ordinal=1):
    return sorted(path for path in target.objects if f"{session}.{ordinal:06d}" in path)


def test_o72_a_collected_save_is_gone_whoever_brings_its_votes_back():
    group, targets, session, deletes = deleted()
    votes = {target.name: dict(target.objects) for target in targets}
    assert group.collect(RUN, (session, 1), deletes) == "collected"
    assert group.clear(RUN) > 0
    for target in targets:
        target.objects |= votes[target.name]
    history = group.history(RUN)
    assert [c.ordinal for c in history.checkpoints] == [2]
    assert (history.deleted, history.begun, history.collected) == ((), (), ((session, 1),))


def test_what_is_left_of_a_collected_save_is_one_note_a_target():
    group, targets, session, deletes = deleted()
    group.collect(RUN, (session, 1), deletes)
    group.clear(RUN)
    for target in targets:
        assert left_of(target, session) == paths_under(target, "collected") != []
    assert group.clear(RUN) == 0, "nothing is left to be removed"


def test_an_undeleted_save_is_kept():
    group, _, session, deletes = deleted()
    group.undelete(RUN, session, 1)
    assert group.collect(RUN, (session, 1), deletes) == "kept"
    assert group.history(RUN).find(session, 1).deleted is False


def test_only_a_delete_mark_past_its_grace_counts():
    group, _, session, deletes = deleted()
    group.undelete(RUN, session, 1)
    group.delete(RUN, session, 1)
    assert group.collect(RUN, (session, 1), deletes) == "kept", "the mark that stands is a younger one"


def test_what_is_being_collected_cannot_be_undeleted():
    group, targets, session, deletes = deleted()
    with pytest.MonkeyPatch.context() as patch:
        for target in targets:
            patch.setattr(target, "put_if_absent", without_notes(target))
        with pytest.raises(manifests.InDoubt):
            group.collect(RUN, (session, 1), deletes)
    with pytest.raises(manifests.BeingCollected):
        group.undelete(RUN, session, 1)
    assert group.history(RUN).find(session, 1).deleted
    assert group.collect(RUN, (session, 1), deletes) == "collected"


def without_notes(target):
    """A put that loses the notes of what is collected."""
    put = target.put_if_absent

    def lossy(path, data):
        if "/collected/" in path:
            raise manifests.Unavailable("lost", register=target.name, path=path)
        return put(path, data)

    return lossy


def test_what_has_been_collected_is_no_checkpoint_any_more():
    group, _, session, deletes = deleted()
    assert group.collect(RUN, (session, 1), deletes) == "collected"
    with pytest.raises(manifests.NoSuchCheckpoint):
        group.undelete(RUN, session, 1)
    with pytest.raises(manifests.NoSuchCheckpoint):
        group.collect(RUN, (session, 7), deletes)


def test_what_another_collector_ended_counts_as_done():
    group, _, session, deletes = deleted()
    group.collect(RUN, (session, 1), deletes)
    for clear in (False, True):
        if clear:
            group.clear(RUN)
        assert group.collect(RUN, (session, 1), deletes) == "collected"
        assert group.retire(RUN, [(session, 1)]) == {(session, 1): "gone"}


def test_a_save_with_a_tag_is_neither_retired_nor_ended():
    group, _ = new_group()
    session = group.open_session(RUN)
    for ordinal in (1, 2, 3):
        save(group, session, ordinal)
    group.tag(RUN, session, 1, "best")
    one, two = (session, 1), (session, 2)
    assert group.retire(RUN, [one, two]) == {one: "tagged", two: "deleted"}
    assert group.retire(RUN, [two]) == {two: "deleted"}, "by another"
    group.delete(RUN, *one)
    assert group.collect(RUN, one, group.history(RUN).find(*one).deletes) == "kept"
    group.undelete(RUN, *one)
    assert [c.key for c in group.history(RUN).checkpoints] == [one, (session, 3)]
    group.delete(RUN, *one)
    group.untag(RUN, "best")
    assert group.collect(RUN, one, group.history(RUN).find(*one).deletes) == "collected"


def test_a_tagger_is_told_that_the_save_was_deleted():
    group, _ = new_group()
    session = group.open_session(RUN)
    save(group, session, 1)
    group.retire(RUN, [(session, 1)])
    with pytest.raises(manifests.Conflict, match="has not got the tag best: it was deleted meanwhile"):
        group.tag(RUN, session, 1, "best")
    assert group.history(RUN).find(session, 1).tags == ()


def test_a_buried_save_can_never_commit_and_keeps_its_lock():
    group, targets, session, _ = deleted()
    group.begin(RUN, session, 3)
    assert group.bury(RUN, (session, 3)) == "voided"
    group.clear(RUN)
    for target in targets:
        assert any("/manifests/" in path for path in left_of(target, session, 3))
    with pytest.raises(manifests.Voided):
        group.commit(save_manifest(RUN, session, 3))
    history = group.history(RUN)
    assert (history.collected, history.begun) == (((session, 3),), ())


def test_a_save_that_committed_is_not_buried():
    group, _, session, _ = deleted()
    assert group.bury(RUN, (session, 2)) == "saved"
    assert group.history(RUN).latest.key == (session, 2)


def test_a_target_that_was_away_is_cleared_when_it_is_back():
    group, targets, session, deletes = deleted()
    targets[2].down = True
    group.collect(RUN, (session, 1), deletes)
    group.clear(RUN)
    assert len(left_of(targets[2], session)) > 1
    targets[2].down = False
    group.clear(RUN)
    assert left_of(targets[2], session) == paths_under(targets[2], "collected")


def test_a_wiped_target_learns_what_has_ended():
    group, targets, session, deletes = deleted()
    group.collect(RUN, (session, 1), deletes)
    targets[0].wipe()
    group.readmit("a")
    targets[1].down = targets[2].down = True
    assert group.glimpse(RUN).collected == ((session, 1),)


def test_a_save_that_cannot_be_read_for_certain_is_kept():
    group, targets, session, deletes = deleted()
    for target in targets:
        for path in paths_under(target, "marks"):
            target.objects[f"{path}0"] = b"{"
    assert group.collect(RUN, (session, 1), deletes) == "kept"


def misnamed(target, path, name):
    """Let an object of a target have another name."""
    other = f"{path.rpartition('/')[0]}/{name}"
    target.objects[other] = target.objects.pop(path)
    return other


def test_a_misnamed_note_on_one_target_ends_nothing_and_is_removed_by_a_repair():
    group, targets, session, deletes = deleted()
    group.collect(RUN, (session, 1), deletes)
    stray = misnamed(targets[0], paths_under(targets[0], "collected")[0], f"{session}.000002")
    history = group.history(RUN)
    assert [c.ordinal for c in history.checkpoints] == [2]
    assert [(p.save, p.fatal, p.targets) for p in history.problems] == [((session, 2), True, ("a",))]
    healed = group.heal(RUN)
    assert healed.removed == (("a", f"collected/{session}.000002"),)
    assert stray not in targets[0].objects
    assert group.history(RUN, every_copy=True).problems == ()
    assert group.history(RUN).collected == ((session, 1),)


def test_a_note_that_no_target_holds_well_stays_while_one_is_away():
    """It might be a good one there."""
    group, targets, session, deletes = deleted()
    group.collect(RUN, (session, 1), deletes)
    targets[2].down = True
    stray = misnamed(targets[0], paths_under(targets[0], "collected")[0], f"{session}.000002")
    assert group.heal(RUN).removed == ()
    assert stray in targets[0].objects


def test_another_kind_of_note_says_nothing_under_the_name_of_a_save_that_ended():
    group, targets, _, _ = deleted()
    begun = next(path for path in paths_under(targets[0], "begun") if path.endswith("2"))
    targets[0].objects[begun.replace("/begun/", "/collected/")] = targets[0].objects[begun]
    assert [c.ordinal for c in group.history(RUN).checkpoints] == [2]


def test_a_note_that_a_target_lacks_is_missed_and_put_back():
    group, targets, session, deletes = deleted()
    targets[1].down = True
    group.collect(RUN, (session, 1), deletes)
    targets[1].down = False
    group.clear(RUN)
    name = f"collected/{session}.000001"
    missing = [p for p in group.history(RUN, every_copy=True).problems if p.kind == "missing" and p.name == name]
    assert [problem.targets for problem in missing] == [("b",)]
    assert ("b", name) in group.heal(RUN).put
    assert group.history(RUN, every_copy=True).problems == ()


def test_a_mark_under_the_random_part_of_another_is_damaged():
    """An undone delete mark that is copied to a name of its own would delete the checkpoint again."""
    group, targets, session, _ = deleted()
    group.undelete(RUN, session, 1)
    mark = next(p for p in paths_under(targets[0], "marks") if b'"delete"' in targets[0].objects[p])
    targets[0].objects[f"{mark.rpartition('/')[0]}/beef"] = targets[0].objects[mark]
    history = group.history(RUN)
    assert [c.ordinal for c in history.checkpoints] == [1, 2]
    assert [problem.fatal for problem in history.problems] == [True]
    assert len(group.heal(RUN).removed) == 1
    assert group.history(RUN, every_copy=True).problems == ()
