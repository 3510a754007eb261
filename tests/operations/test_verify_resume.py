"""A verify that was interrupted goes on: what was found good isn't looked at again. No other file is touched."""

import fcntl
import json
import time

import pytest
from msgspec.structs import replace

from ckptstore.errors import UsageError
from ckptstore.operations import verify as verify_module
from ckptstore.operations.verify import verify
from ckptstore.operations.verify_runs import verify_runs
from ckptstore.selection import Selector
from manifests import paths
from tests.operations.fleet import SMALL, read_paths, requests, save_into
from tests.support import RUN, LocalStore, make_store


@pytest.fixture
def store(tmp_path) -> LocalStore:
    return make_store(tmp_path, fragment_size=4096, memory=True)


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


@pytest.mark.parametrize(
    "change",
    [{"version": None}, {"targets": "2"}, {"expected": None}, {"checked": -1}, {"window": [0, 0]}, {"begun": "x"}],
)
def test_a_line_that_no_verify_wrote_is_refused(five, tmp_path, change):
    file = tmp_path / "pass"
    interrupt(five, file)
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    line = next(line for line in lines if change.keys() & line.keys())
    line.update(change)
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(UsageError, match="is no file of an unfinished verify"):
        verify(five.opened, RUN, read_data=True, resume=file)


def test_a_file_that_another_verify_has_just_removed_is_not_gone_on_with(five, tmp_path, monkeypatch):
    file = tmp_path / "pass"
    interrupt(five, file)
    lock = fcntl.flock

    def late(*arguments):
        file.unlink()
        lock(*arguments)

    monkeypatch.setattr(fcntl, "flock", late)
    with pytest.raises(UsageError, match="has just ended"):
        verify(five.opened, RUN, read_data=True, resume=file)


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


def test_a_pass_of_last_month_says_nothing_of_today(five, tmp_path):
    file = tmp_path / "pass"
    interrupt(five, file)
    lines = file.read_text().splitlines()
    header = json.loads(lines[0])
    header["begun"] -= 30 * 86400
    file.write_text("\n".join([json.dumps(header), *lines[1:], ""]))
    with pytest.raises(UsageError, match=r"began 30\.0 days ago: remove it"):
        verify(five.opened, RUN, read_data=True, resume=file)
    assert len(file.read_text().splitlines()) == len(lines), "left as it was"


def test_what_an_earlier_part_found_is_told_as_that(five, tmp_path):
    interrupt(five, tmp_path / "pass")
    report = verify(five.opened, RUN, read_data=True, resume=tmp_path / "pass")
    assert [health.earlier for health in report.checkpoints] == [True] * 3 + [False] * 2
