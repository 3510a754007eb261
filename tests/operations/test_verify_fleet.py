"""Verify over many checkpoints and runs: few requests, little CPU, parts of the data, all runs, limits."""

import time
from collections import Counter

import pytest

from ckptstore.errors import AccessDenied, StoreClosed, UsageError
from ckptstore.operations import survey as survey_module
from ckptstore.operations import verify as verify_module
from ckptstore.operations import verify_runs as runs_module
from ckptstore.operations.verify import read_votes, verify
from ckptstore.operations.verify_runs import verify_runs
from ckptstore.store import Store
from ckptstore.targets.fault import unavailable
from manifests import paths
from tests.operations.fleet import SMALL, read_paths, requests, save_into
from tests.support import RUN, LocalStore, make_store, random_bytes


@pytest.fixture
def store(tmp_path) -> LocalStore:
    return make_store(tmp_path, fragment_size=4096, memory=True)


# -- how much is asked ----------------------------------------


def cost(tmp_path, count: int, *, damage: bool = False, memory: bool = False) -> tuple[Counter, float]:
    store = make_store(tmp_path / f"{count}", fragment_size="256KiB", memory=memory)
    for step in range(count):
        manifest = store.save(SMALL, step=step)
        if damage:
            store.remove(store.fragment(manifest, step % 5))
    requests(store)
    begun = time.process_time()
    assert verify(store.opened, RUN).exit_code == (3 if damage else 0)
    return requests(store), time.process_time() - begun


@pytest.mark.parametrize("damage", [False, True])
def test_requests_grow_with_checkpoints_targets_and_shards_only(tmp_path, damage):
    """Also where something is amiss with each of them: that is when votes are read again, once for all."""
    five, ten = (cost(tmp_path, count, damage=damage, memory=True)[0] for count in (5, 10))
    looked = 2 if damage else 1  # at the votes
    assert ten["list"] - five["list"] == 5 * len("abcdef"), "one listing a target and shard"
    assert ten["get"] - five["get"] == 5 * (2 * looked * len("abcdef") + 2 * (3 + 1)), "votes, copies of documents"
    assert ten.keys() <= {"list", "get", "list_folders"}, "nothing is written"


@pytest.mark.parametrize("damage", [pytest.param(False, marks=pytest.mark.soak), True])
def test_many_checkpoints_verify_in_little_cpu(tmp_path, damage):
    """An eighth of the two hundred below, in an eighth of the time; 0.2 s of CPU where this was written."""
    assert cost(tmp_path, 25, damage=damage)[1] < 1.25


@pytest.mark.soak
@pytest.mark.parametrize("damage", [False, True])
def test_two_hundred_checkpoints_verify_in_under_ten_seconds(tmp_path, damage):
    store = make_store(tmp_path, fragment_size="256KiB")
    for step in range(200):
        manifest = store.save({"w": random_bytes(1 << 20, step)}, step=step)
        if damage:
            store.remove(store.fragment(manifest, step % 6))
    begun = time.process_time()
    report = verify(store.opened, RUN)
    assert time.process_time() - begun < 10.0
    assert len(report.checkpoints) == 200
    assert report.exit_code == (3 if damage else 0)


# -- parts of the data ----------------------------------------


def test_parts_read_everything_once(store):
    store.save({"w": random_bytes(50 * 4 * 4096)})
    parts = [(verify(store.opened, RUN, read_data=True, subset=f"{i}/7"), read_paths(store))[1] for i in range(1, 8)]
    everything = {fragment.path for fragment in store.fragments(store.latest())}
    assert set().union(*parts) == everything
    assert sum(map(len, parts)) == len(everything)


@pytest.mark.parametrize(("subset", "days"), [("30%", 4), (0.3, 4), ("100KiB", 13), ("1GiB", 1)])
def test_days_read_everything(store, monkeypatch, subset, days):
    """800 KiB and what is around them, stored as 1.2 MiB."""
    store.save({"w": random_bytes(50 * 4 * 4096)})
    found: list[set[str]] = []
    for day in range(738_500, 738_500 + days):
        monkeypatch.setattr(verify_module, "today", lambda day=day: day)
        requests(store)
        verify(store.opened, RUN, read_data=True, subset=subset)
        found.append(read_paths(store))
    everything = {fragment.path for fragment in store.fragments(store.latest())}
    assert set().union(*found) == everything
    assert days == 1 or max(map(len, found)) < len(everything)


# -- all runs ----------------------------------------


def test_all_runs_in_one_report(store):
    for run in ("one", "two"):
        save_into(store, run)
    save_into(store, "two", step=2)
    report = verify_runs(store.opened, read_data=True)
    assert {run: len(found.checkpoints) for run, found in report.runs.items()} == {"one": 1, "two": 2}
    assert (report.exit_code, report.failed, report.empty) == (0, {}, [])
    each = [verify(store.opened, run).counts for run in ("one", "two")]
    assert report.counts.expected == report.counts.checked == sum(counts.expected for counts in each)


