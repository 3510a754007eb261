"""Verify: what is missing, short, corrupt and out of reach are four findings; nothing is written; counts are honest."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from msgspec.structs import replace

from ckptstore.config import Config
from ckptstore.errors import AccessDenied, NotFoundError
from ckptstore.operations.verify import VerifyReport, verify
from ckptstore.selection import Selector
from ckptstore.targets.fault import unavailable
from manifests import Reference, paths
from tests.support import RUN, LocalStore, make_store, random_bytes, reopen

ARRAYS = {"w": random_bytes(720_000).view(np.float32).reshape(300, 600), "b": random_bytes(77, 1)}


@pytest.fixture
def store(tmp_path) -> LocalStore:
    return make_store(tmp_path)


def report(store: LocalStore, **options) -> VerifyReport:
    return verify(store.opened, RUN, **options)


def kinds(store: LocalStore, *, read_data: bool = False) -> Counter:
    return Counter((f.kind, f.what) for f in store.verify(read_data=read_data).findings)


def references(store: LocalStore) -> dict[str, Reference]:
    manifest = store.latest()
    return {"index": manifest.copies[0].index, "record": store.index(manifest).shards[0].record}


def test_all_well(store):
    store.save(ARRAYS, step=1)
    for read_data in (False, True):
        found = report(store, read_data=read_data)
        assert found.exit_code == 0
        assert found.checkpoints[0].findings == []
        assert found.checkpoints[0].tolerance == (2, 2)


def test_o13_objects_are_counted(store):
    manifest = store.save(ARRAYS, ranks=2)
    records = [shard.record for shard in store.index(manifest).shards]
    fragments = sum(len(store.fragments(manifest, shard)) for shard in range(2))
    copies = sum(len(each.targets) for each in [manifest.copies[0].index, *records])
    counts = report(store).counts
    assert counts.expected == counts.checked == fragments + copies + len("abcdef")


def test_o13_missing_short_corrupt_and_unreachable_are_four_findings(tmp_path):
    store = make_store(tmp_path, "abcdefg", "4+3")
    manifest = store.save(ARRAYS, step=1)
    gone, cut, rotten, silent = (store.fragment(manifest, number) for number in (0, 1, 2, 3))
    store.remove(gone)
    store.truncate(cut)
    store.flip(rotten)
    store.faults[silent.target].inject("get_into", silent.path, error=unavailable("down", target=silent.target))
    health = store.verify(read_data=True)
    assert {(f.kind, f.path, f.target) for f in health.findings} == {
        ("missing", gone.path, gone.target),
        ("short", cut.path, cut.target),
        ("corrupt", rotten.path, rotten.target),
        ("unreachable", silent.path, silent.target),
    }
    assert {f.what for f in health.findings} == {"fragment"}
    assert health.state == "unknown"


def test_o13_without_reading_data_length_and_presence_are_checked(store):
    manifest = store.save(ARRAYS)
    store.remove(store.fragment(manifest, 0))
    store.truncate(store.fragment(manifest, 1))
    assert kinds(store) == {("missing", "fragment"): 1, ("short", "fragment"): 1}
    assert report(store).exit_code == 3


def test_o12_swapped_and_doubled_fragments_are_both_named(store):
    manifest = store.save(ARRAYS)
    one, other = store.fragment(manifest, 3), store.fragment(manifest, 4)
    store.swap(one, other)
    health = store.verify(read_data=True)
    assert {f.path for f in health.findings if f.kind == "corrupt"} == {one.path, other.path}
    store.swap(one, other)
    store.copy_over(one, other)
    assert [f.path for f in store.verify(read_data=True).findings] == [other.path]


@pytest.mark.parametrize("what", ["index", "record"])
def test_copies_of_index_and_record_are_checked(store, what):
    store.save(ARRAYS)
    reference = references(store)[what]
    one, other, third = reference.targets
    store.raw[one].delete([reference.path])
    store.raw[other].put(reference.path, b"{}")
    store.faults[third].inject("get", reference.path, error=AccessDenied("403", target=third))
    health = store.verify()
    assert {(f.kind, f.what, f.target) for f in health.findings} == {
        ("missing", what, one),
        ("corrupt", what, other),
        ("unreachable", what, third),
    }
    assert health.counts.expected - health.counts.checked == 1
    assert health.state == "unknown"


def test_copies_of_the_manifest_are_checked(store):
    store.save(ARRAYS)
    manifests_of = {
        name: next(path for _, path in store.objects(name) if "/manifests/" in path) for name in ("a", "b", "c")
    }
    store.raw["a"].delete([manifests_of["a"]])
    data = bytearray(store.raw["b"].get(manifests_of["b"]))
    data[50] ^= 1
    store.raw["b"].put(manifests_of["b"], bytes(data))
    store.take_away("c")
    findings = {(f.kind, f.target) for f in store.verify().findings if f.what == "manifest"}
    assert findings == {("missing", "a"), ("corrupt", "b"), ("unreachable", "c")}


def test_a_wiped_target_is_not_the_store_s_any_more(store):
    store.save(ARRAYS)
    store.wipe("a")
    health = reopen(store.root, store.config).verify()
    assert ("missing", "manifest", "a") in {(f.kind, f.what, f.target) for f in health.findings}
    assert health.state == "degraded"


def test_m_targets_out_of_reach_leave_it_degraded_and_a_third_undecided(store):
    store.save(ARRAYS)
    store.take_away("a", "b")
    health = store.verify()
    assert (health.state, health.tolerance.targets) == ("degraded", 0)
    assert {f.kind for f in health.findings} == {"unreachable"}
    assert {f.target for f in health.findings} == {"a", "b"}


def test_lost_whatever_the_silent_targets_hold_is_lost(store):
    manifest = store.save(ARRAYS)
    for number in (0, 2, 4):
        store.remove(store.fragment(manifest, number))
    assert (store.verify().state, report(store).exit_code) == ("lost", 4)
    store.take_away(store.fragment(manifest, 1).target)
    assert (store.verify().state, report(store).exit_code) == ("lost", 4)


def test_what_is_out_of_reach_decides_between_loadable_and_lost(store):
    manifest = store.save(ARRAYS)
    for number in (0, 2):
        store.remove(store.fragment(manifest, number))
    store.take_away(store.fragment(manifest, 1).target)
    assert (store.verify().state, report(store).exit_code) == ("unknown", 5)


@pytest.mark.parametrize("what", ["index", "record"])
def test_o43_every_copy_gone_is_named_for_what_it_is(store, what):
    store.save(ARRAYS)
    reference = references(store)[what]
    for name in reference.targets:
        store.raw[name].delete([reference.path])
    health = store.verify()
    assert health.state == "lost"
    assert {f.target for f in health.findings if (f.what, f.path) == (what, reference.path)} == set(reference.targets)


def test_o43_another_checkpoint_is_unaffected(store):
    store.save(ARRAYS, step=1)
    broken = references(store)["index"]
    store.save(ARRAYS, step=2)
    for name in broken.targets:
        store.raw[name].delete([broken.path])
    found = report(store)
    assert [health.state for health in found.checkpoints] == ["lost", "good"]
    assert found.exit_code == 4


def test_o19_doubled_up_fragments_are_degraded(store):
    store.take_away("a")
    store.save(ARRAYS)
    store.bring_back("a")
    health = reopen(store.root, store.config).verify()
    assert health.state == "degraded"
    assert ("doubled", "fragment") in {(f.kind, f.what) for f in health.findings}
    assert health.tolerance.targets == 1


def test_the_tolerance_counts_what_is_left(store):
    manifest = store.save(ARRAYS)
    store.remove(store.fragment(manifest, 5, stripe=1))
    assert store.verify().tolerance == (1, 1)
    store.remove(store.fragment(manifest, 0, stripe=1))
    assert store.verify().tolerance == (0, 0)
    store.remove(store.fragment(manifest, 0, stripe=2))
    assert store.verify().tolerance == (0, 0)


def test_the_tolerance_is_never_more_than_the_votes_survive(store):
    """Of three commit targets one may be lost: with two gone nobody can tell what is stored."""
    store.opened.group.change_members(list("abc"), 1)
    specs = [replace(spec, commit=spec.name in "abc") for spec in store.config.targets]
    later = reopen(store.root, replace(store.config, targets=specs))
    manifest = later.save(ARRAYS)
    assert (manifest.tolerance.targets, manifest.planned.targets) == (1, 1)
    health = later.verify()
    assert (health.state, health.tolerance.targets) == ("good", 1)
    later.take_away("b")
    assert later.verify().tolerance.targets == 0


def test_domains_are_counted(tmp_path):
    store = make_store(tmp_path, domains=dict(zip("abcdef", "xxyyzz", strict=True)))
    manifest = store.save(ARRAYS)
    assert (manifest.tolerance.targets, manifest.tolerance.domains) == (2, 1)
    assert store.verify().tolerance == (2, 1)


@pytest.mark.parametrize("read_data", [False, True])
def test_verify_writes_nothing(store, read_data):
    manifest = store.save(ARRAYS)
    store.remove(store.fragment(manifest, 0))
    store.flip(store.fragment(manifest, 1))
    store.raw["a"].delete([path for _, path in store.objects("a") if "/manifests/" in path])
    before = store.digest()
    for meter in store.meters.values():
        meter.reset()
    store.verify(read_data=read_data)
    assert store.digest() == before
    verbs = {verb for meter in store.meters.values() for verb in meter.requests}
    assert verbs <= {"get", "get_into", "head", "list", "list_folders"}


def test_o54_verify_reads_the_targets_every_time(store):
    manifest = store.save(ARRAYS)
    assert store.verify(read_data=True).state == "good"
    store.flip(store.fragment(manifest, 0))
    assert store.verify(read_data=True).state == "degraded"


def test_an_open_store_sees_targets_go_and_come_back(store):
    store.save(ARRAYS)
    assert store.verify().state == "good"
    store.take_away("a")
    assert ("unreachable", "manifest") in kinds(store)
    store.bring_back("a")
    assert store.verify().findings == []


def test_reading_does_not_keep_threads_that_others_need_to_return_memory(store):
    """A save's buffers come back when its puts have run; verify must not wait for memory on all the threads."""
    store.save(ARRAYS)
    buffers, executor = store.opened.buffers, store.opened.executor
    held = buffers.take(buffers.limit)
    with ThreadPoolExecutor(1) as other:
        checking = other.submit(store.verify, read_data=True)
        with pytest.raises(TimeoutError):
            checking.result(timeout=0.3)
        executor.submit(buffers.give, held).result(timeout=20)
        assert checking.result(timeout=20).state == "good"


