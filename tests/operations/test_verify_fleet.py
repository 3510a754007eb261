"""Verify over many checkpoints and runs: few requests, little CPU, and one that is interrupted goes on."""

import json
import time
from collections import Counter

import pytest
from msgspec.structs import replace

from ckptstore.commit import About, Commit, shard_saver
from ckptstore.errors import AccessDenied, UsageError
from ckptstore.operations import verify as verify_module
from ckptstore.operations.verify import verify
from ckptstore.operations.verify_runs import verify_runs
from ckptstore.save.stream import lay_out
from ckptstore.selection import Selector
from ckptstore.store import Store
from manifests import TableBuilder, paths
from tests.support import RUN, LocalStore, flat_bytes, make_store, pieces_of, random_bytes

SMALL = {"w": random_bytes(20_000)}


@pytest.fixture
def store(tmp_path) -> LocalStore:
    return make_store(tmp_path, fragment_size=4096, memory=True)


def save_into(store: LocalStore, run: str, step: int = 1) -> None:
    """A checkpoint of another run."""
    places = store.opened.ready_to_save()
    commit = Commit(store.opened, run, places)
    commit.begin()
    pieces, table = pieces_of(SMALL), TableBuilder()
    saved = shard_saver(store.opened, run, places, lambda _: None).save(lay_out(pieces), flat_bytes, 0)
    for piece in pieces:
        table.add(piece.fqn, piece.dtype, piece.shape, [(piece.range, piece.shape, 0)])
    commit.finish([saved], table.build(), About(f"step-{step}", f"step-{step}", step, 1))


def requests(store: LocalStore) -> Counter:
    found: Counter = Counter()
    for meter in store.meters.values():
        found.update(meter.requests)
        meter.reset()
    return found


def read_paths(store: LocalStore) -> set[str]:
    """The fragments that were read since the last time."""
    found = {path for meter in store.meters.values() for verb, path in meter.paths if verb == "get_into"}
    requests(store)
    return found


# -- how much is asked ----------------------------------------


def cost(tmp_path, count: int, *, damage: bool = False) -> tuple[Counter, float]:
    store = make_store(tmp_path / f"{count}", fragment_size="256KiB")
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
    five, ten = (cost(tmp_path, count, damage=damage)[0] for count in (5, 10))
    looked = 2 if damage else 1  # at the votes
    assert ten["list"] - five["list"] == 5 * len("abcdef"), "one listing a target and shard"
    assert ten["get"] - five["get"] == 5 * (2 * looked * len("abcdef") + 2 * (3 + 1)), "votes, copies of documents"
    assert ten.keys() <= {"list", "get", "list_folders"}, "nothing is written"


@pytest.mark.parametrize("damage", [False, True])
def test_forty_checkpoints_verify_in_little_cpu(tmp_path, damage):
    """A fifth of the two hundred below; 0.2 s of CPU where this was written."""
    assert cost(tmp_path, 40, damage=damage)[1] < 2.0


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


# -- resuming ----------------------------------------


class Interrupted(Exception):
    """Stands for Ctrl-C."""


def after(count: int):
    """An observer that interrupts when so many checkpoints are through."""
    left = [count]

    def observe(_event):
        left[0] -= 1
        if left[0] == 0:
            raise Interrupted

    return observe


@pytest.fixture
def five(store) -> LocalStore:
    for step in range(5):
        store.save(SMALL, step=step)
    return store


def interrupt(store: LocalStore, file, **options) -> None:
    with pytest.raises(Interrupted):
        verify(store.opened, RUN, read_data=True, resume=file, observer=after(3), **options)
    time.sleep(0.1)  # what was under way comes to its end
    requests(store)


def test_what_was_found_good_is_not_looked_at_again(five, tmp_path):
    file = tmp_path / "pass"
    whole = verify(five.opened, RUN, read_data=True)
    every = read_paths(five)
    interrupt(five, file)
    assert [json.loads(line)["key"] for line in file.read_text().splitlines()[1:]] == [
        health.key for health in whole.checkpoints[:3]
    ]
    report = verify(five.opened, RUN, read_data=True, resume=file)
    assert len(read_paths(five)) == len(every) * 2 / 5
    assert report.exit_code == 0
    assert report.counts == whole.counts
    assert [(h.key, h.state, h.tolerance) for h in report.checkpoints] == [
        (h.key, h.state, h.tolerance) for h in whole.checkpoints
    ]
    assert not file.exists(), "the pass is through"


