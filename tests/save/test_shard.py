"""A shard on its way out: what is stored, what a failing target costs, and what is refused."""

import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open

from ckptstore.errors import NoSpace, ToleranceError
from ckptstore.events import Progress, TargetFailed
from ckptstore.save.fill import Sources
from ckptstore.save.stream import Piece
from ckptstore.targets import posix
from ckptstore.targets.fault import unavailable
from manifests import paths
from tests.support import RUN, Listener, LocalStore, assert_equal, flat_bytes, make_store, random_bytes

ARRAYS = {"w": random_bytes(1_000_000).view(np.float32).reshape(500, 500), "b": random_bytes(77, 1)}


@pytest.fixture
def store(tmp_path) -> LocalStore:
    return make_store(tmp_path)


def puts(store: LocalStore) -> int:
    return sum(meter.requests["put"] + meter.requests["put_if_absent"] for meter in store.meters.values())


def live(store: LocalStore) -> int:
    return len(store.opened.group.history(RUN).checkpoints)


def test_the_data_fragments_put_together_by_cat_are_a_safetensors_file(store, tmp_path):
    manifest = store.save(ARRAYS)
    record = store.record(manifest)
    names = [
        str(tmp_path / f.target / f.path)
        for f in sorted(store.fragments(manifest), key=lambda f: (f.stripe, f.number))
        if f.number < 4
    ]
    file = tmp_path / "out.safetensors"
    with file.open("wb") as out:
        subprocess.run(["cat", *names], stdout=out, check=True)
    assert file.stat().st_size == record.length
    with safe_open(file, "np") as opened:
        assert_equal({name: opened.get_tensor(name) for name in opened.keys()}, ARRAYS)  # noqa: SIM118 - no mapping


def test_docs_rebuild_reads_what_was_really_saved(store, tmp_path):
    manifest = store.save({"w": random_bytes(20_000), "b": random_bytes(77, 1)})
    expected = b"".join(
        store.read(f) for f in sorted(store.fragments(manifest), key=lambda f: (f.stripe, f.number)) if f.number < 4
    )
    lost = store.homes(manifest)[0][:2]
    for name in lost:
        shutil.rmtree(tmp_path / name)
    script = Path(__file__).parents[2] / "docs" / "rebuild.py"
    record = store.index(manifest).shards[0].record.path
    command = [sys.executable, "-I", str(script), record, str(tmp_path / "out"), *(str(tmp_path / n) for n in "abcdef")]
    subprocess.run(command, check=True, capture_output=True)
    assert (tmp_path / "out").read_bytes() == expected


def test_names_of_tensors_form_no_object_names(store):
    store.save({"../../etc/passwd": random_bytes(9), "layer.0/w?": random_bytes(9)})
    assert not [path for _, path in store.objects() if "etc" in path or "layer" in path]


def test_two_saves_of_one_step_share_no_object(store):
    first, second = store.save(ARRAYS, step=1), store.save(ARRAYS, step=1)
    assert {f.path for f in store.fragments(first)}.isdisjoint({f.path for f in store.fragments(second)})
    assert live(store) == 2


def test_o75_bytes_sent_are_the_code_s_and_little_more(tmp_path):
    store = make_store(tmp_path, memory=True, fragment_size="1MiB")
    arrays = {"w": random_bytes(8 << 20)}
    for meter in store.meters.values():
        meter.reset()
    store.save(arrays)
    sent = sum(meter.bytes_written for meter in store.meters.values())
    assert sent <= (8 << 20) * 6 / 4 * 1.05


def test_progress_adds_up_to_the_stream(store):
    listener = Listener()
    manifest = store.save(ARRAYS, observer=listener)
    told = list(listener.of(Progress))
    assert sum(event.done for event in told) == told[0].total == store.record(manifest).length


def test_the_window_bounds_what_is_held(tmp_path):
    store = make_store(tmp_path, memory=True, window=2 * 6 * (64 << 10))
    peak, take = [], store.opened.buffers._take
    store.opened.buffers._take = lambda size: (peak.append(store.opened.buffers._lent + size), take(size))[1]
    store.save(ARRAYS)
    assert len(peak) == len(store.record(store.latest()).stripes)
    assert max(peak) <= store.config.window_bytes


# -- targets that fail ----------------------------------------


def test_a_target_that_fails_in_the_middle_costs_its_fragments_only(store):
    store.faults["c"].inject("put", "data/*", error=unavailable("the disk sulks", target="c"), skip=1)
    listener = Listener()
    manifest = store.save(ARRAYS, step=1, observer=listener)
    stripes = len(store.record(manifest).stripes)
    assert stripes > 2
    assert [(missing.target, missing.fragments) for missing in manifest.missing] == [("c", stripes - 1)]
    assert (manifest.tolerance.targets, manifest.planned.targets) == (1, 2)
    assert [event.target for event in listener.of(TargetFailed)] == ["c"]
    assert_equal(store.load(), ARRAYS)
    store.take_away("a")
    assert_equal(store.load(), ARRAYS)


def test_it_is_asked_no_more_once_it_failed(tmp_path):
    store = make_store(tmp_path, window=6 * (64 << 10))
    fault = store.faults["c"].inject("put", "data/*", error=NoSpace("full", target="c"))
    manifest = store.save(ARRAYS)
    assert fault.hits == 1
    assert manifest.missing[0].fragments == len(store.record(manifest).stripes)


