"""Prunes and what else is done to a run at the same time: a tag, another prune."""

import threading

import pytest

from ckptstore.errors import NotFoundError
from ckptstore.operations.prune import prune
from ckptstore.retention import Retention
from ckptstore.selection import Selector
from ckptstore.store import Run
from manifests import paths
from tests.operations.test_prune import DAY, data_and_documents, delete, pass_time, pruned, saved, state, steps, tag
from tests.support import RUN, LocalStore, assert_equal, make_store, read_all, reopen


@pytest.fixture
def store(tmp_path):
    return make_store(tmp_path)


def on_first(store: LocalStore, verb: str, part: str, act, skipped: int = 0) -> None:
    """Do something right before the first request of that kind, or, of those, after some are `skipped`.

    Others of its kind, on any target, wait till it is done.
    """
    asked_for, turn = [], threading.Lock()

    def call(asked, path, operation):
        if asked == verb and part in path:
            with turn:
                asked_for.append(path)
                if len(asked_for) == skipped + 1:
                    act()
        return operation()

    for fault in store.faults.values():
        fault.call = call


@pytest.mark.parametrize(
    ("verb", "part"), [("get", "/index/"), ("put_if_absent", "/marks/")], ids=["after the plan", "as the mark is put"]
)
def test_a_tag_that_is_put_while_a_prune_runs_wins(store, verb, part):
    one, _ = saved(store, 1, 2)
    beside = reopen(store.root, store.config)
    on_first(store, verb, part, lambda: tag(beside, one, "best"))
    report = pruned(store, keep_last=1, grace="0")
    assert steps(store) == [1, 2]
    assert {c.checkpoint.manifest.step: c.reasons for c in report.choices}[1] == ("it got a tag meanwhile",)
    assert (report.deleted, report.ended, report.exit_code) == ([], [], 0)
    assert store.opened.group.history(RUN).tags["best"].key == (one.session, one.ordinal)
    assert_equal(read_all(store.source(Selector(step=1))), state(1))


def test_what_was_deleted_with_its_tag_keeps_its_data_till_the_tag_is_taken(store):
    one, _ = saved(store, 1, 2)
    tag(store, one, "best")
    delete(store, one)
    pass_time(store, 2 * DAY)
    run = Run(store.config, RUN)
    kept = data_and_documents(store)
    (waiting,) = pruned(store, sweep_only=True).waiting
    assert (waiting.checkpoint.manifest.step, waiting.checkpoint.tags) == (1, ("best",))
    assert data_and_documents(store) == kept
    assert run.undelete(1).tags == ("best",)
    run.delete(1)
    assert run.untag("best").step == 1
    with pytest.raises(NotFoundError):
        run.untag("best")
    assert [c.manifest.step for c in pruned(store, sweep_only=True, grace="0").ended] == [1]


def test_o60_two_prunes_at_once_both_end_well(store):
    saved(store, 1, 2, 3, 4)
    done = []

    def once(_):
        if not done:
            done.append(1)
            done.append(pruned(reopen(store.root, store.config), keep_last=1, grace="0"))

    report = prune(store.opened, RUN, Retention(keep_last=1, grace="0"), observer=once)
    assert (report.exit_code, report.left, done[1].exit_code, steps(store)) == (0, [], 0, [4])


@pytest.mark.parametrize(("verb", "part"), [("put_if_absent", "/marks/"), ("delete", "runs/"), ("list", "data/")])
def test_o60_a_prune_inside_another_leaves_nothing_to_fail(store, verb, part):
    saved(store, 1, 2, 3, 4)
    inner = []
    beside = reopen(store.root, store.config)
    on_first(store, verb, part, lambda: inner.append(pruned(beside, keep_last=1, grace="0")))
    report = pruned(store, keep_last=1, grace="0")
    assert (report.exit_code, inner[0].exit_code, steps(store)) == (0, 0, [4])


@pytest.mark.parametrize("skipped", [4, 5, 6])
def test_a_prune_ends_well_though_another_removes_the_index_that_it_is_about_to_read(store, skipped):
    saved(store, 1, 2, 3, 4)
    pruned(store, keep_last=1)
    inner = []
    beside = reopen(store.root, store.config)
    on_first(store, "get", "/index/", lambda: inner.append(pruned(beside, sweep_only=True, grace="0")), skipped)
    report = pruned(store, sweep_only=True, grace="0")
    assert (report.left, report.exit_code, inner[0].exit_code, steps(store)) == ([], 0, 0, [4])


@pytest.mark.parametrize("skipped", range(4))
def test_a_sweep_ends_well_though_another_prune_removes_what_it_asks_for_names(store, skipped):
    saved(store, 1, 2, 3, 4)
    inner = []
    beside = reopen(store.root, store.config)
    on_first(store, "get", "/index/", lambda: inner.append(pruned(beside, keep_last=1, grace="0")), skipped)
    report = pruned(store, sweep_only=True, grace="0")
    assert (report.left, report.exit_code, inner[0].exit_code, steps(store)) == ([], 0, 0, [4])


def test_what_gets_unreadable_while_a_sweep_asks_what_is_named_is_no_orphan(store):
    one, _ = saved(store, 1, 2)
    pass_time(store, 8 * DAY)
    register = paths.manifest_name(one.session, one.ordinal, version=1)
    index = one.copies[0].index.path
    kept = {(target, path) for target, path in store.objects() if path.startswith(("data/", f"runs/{RUN}/shards/"))}

    def rot():
        for target, path in store.objects():
            if path.endswith(register) or path == index:
                store.raw[target].put(path, b"rot")

    on_first(store, "get", "/index/", rot)
    report = pruned(store, sweep_only=True)
    assert kept <= set(store.objects())
    assert (report.exit_code, register in report.blocked[0]) == (1, True)