def test_a_run_that_cannot_be_read_does_not_stop_the_others(store):
    for run in ("one", "three", "two"):
        save_into(store, run)
    for name in "abcdef":
        store.faults[name].inject("list", f"{paths.RUNS}three/*", error=AccessDenied("refused", target=name))
    for name in "abcdef":
        store.raw[name].delete([entry.path for entry in store.raw[name].list(f"{paths.RUNS}two/shards/")])
    report = verify_runs(store.opened)
    assert report.exit_code == 4, "what is lost is worse than what can't be told"
    assert report.runs["one"].exit_code == 0
    assert isinstance(report.failed["three"], AccessDenied)


def test_a_run_that_holds_nothing_is_no_failure(store):
    store.opened.group.open_session("empty")
    assert verify_runs(store.opened).exit_code == 10
    save_into(store, "one")
    report = verify_runs(store.opened)
    assert (report.exit_code, report.empty) == (0, ["empty"])


def test_the_store_of_the_python_api_verifies_all_runs(tmp_path):
    store = make_store(tmp_path)
    save_into(store, "one")
    with Store(store.config) as opened:
        assert opened.verify(read_data=True, subset="50%", jobs=2).exit_code == 0


# -- limits ----------------------------------------


def test_a_rate_slows_reading_down(store):
    store.save({"w": random_bytes(200_000)}, step=1)
    begun = time.monotonic()
    assert verify(store.opened, RUN, read_data=True, limit_rate=1_000_000).exit_code == 0
    assert time.monotonic() - begun > 0.25, "300 kB and what describes them"
    assert verify(store.opened, RUN, read_data=True).exit_code == 0, "the store as it was, without a limit"


@pytest.mark.parametrize("jobs", [1, 3, 64])
def test_no_more_requests_at_once_than_jobs(store, jobs):
    for step in range(4):
        store.save(SMALL, step=step)
    at_once: list[int] = []
    running: list[None] = []
    for fault in store.faults.values():
        fault.call = counted(fault.call, at_once, running)
    assert verify(store.opened, RUN, read_data=True, jobs=jobs).exit_code == 0
    assert 1 <= max(at_once) <= jobs


def counted(call, at_once: list[int], running: list[None]):
    def wrapped(*arguments):
        running.append(None)
        at_once.append(len(running))
        time.sleep(0.0005)
        try:
            return call(*arguments)
        finally:
            running.pop()

    return wrapped


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"limit_rate": 0}, "limit_rate"),
        ({"limit_rate": "10MiB"}, "limit_rate"),
        ({"limit_rate": float("inf")}, "limit_rate"),
        ({"jobs": 0}, "jobs"),
        ({"jobs": 2.0}, "jobs"),
        ({"jobs": True}, "jobs"),
        ({"subset": "3/7"}, "read_data"),
        ({"resume": 7}, "resume"),
    ],
)
def test_limits_that_are_none_are_refused(store, options, named):
    store.save(SMALL, step=1)
    with pytest.raises(UsageError, match=named):
        verify(store.opened, RUN, **options)
    with pytest.raises(UsageError, match=named):
        verify_runs(store.opened, **options)


def test_a_target_that_is_back_for_the_next_run_was_not_heard_for_this_one(store, monkeypatch):
    """All histories are read before anything is looked at: the standings are those of the last one then."""
    for run in ("aaa", "bbb"):
        save_into(store, run)

    def read(opened, run):
        if run == "aaa":
            store.faults["c"].inject(error=unavailable("down", target="c"))
        try:
            return read_votes(opened, run)
        finally:
            store.heal()

    monkeypatch.setattr(runs_module, "read_votes", read)
    report = verify_runs(store.opened)
    (health,) = report.runs["aaa"].checkpoints
    assert (health.state, report.exit_code) == ("degraded", 3)
    assert [(f.kind, f.what, f.target) for f in health.findings] == [("unreachable", "manifest", "c")]
    assert report.runs["bbb"].exit_code == 0


def test_threads_that_were_stopped_cost_no_window(store, monkeypatch):
    store.save({"w": random_bytes(100_000)}, step=1)
    monkeypatch.setattr(store.opened.executor, "submit", stopped(store.opened.executor.submit))
    with pytest.raises(StoreClosed, match="stopped"):
        verify(store.opened, RUN, read_data=True)
    assert store.opened.buffers._lent == 0


def stopped(submit):
    """The executor, which takes no more reading of blocks."""

    def refusing(function, *arguments, **named):
        if function is survey_module._bad_rows:
            raise StoreClosed("stopped")
        return submit(function, *arguments, **named)

    return refusing