def test_what_was_amiss_or_has_changed_is_looked_at_again(five, tmp_path):
    file = tmp_path / "pass"
    keys = [health.key for health in verify(five.opened, RUN).checkpoints]
    first = five.opened.group.history(RUN).checkpoints[0].manifest
    second = five.opened.group.history(RUN).checkpoints[1].manifest
    five.flip(five.fragment(first, 0))
    interrupt(five, file)
    assert keys[0] not in file.read_text()
    assert keys[1] in file.read_text()
    for name in "ab":  # a vote of the second is damaged since
        standing = five.opened.group.standings[name].incarnation
        prefix = paths.commit_prefix(RUN, standing)
        path = prefix + paths.manifest_name(second.session, second.ordinal, version=1)
        five.raw[name].put(path, b"{}")
    report = verify(five.opened, RUN, read_data=True, resume=file)
    assert [health.state for health in report.checkpoints] == ["degraded", "degraded", "good", "good", "good"]


def test_a_new_version_is_looked_at(five, tmp_path):
    file = tmp_path / "pass"
    interrupt(five, file)
    first = five.opened.group.history(RUN).checkpoints[0].manifest
    for fragment in five.fragments(first)[:1]:
        five.flip(fragment)
    data = next(bytes(five.raw[n].get(first.copies[0].index.path)) for n in first.copies[0].index.targets)
    path = paths.index(RUN, paths.new_token())
    for name in first.copies[0].index.targets:
        five.raw[name].put(path, data)
    copies = [replace(first.copies[0], index=replace(first.copies[0].index, path=path))]
    five.opened.group.supersede(replace(first, kind="repair", copies=copies))
    assert verify(five.opened, RUN, read_data=True, resume=file).checkpoints[0].state == "degraded"


def test_a_pass_goes_on_with_the_part_that_it_began_with(five, tmp_path, monkeypatch):
    file = tmp_path / "pass"
    monkeypatch.setattr(verify_module, "today", lambda: 738_500)
    verify(five.opened, RUN, read_data=True, subset="50%")
    that_day = read_paths(five)
    interrupt(five, file, subset="50%")
    monkeypatch.setattr(verify_module, "today", lambda: 738_501)
    verify(five.opened, RUN, read_data=True, subset="50%", resume=file)
    assert read_paths(five) <= that_day


def test_all_runs_are_resumed(store, tmp_path):
    file = tmp_path / "pass"
    for run in ("one", "two"):
        save_into(store, run)
    with pytest.raises(Interrupted):
        verify_runs(store.opened, read_data=True, resume=file, observer=after(1))
    requests(store)
    assert verify_runs(store.opened, read_data=True, resume=file).exit_code == 0
    assert {path.split("/")[2] for path in read_paths(store)} == {"two"}
    assert not file.exists()


@pytest.mark.parametrize(
    "other",
    [
        {"read_data": True, "subset": "10%"},
        {"read_data": False},
        {"read_data": True, "selector": Selector(step=1)},
        {"read_data": True, "run": "other"},
        {"read_data": True, "store": True},
    ],
)
def test_the_file_of_another_pass_is_refused(five, tmp_path, other):
    file = tmp_path / "pass"
    interrupt(five, file)
    before = file.read_bytes()
    store = make_store(tmp_path / "other", memory=True) if other.pop("store", False) else five
    run = other.pop("run", RUN)
    save_into(store, run)
    with pytest.raises(UsageError, match=r"resume: .*pass is of another pass: its"):
        verify(store.opened, run, resume=file, **other)
    assert file.read_bytes() == before


@pytest.mark.parametrize(
    "data", [b"name = 'store'\n", b"half a line", b"{}\n", b"[1]\n", b'{"ckpt": "other"}\n', b"\xff\n"]
)
def test_a_file_of_something_else_is_left_as_it_is(five, tmp_path, data):
    file = tmp_path / "store.toml"
    file.write_bytes(data)
    with pytest.raises(UsageError, match=r"resume: .*store.toml is no file of an unfinished verify"):
        verify(five.opened, RUN, resume=file)
    assert file.read_bytes() == data


def test_half_a_line_of_a_killed_pass_is_cut_off(five, tmp_path):
    file = tmp_path / "pass"
    interrupt(five, file)
    whole = file.read_bytes()
    file.write_bytes(whole[:-7])
    with pytest.raises(Interrupted):
        verify(five.opened, RUN, read_data=True, resume=file, observer=after(4))
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert len({line["key"] for line in lines[1:]}) == len(lines[1:]) == 4


def test_a_file_in_use_is_refused(five, tmp_path):
    file = tmp_path / "pass"

    def look(_event):
        with pytest.raises(UsageError, match="in use"):
            verify(five.opened, RUN, resume=file)

    assert verify(five.opened, RUN, resume=file, observer=look).exit_code == 0


def test_a_closed_limit_is_not_mistaken_for_a_finding(five):
    """An interrupted pass ends what waits; nobody is told that targets failed."""
    with pytest.raises(Interrupted):
        verify(five.opened, RUN, read_data=True, limit_rate=10**5, observer=after(1))
    assert verify(five.opened, RUN, read_data=True).exit_code == 0