def test_a_subset_reads_a_part(tmp_path):
    store = make_store(tmp_path, fragment_size=4096, memory=True)
    store.save({"w": random_bytes(100 * 4 * 4096)})
    read = []
    for subset in (1e-12, 0.2, 1.0):
        for meter in store.meters.values():
            meter.reset()
        assert report(store, read_data=True, subset=subset).exit_code == 0
        read.append(sum(meter.requests["get_into"] for meter in store.meters.values()))
    assert read[0] == 0
    assert 0 < read[1] < read[2] / 2
    assert read[2] == len(store.fragments(store.latest()))


def test_o13_nothing_to_check_is_not_success(store):
    with pytest.raises(NotFoundError):
        report(store)
    store.save(ARRAYS, step=1)
    for selector in (Selector(step=2), Selector(name="nosuch"), Selector(key="000001.x.000001"), Selector(tag="best")):
        with pytest.raises(NotFoundError):
            report(store, selector=selector)
    with pytest.raises(NotFoundError):
        verify(store.opened, "other")


def test_o22_strangers_are_not_checkpoints(store):
    store.save(ARRAYS, step=10)
    for stranger in ("step-10-tmp/x", "runs/demo/step-1/x", "notes.txt", f"runs/{RUN}/index/zz", "data/00/x"):
        store.raw["a"].put(stranger, b"mine")
    (store.root / "a" / "12").mkdir()
    found = report(store)
    assert [(health.name, health.state) for health in found.checkpoints] == [("step-10", "good")]
    with pytest.raises(NotFoundError):
        report(store, selector=Selector(name="step-1"))


