import pickle
import threading

import pytest
from groups import RUN, new_group, paths_under, save

import manifests
from manifests.founding import init_store
from manifests.group import Group
from manifests.testing import MemoryRegister, save_manifest


def test_one_register_is_enough_for_a_plain_user():
    group, _ = new_group(1, 0)
    session = group.open_session(RUN)
    save(group, session, 1, step=10)
    assert group.history(RUN).latest.manifest.step == 10


def test_a_save_is_on_every_target_that_counts_in_the_same_bytes():
    group, targets = new_group(3, 1)
    session = group.open_session(RUN)
    group.begin(RUN, session, 1)
    committed = group.commit(save_manifest(RUN, session, 1))
    assert committed.held == ("a", "b", "c")
    (path,) = paths_under(targets[0], "manifests")
    copies = {r.objects[p] for r in targets for p in paths_under(r, "manifests")}
    assert len(copies) == 1
    assert group.standings["a"].incarnation in path


@pytest.mark.parametrize("fault", ["lose_before", "lose_after", "refuse_empty"])
def test_o31_a_lost_reply_or_a_spurious_conflict_is_settled_by_reading_back(fault):
    group, targets = new_group(3, 1)
    session = group.open_session(RUN)
    for register in targets:
        setattr(register, fault, 1)
    assert group.commit(save_manifest(RUN, session, 1)).held == ("a", "b", "c")


def test_o31_a_conflict_with_a_foreign_manifest_is_a_conflict():
    group, _ = new_group(3, 1)
    session = group.open_session(RUN)
    group.commit(save_manifest(RUN, session, 1, step=1))
    with pytest.raises(manifests.Conflict) as raised:
        group.commit(save_manifest(RUN, session, 1, step=2))
    assert raised.value.targets == ["a", "b", "c"]
    assert group.history(RUN).latest.manifest.step == 1


def test_committing_the_same_bytes_again_is_success():
    group, _ = new_group(3, 1)
    session = group.open_session(RUN)
    for _ in range(2):
        assert group.commit(save_manifest(RUN, session, 1)).held == ("a", "b", "c")


def test_o32_ten_commits_in_a_row_never_put_one_name_twice():
    group, targets = new_group(3, 1)
    puts: list[str] = []
    for register in targets:
        original = register.put_if_absent

        def counting(path, data, *, original=original, name=register.name):
            puts.append(f"{name}:{path}")
            return original(path, data)

        register.put_if_absent = counting
    session = group.open_session(RUN)
    for ordinal in range(1, 11):
        save(group, session, ordinal)
    assert len(puts) == len(set(puts))
    assert group.history(RUN).latest.ordinal == 10
    assert len(group.history(RUN).checkpoints) == 10


def test_o71_two_processes_that_save_the_same_step_get_one_winner():
    group, targets = new_group(3, 1)
    zombie, restarted = group.open_session(RUN), Group.open(targets).open_session(RUN)
    save(group, restarted, 1, step=100)
    with pytest.raises(manifests.Fenced) as raised:
        group.commit(save_manifest(RUN, zombie, 1, step=100))
    assert raised.value.newest == restarted
    assert [c.session for c in group.history(RUN).checkpoints] == [restarted]


