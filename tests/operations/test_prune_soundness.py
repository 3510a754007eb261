"""A prune looks at what it keeps: nothing goes while the latest is hurt, and what is lost stands for nothing."""

import msgspec
import pytest

from ckptstore.errors import CorruptError, OutOfReach, ToleranceError
from ckptstore.operations import prune_plan
from ckptstore.operations.prune import PruneReport, prune
from ckptstore.retention import Retention
from ckptstore.selection import Selector
from ckptstore.store import Run
from ckptstore.targets.fault import unavailable
from manifests import Manifest
from tests.operations.test_prune import DAY, pass_time, pruned, saved, state, steps
from tests.support import RUN, LocalStore, assert_equal, make_store


@pytest.fixture
def store(tmp_path):
    return make_store(tmp_path)


def hurt(store: LocalStore, manifest: Manifest, fragments: int) -> None:
    """Remove so many of its six fragments: with three gone it is lost."""
    for fragment in store.fragments(manifest)[:fragments]:
        store.remove(fragment)


def told(report: PruneReport) -> dict[int, str]:
    """Why each step is kept; "" where it is deleted."""
    return {c.checkpoint.manifest.step: ", ".join(c.reasons) for c in report.choices}


# -- the latest ----------------------------------------


@pytest.mark.parametrize("dry_run", [True, False])
@pytest.mark.parametrize("read_data", [True, False])
@pytest.mark.parametrize("fragments", [1, 2])
def test_nothing_is_deleted_while_the_latest_waits_for_a_repair(store, fragments, read_data, dry_run):
    *_, latest = saved(store, 1, 2, 3)
    hurt(store, latest, fragments)
    before = store.digest()
    with pytest.raises(ToleranceError, match=r"step-3 of run demo, the latest .*nothing was deleted") as caught:
        pruned(store, keep_last=1, read_data=read_data, dry_run=dry_run)
    assert (caught.value.reached, caught.value.required) == (2 - fragments, 2)
    assert "ckpt repair" in caught.value.hint
    assert store.digest() == before
    store.repair()
    pruned(store, keep_last=1, read_data=read_data)
    assert steps(store) == [3]


def test_a_hurt_record_or_index_of_the_latest_counts_as_well(store):
    saved(store, 1)
    latest, *_ = saved(store, 2)
    index = latest.copies[0].index
    record = store.index(latest).shards[0].record
    for reference in (index, record):
        name = reference.targets[0]
        data = store.raw[name].get(reference.path)
        store.raw[name].delete([reference.path])
        with pytest.raises(ToleranceError, match="nothing was deleted"):
            pruned(store, keep_last=1)
        store.raw[name].put(reference.path, data)
    pruned(store, keep_last=1)
    assert steps(store) == [2]


def test_rot_in_the_latest_is_found_where_every_byte_is_read(store):
    *_, latest = saved(store, 1, 2)
    store.flip(store.fragments(latest)[0])
    with pytest.raises(ToleranceError, match="nothing was deleted"):
        pruned(store, keep_last=1, read_data=True)
    assert steps(store) == [1, 2]


def test_a_small_latest_is_read_back_unasked(store):
    """Rot beyond what the code survives, with every size as it was: a listing sees nothing of it."""
    *_, latest = saved(store, 1, 2)
    for fragment in store.fragments(latest)[:3]:
        store.flip(fragment)
    for dry_run in (True, False):
        with pytest.raises(CorruptError, match="nothing was deleted"):
            pruned(store, keep_last=1, dry_run=dry_run)
    assert steps(store) == [1, 2]


def test_of_a_large_latest_a_part_is_read_and_all_where_that_is_asked_for(store, monkeypatch):
    saved(store, 1, 2, 3)

    def read(**options) -> int:
        for meter in store.meters.values():
            meter.reset()
        pruned(store, keep_last=1, dry_run=True, **options)
        return sum(meter.requests["get_into"] + meter.requests["get"] for meter in store.meters.values())

    whole = read(read_data=True)
    assert read() == whole
    monkeypatch.setattr(prune_plan, "SAMPLE", 0)
    assert read() < whole
    assert read(read_data=True) == whole


def test_settings_can_ask_for_every_byte(store, monkeypatch):
    monkeypatch.setattr(prune_plan, "SAMPLE", 0)
    *_, latest = saved(store, 1, 2)
    store.flip(store.fragments(latest)[0])
    run = Run(msgspec.structs.replace(store.config, retention=Retention(keep_last=1, read_data=True)), RUN)
    with pytest.raises(ToleranceError, match="nothing was deleted"):
        run.prune()
    with pytest.raises(ToleranceError, match="nothing was deleted"):
        run.prune(keep_last=1)
    assert [c.manifest.step for c in Run(store.config, RUN).prune(keep_last=1).deleted] == [1]


def test_a_latest_that_was_saved_onto_fewer_targets_is_as_it_was_saved(tmp_path):
    store = make_store(tmp_path, "abcdefg", code="4+2")
    saved(store, 1)
    store.take_away("c", "d")
    saved(store, 2)
    store.bring_back("c", "d")
    pruned(store, keep_last=1)
    assert steps(store) == [2]