def test_o19_below_what_is_required_nothing_is_put(tmp_path):
    store = make_store(tmp_path, require_tolerance=2)
    before = store.digest(), puts(store)
    store.take_away("a")
    with pytest.raises(ToleranceError, match="5 of 6 targets are writable") as caught:
        store.save(ARRAYS)
    assert (caught.value.reached, caught.value.required) == (1, 2)
    store.bring_back("a")
    assert (store.digest(), puts(store)) == before


def test_o19_with_targets_down_fragments_double_up_and_the_tolerance_falls(store):
    store.take_away("a", "b")
    manifest = store.save(ARRAYS)
    assert (manifest.tolerance.targets, manifest.planned.targets) == (1, 2)
    assert all(sorted(map(row.count, set(row))) == [1, 1, 2, 2] for row in store.homes(manifest))
    store.take_away("c")
    store.bring_back("a", "b")
    assert_equal(store.load(), ARRAYS)


def test_too_many_that_fail_late_end_the_save_and_commit_nothing(store):
    for name in "bc":
        store.faults[name].inject("put", "data/*", error=unavailable("down", target=name), skip=1)
    with pytest.raises(ToleranceError, match="survives the loss of 0 targets, 1 required") as caught:
        store.save(ARRAYS)
    assert caught.value.reached == 0
    assert "down" in caught.value.message
    assert live(store) == 0
    store.heal()
    assert_equal(_saved_again(store), ARRAYS)


def _saved_again(store: LocalStore) -> dict:
    store.save(ARRAYS)
    return store.load()


@pytest.mark.parametrize("what", ["runs/*/shards/*", "runs/*/index/*"])
def test_a_record_or_index_with_too_few_copies_is_refused(store, what):
    """They are as needed as the data: on one target only, the checkpoint would not survive its loss."""
    for name in "abcde":
        store.faults[name].inject("put", what, error=NoSpace("full", target=name))
    with pytest.raises(ToleranceError):
        store.save(ARRAYS)
    assert live(store) == 0


def test_copies_go_to_other_targets_where_one_fails(store):
    for name in "abc":
        store.faults[name].inject("put", "runs/*", error=NoSpace("full", target=name))
    manifest = store.save(ARRAYS)
    assert manifest.tolerance.targets == 2
    assert sorted(store.index(manifest).shards[0].record.targets) == ["d", "e", "f"]


def test_an_error_of_ours_in_a_put_is_not_taken_for_a_failing_target(store):
    store.faults["a"].put = lambda path, data: {}["bug"]
    with pytest.raises(KeyError, match="bug"):
        store.save(ARRAYS)
    assert store.opened.buffers._lent == 0
    assert live(store) == 0


# -- nothing outlives the call ----------------------------------------


class Running:
    """Counts puts under way."""

    def __init__(self, store: LocalStore, seconds: float) -> None:
        self.count, self.most, self._lock = 0, 0, threading.Lock()
        for target in store.faults.values():
            target.put = self._slow(target.put, seconds)

    def _slow(self, put, seconds: float):
        def slow(path, data):
            with self._lock:
                self.count += 1
                self.most = max(self.most, self.count)
            try:
                time.sleep(seconds)
                return put(path, data)
            finally:
                with self._lock:
                    self.count -= 1

        return slow


@pytest.mark.parametrize("failing", ["tolerance", "source"])
def test_no_put_outlives_the_call_and_no_buffer_stays_lent(store, failing):
    running, sources = Running(store, 0.03), flat_bytes
    if failing == "tolerance":
        for name in "bc":
            store.faults[name].inject("put", "data/*", error=unavailable("down", target=name), skip=1)
    else:
        sources = breaking(flat_bytes)
    with pytest.raises((ToleranceError, RuntimeError)):
        store.save(ARRAYS, sources=sources)
    assert running.count == 0
    assert running.most > 1
    assert store.opened.buffers._lent == 0
    assert live(store) == 0


def breaking(sources: Sources) -> Sources:
    """Sources whose second piece can't be had."""
    asked = []

    def source(piece: Piece) -> np.ndarray:
        asked.append(piece)
        if len(asked) == 2:
            raise RuntimeError("the GPU fell off the bus")
        return sources(piece)

    return source


def test_a_buffer_is_not_written_to_while_it_is_being_put(tmp_path):
    """With a window of one stripe and slow targets, every stripe must be on its way before the next is filled."""
    store = make_store(tmp_path, window=6 * (64 << 10))
    Running(store, 0.005)
    store.save(ARRAYS)
    assert_equal(store.load(), ARRAYS)
    assert store.verify(read_data=True).state == "good"


# -- short writes ----------------------------------------


def test_o38_a_write_that_takes_few_bytes_at_a_time(store, monkeypatch):
    write = os.write
    monkeypatch.setattr(posix.os, "write", lambda file, data: write(file, memoryview(data)[:1000]))
    manifest = store.save({"w": random_bytes(300_000)})
    assert_equal(store.load(), {"w": random_bytes(300_000)})
    assert store.verify(read_data=True).state == "good"
    sizes = {len(store.read(fragment)) for fragment in store.fragments(manifest)}
    assert max(sizes) > 1000


def test_fragments_carry_the_hashed_prefix(store):
    manifest = store.save(ARRAYS)
    shard = store.record(manifest).shard_id
    assert {f.path.rpartition("/")[0] + "/" for f in store.fragments(manifest)} == {paths.shard_data_prefix(RUN, shard)}