def test_o71_two_writers_of_one_register_at_once_leave_exactly_one_payload():
    group, targets = new_group(3, 1)
    session = group.open_session(RUN)
    outcomes: list[object] = []

    def commit(step: int) -> None:
        try:
            outcomes.append(Group.open(targets).commit(save_manifest(RUN, session, 1, step=step)).manifest.step)
        except manifests.ManifestError as error:
            outcomes.append(error)

    threads = [threading.Thread(target=commit, args=(step,)) for step in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    winners = [outcome for outcome in outcomes if isinstance(outcome, int)]
    losers = [outcome for outcome in outcomes if not isinstance(outcome, int)]
    assert len(winners) == 1
    assert isinstance(losers[0], manifests.Conflict | manifests.InDoubt)
    assert group.history(RUN).latest.manifest.step == winners[0]


def test_o02_two_savers_of_one_step_have_one_winner_where_a_target_has_come_to_drop_conditions():
    """It was tried out when it joined, and is not again at every save: no two savers put under one name anyway."""
    group, targets = new_group(3, 1)
    for register in targets:
        register.conditional = False
    zombie, restarted = group.open_session(RUN), Group.open(targets).open_session(RUN)
    assert zombie != restarted
    outcomes: dict[str, object] = {}

    def commit(session: str) -> None:
        try:
            outcomes[session] = Group.open(targets).commit(save_manifest(RUN, session, 1, step=10)).manifest.session
        except manifests.ManifestError as error:
            outcomes[session] = error

    threads = [threading.Thread(target=commit, args=(session,)) for session in (zombie, restarted)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert isinstance(outcomes[zombie], manifests.Fenced)
    assert outcomes[restarted] == restarted
    assert [c.session for c in group.history(RUN).checkpoints] == [restarted]


def test_o73_a_slow_save_of_an_old_session_never_becomes_latest():
    group, _ = new_group(3, 1)
    old = group.open_session(RUN)
    group.begin(RUN, old, 1)
    new = group.open_session(RUN)
    save(group, new, 1, step=20)
    with pytest.raises(manifests.Fenced):
        group.commit(save_manifest(RUN, old, 1, step=10))
    assert group.history(RUN).latest.manifest.step == 20


def test_o73_order_is_by_beginning_even_when_the_slow_save_slips_through():
    group, _ = new_group(3, 1)
    session = group.open_session(RUN)
    group.begin(RUN, session, 1)
    group.begin(RUN, session, 2)
    group.commit(save_manifest(RUN, session, 2, step=20))
    group.commit(save_manifest(RUN, session, 1, step=10))
    assert group.history(RUN).latest.manifest.step == 20
    group.tag(RUN, session, 1, "best")
    assert group.history(RUN).tags["best"].manifest.step == 10


def test_o06_after_a_roll_back_lower_steps_are_saved_and_latest_is_the_newest_line():
    group, targets = new_group(3, 1)
    session = group.open_session(RUN)
    save(group, session, 1, step=10)
    for register in targets[:2]:
        register.down = True
    with pytest.raises(manifests.NoQuorum):
        group.commit(save_manifest(RUN, session, 2, step=20))
    for register in targets:
        register.down = False
    again = group.open_session(RUN)
    save(group, again, 1, step=12)
    assert group.history(RUN).latest.manifest.step == 12
    save(group, again, 2, step=20)
    assert [c.manifest.step for c in group.history(RUN).checkpoints] == [10, 12, 20]


def test_too_few_targets_fail_before_anything_is_put():
    group, targets = new_group(3, 1)
    session = group.open_session(RUN)
    targets[0].down = targets[1].down = True
    with pytest.raises(manifests.NoQuorum) as raised:
        group.commit(save_manifest(RUN, session, 1))
    assert raised.value.needed == 2
    assert set(raised.value.reasons) == {"a", "b"}
    assert paths_under(targets[2], "manifests") == []


def test_a_commit_that_cannot_be_proved_is_in_doubt_and_is_completed_later():
    group, targets = new_group(3, 1)
    session = group.open_session(RUN)
    for register in targets[1:]:
        register.hold_late = True
    with pytest.raises(manifests.InDoubt):
        group.commit(save_manifest(RUN, session, 1))
    for register in targets[1:]:
        register.hold_late = False
    (seen,) = group.history(RUN).checkpoints
    assert seen.seen_on == ("a",)
    assert not seen.complete
    group.open_session(RUN)
    assert group.history(RUN).latest.complete


def test_a_void_closes_the_register_for_good():
    group, _ = new_group(3, 1)
    session = group.open_session(RUN)
    group.begin(RUN, session, 1)
    assert group.history(RUN).begun == ((session, 1),)
    assert group.void(RUN, session, 1) == "voided"
    history = group.history(RUN)
    assert (history.begun, history.voided, history.latest) == ((), ((session, 1),), None)
    with pytest.raises(manifests.Voided):
        group.commit(save_manifest(RUN, session, 1))


def test_a_void_that_meets_a_save_leaves_it():
    group, _ = new_group(3, 1)
    session = group.open_session(RUN)
    save(group, session, 1)
    assert group.void(RUN, session, 1) == "saved"
    latest = group.history(RUN).latest
    assert latest.key == (session, 1)
    assert latest.complete


def test_a_void_needs_every_member():
    group, targets = new_group(3, 1)
    session = group.open_session(RUN)
    targets[2].down = True
    with pytest.raises(manifests.NoQuorum) as raised:
        group.void(RUN, session, 1)
    assert raised.value.needed == 3


def test_a_save_met_by_voids_on_some_targets_is_still_seen_everywhere():
    """A collector that ended after one target must not hide a save from readers of that target."""
    group, targets = new_group(3, 1)
    session = group.open_session(RUN)
    targets[1].down = targets[2].down = True
    with pytest.raises(manifests.NoQuorum):
        group.void(RUN, session, 1)
    targets[1].down = targets[2].down = False
    targets[1].lose_before = targets[2].lose_before = 10
    with pytest.raises(manifests.InDoubt):
        group.void(RUN, session, 1)
    targets[1].lose_before = targets[2].lose_before = 0
    assert group.commit(save_manifest(RUN, session, 1)).held == ("b", "c")
    checkpoint = group.history(RUN).latest
    assert checkpoint.seen_on == ("b", "c")
    targets[2].down = True
    assert group.history(RUN).latest.key == (session, 1)


def test_sessions_are_numbered_above_all_that_was_seen():
    group, _ = new_group(3, 1)
    sessions = [group.open_session(RUN) for _ in range(3)]
    assert [name.partition(".")[0] for name in sessions] == ["000001", "000002", "000003"]
    assert group.history(RUN).sessions == tuple(sessions)


def test_errors_survive_pickling_with_their_numbers():
    group, targets = new_group(3, 1)
    targets[0].down = targets[1].down = True
    with pytest.raises(manifests.NoQuorum) as raised:
        Group.open(targets).history(RUN)
    error = pickle.loads(pickle.dumps(raised.value))
    assert (error.valid, error.needed, error.reasons) == (1, 2, raised.value.reasons)
    assert group.store_id


class Full(MemoryRegister):
    """Reads, and takes nothing any more; says so."""

    full = False

    def put_if_absent(self, path, data):
        if self.full:
            self.asked = getattr(self, "asked", 0) + 1
            raise manifests.Unavailable(f"{self.name}: full", register=self.name, path=path, final=True)
        return super().put_if_absent(path, data)


def test_votes_that_too_many_refuse_for_good_are_cast_once_and_the_error_says_why():
    targets = [Full(name) for name in "abc"]
    init_store(targets, t=1)
    group = Group.open(targets)
    session = group.open_session(RUN)
    targets[1].full = targets[2].full = True
    with pytest.raises(manifests.InDoubt, match=r"b: full; c: full"):
        group.begin(RUN, session, 1)
    assert targets[1].asked == targets[2].asked == 1
    with pytest.raises(manifests.InDoubt, match=r"b: full; c: full"):
        group.commit(save_manifest(RUN, session, 1))
    assert targets[1].asked == 2


def test_a_full_target_keeps_no_vote_from_the_others():
    targets = [Full(name) for name in "abc"]
    init_store(targets, t=1)
    group = Group.open(targets)
    session = group.open_session(RUN)
    targets[2].full = True
    save(group, session, 1, step=1)
    (name,) = paths_under(targets[1], "manifests")
    del targets[1].objects[name]
    healed = group.heal(RUN)
    assert [target for target, _ in healed.put] == ["b"]
    assert healed.refusals == ("c: full",)
    assert healed.incomplete == ()
    assert len(paths_under(targets[1], "manifests")) == 1
    group.open_session(RUN)


def test_o67_what_a_group_committed_last_is_found_though_it_is_not_listed():
    class Lagging(MemoryRegister):
        lag = False

        def list(self, prefix):
            return [path for path in super().list(prefix) if not (self.lag and "/manifests/" in path)]

    targets = [Lagging(name) for name in "abc"]
    init_store(targets, t=1)
    group = Group.open(targets)
    session = group.open_session(RUN)
    save(group, session, 1, step=1)
    for target in targets:
        target.lag = True
    assert group.history(RUN).latest.manifest.step == 1
    for target in targets:
        for path in paths_under(target, "manifests"):
            del target.objects[path]
    assert group.history(RUN).latest is None