def test_the_exit_code_is_the_worst(store):
    good, degraded = store.save(ARRAYS, step=1), store.save(ARRAYS, step=2)
    store.remove(store.fragment(degraded, 0))
    assert report(store).exit_code == 3
    for number in range(3):
        store.remove(store.fragment(good, number))
    assert report(store).exit_code == 4


def test_a_target_that_left_the_settings_is_missed(store):
    manifest = store.save(ARRAYS)
    settings = {f: getattr(store.config, f) for f in ("name", "code", "fragment_size")}
    fewer = Config(**settings, targets=[spec for spec in store.config.targets if spec.name != "a"])
    later = reopen(store.root, fewer)
    health = later.verify()
    assert health.state == "degraded"
    assert {f.path for f in health.findings if f.what == "fragment" and f.target == "a"} == {
        f.path for f in store.fragments(manifest) if f.target == "a"
    }


def test_votes_below_a_forgotten_incarnation_do_not_count(store):
    manifest = store.save(ARRAYS)
    path = next(path for _, path in store.objects("a") if "/manifests/" in path)
    data = store.raw["a"].get(path)
    incarnation = store.opened.group.standings["a"].incarnation
    store.raw["a"].put(path.replace(incarnation, paths.new_token()), data)
    store.raw["a"].delete([path])
    assert kinds(store) == {("missing", "manifest"): 1}
    assert manifest.kind == "save"
