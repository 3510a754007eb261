"""What a verify and a listing found, as events: counted from real stores."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from ckptstore.events import RunListed
from ckptstore.operations.telling import listed, verified
from ckptstore.operations.verify import verify
from tests.support import RUN, make_store, random_bytes

HOUR = datetime(2030, 1, 1, tzinfo=UTC)


@pytest.fixture
def store(tmp_path):
    """With steps 1 to 3."""
    store = make_store(tmp_path)
    for step in (1, 2, 3):
        store.save({"x": random_bytes(200_000, step)}, step=step)
    return store


def test_states_and_findings_are_counted(store):
    for fragment in store.fragments(store.latest())[:3]:
        store.remove(fragment)
    event = verified(RUN, verify(store.opened, RUN), read_data=False)
    assert event.states == {"changed": 0, "good": 2, "degraded": 0, "unknown": 0, "lost": 1}
    assert (event.targets, event.domains) == (-1, -1)
    assert event.findings["missing"] == 3
    assert event.checked == event.expected > 0


def test_the_worst_checkpoint_is_told(store):
    store.remove(store.fragments(store.latest())[0])
    event = verified(RUN, verify(store.opened, RUN), read_data=False)
    assert (event.states["good"], event.states["degraded"], event.targets) == (2, 1, 1)


def history_of(store, minutes, deleted=()):
    """The run's history, as if its checkpoints had been saved so many minutes after the hour; None: at no time."""
    history = store.opened.group.history(RUN)
    saves = [saved_at(save, minute) for save, minute in zip(history.checkpoints, minutes, strict=True)]
    live = tuple(save for number, save in enumerate(saves) if number not in deleted)
    return replace(history, checkpoints=live, deleted=tuple(saves[number] for number in deleted))


def saved_at(save, minute):
    created = "" if minute is None else (HOUR + timedelta(minutes=minute)).isoformat()
    return replace(save, versions=(msgspec.structs.replace(save.versions[0], created=created),))


def test_the_latest_is_told_and_the_usual_interval_is_a_median(store):
    event = listed(history_of(store, (0, 10, 90)))
    manifest = store.latest()
    assert event == RunListed(RUN, HOUR.timestamp() + 90 * 60, 3, manifest.bytes, 45 * 60)


def test_deleted_checkpoints_count_for_the_interval(store):
    assert listed(history_of(store, (0, 10, 20), deleted=[1])).interval == 600
    assert listed(history_of(store, (0, 10, 20))).interval == 600


def test_what_is_no_time_is_left_out(store):
    event = listed(history_of(store, (0, 10, None)))
    assert (event.saved, event.step, event.interval) == (None, 3, 600)


def test_of_one_save_no_interval_is_told(store):
    assert listed(history_of(store, (0, None, None))).interval is None


def test_a_run_without_live_checkpoints_has_no_latest(store):
    assert listed(history_of(store, (0, 1, 2), deleted=[0, 1, 2])) == RunListed(RUN, None, None, None, None)


def test_a_repair_makes_no_checkpoint_newer(tmp_path):
    """Its manifest is a new one: what was on a target that is replaced is told by it."""
    store = make_store(tmp_path, spare="g")
    store.save({"x": random_bytes(200_000, 1)}, step=1)
    before = listed(store.opened.group.history(RUN))
    store.repair(replace={"a": "g"})
    history = store.opened.group.history(RUN)
    (checkpoint,) = history.checkpoints
    assert len(checkpoint.versions) == 2
    assert listed(history) == before