@pytest.mark.parametrize("away", [["c"], ["c", "d"]])
def test_targets_that_are_down_for_the_night_block_no_retention_and_are_named(store, away):
    saved(store, 1, 2, 3)
    store.take_away(*away)
    plan = pruned(store, keep_last=1, dry_run=True)
    report = pruned(store, keep_last=1)
    assert steps(store) == [3]
    assert told(plan) == told(report)
    for each in (plan, report):
        assert any("step-3" in note and " and ".join(away) in note for note in each.notes)


def test_down_and_hurt_at_once_is_hurt(store):
    *_, latest = saved(store, 1, 2)
    gone, *_ = store.fragments(latest)
    store.remove(gone)
    store.take_away(next(name for name in store.raw if name != gone.target))
    with pytest.raises(ToleranceError, match="nothing was deleted"):
        pruned(store, keep_last=1)
    assert steps(store) == [1, 2]


def test_where_what_is_out_of_reach_decides_nothing_is_deleted(store):
    *_, latest = saved(store, 1, 2)
    for fragment in store.fragments(latest)[:3]:
        store.faults[fragment.target].inject("list", "data/*", error=unavailable("down", target=fragment.target))
    before = store.digest()
    with pytest.raises(OutOfReach, match="nothing was deleted"):
        pruned(store, keep_last=1)
    assert store.digest() == before


def test_a_sweep_makes_the_room_that_a_repair_may_need(store):
    _, two, *_ = saved(store, 1, 2)
    pruned(store, keep_last=1)
    pass_time(store, 2 * DAY)
    hurt(store, two, 1)
    with pytest.raises(ToleranceError) as caught:
        pruned(store, keep_last=1)
    assert "--sweep" in caught.value.hint
    assert [c.manifest.step for c in pruned(store, sweep_only=True).ended] == [1]


def test_what_another_prune_removes_meanwhile_is_not_hurt(store):
    """Between reading the history and looking at it, the latest was replaced and collected."""
    saved(store, 1, 2)
    done = []

    def once(verb, path, operation):
        if verb == "get" and "/index/" in path and not done:
            done.append(path)
            saved(store, 3)
            prune(store.opened, RUN, Retention(keep_last=1, grace="0"))
        return operation()

    for fault in store.faults.values():
        fault.call = once
    pruned(store, keep_last=1, grace="0")
    assert steps(store) == [3]


# -- the others ----------------------------------------


@pytest.mark.parametrize("dry_run", [True, False])
def test_what_is_lost_does_not_count_and_the_next_older_takes_its_place(store, dry_run):
    manifests = saved(store, 1, 2, 3, 4)
    hurt(store, manifests[2], 3)
    report = pruned(store, keep_last=2, dry_run=dry_run)
    assert {step: bool(why) for step, why in told(report).items()} == {1: False, 2: True, 3: True, 4: True}
    assert "lost" in told(report)[3]
    assert "last 2" not in told(report)[3]
    assert any("step-3" in note for note in report.notes)
    assert steps(store) == ([1, 2, 3, 4] if dry_run else [2, 3, 4])
    assert_equal(store.load(Selector(step=2)), state(2))


def test_one_that_is_lost_too_makes_room_for_one_still_older(store):
    manifests = saved(store, 1, 2, 3, 4, 5)
    for manifest in manifests[2:4]:
        hurt(store, manifest, 3)
    pruned(store, keep_last=2)
    assert steps(store) == [2, 3, 4, 5]


@pytest.mark.parametrize("what", ["index", "record"])
def test_one_whose_documents_are_gone_is_lost(store, what):
    manifests = saved(store, 1, 2, 3)
    index = manifests[1].copies[0].index
    reference = index if what == "index" else store.index(manifests[1]).shards[0].record
    for name in reference.targets:
        store.raw[name].delete([reference.path])
    report = pruned(store, keep_last=2)
    assert "lost" in told(report)[2]
    assert steps(store) == [1, 2, 3]


def test_what_is_only_out_of_reach_counts_and_is_told(store):
    manifests = saved(store, 1, 2, 3)
    shard = store.record(manifests[1]).shard_id
    for fragment in store.fragments(manifests[1])[:3]:
        store.faults[fragment.target].inject("list", f"*{shard}*", error=unavailable("down", target=fragment.target))
    report = pruned(store, keep_last=2)
    assert [step for step, why in told(report).items() if why] == [2, 3]
    assert any("step-2" in note for note in report.notes)


def test_looking_at_what_is_kept_costs_a_few_requests_and_only_where_something_goes(store):
    saved(store, 1, 2, 3, 4)

    def requests(**rules):
        for meter in store.meters.values():
            meter.reset()
        pruned(store, dry_run=True, **rules)
        return sum(sum(meter.requests.values()) for meter in store.meters.values())

    nothing, one, two = requests(keep_last=4), requests(keep_last=1), requests(keep_last=2)
    assert two - one <= 8, "one index, one record, one listing a target"
    assert requests(keep_last=3) - two <= 8
    assert nothing < one
