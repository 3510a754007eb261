"""Repair in parts: machines that know nothing of each other do the work of one, in any order and at once."""

import shutil
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from ckptstore.config import Config
from ckptstore.errors import UsageError
from ckptstore.operations.mend import Mender
from ckptstore.operations.subsets import Part
from ckptstore.operations.verify import verify
from ckptstore.operations.versions import records_of
from ckptstore.targets.fault import unavailable
from manifests import Index, Manifest, Reference, ShardReference, paths
from tests.support import RUN, LocalStore, assert_equal, make_store, random_bytes, reopen

SHARDS = 9
ARRAYS = {f"w{i}": random_bytes(30_000, i) for i in range(SHARDS)}


def saved(tmp_path, *, memory: bool = True, **settings) -> tuple[LocalStore, Manifest]:
    store = make_store(tmp_path, fragment_size=4096, memory=memory, **settings)
    return store, store.save(ARRAYS, step=1, ranks=SHARDS)


def parts(of: int) -> list[str]:
    return [f"{number}/{of}" for number in range(1, of + 1)]


def shards_of(store: LocalStore, manifest: Manifest, part: str) -> list[int]:
    """The shards that a part has."""
    window = Part.parse(part).shards
    return [i for i, shard in enumerate(store.index(manifest).shards) if window.holds(shard.shard_id)]


def damage(store: LocalStore, manifest: Manifest) -> None:
    """Of every shard a fragment is gone, another flipped, and a copy of its record and of the index gone."""
    for number, shard in enumerate(store.index(manifest).shards):
        fragments = store.fragments(manifest, number)
        store.remove(fragments[number % 6])
        store.flip(fragments[(number + 1) % 6])
        store.raw[shard.record.targets[0]].delete([shard.record.path])
    index = manifest.copies[0].index
    store.raw[index.targets[-1]].delete([index.path])


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0)])
def test_parts_one_after_the_other_leave_the_store_as_it_was(tmp_path, order):
    store, manifest = saved(tmp_path)
    before = store.digest(*"abcdef")
    damage(store, manifest)
    for part in (parts(3)[i] for i in order):
        report = store.repair(shard=part)
        assert (report.exit_code, report.failed) == (0, [])
        assert report.checkpoints[0].rebuilt == 2 * len(shards_of(store, manifest, part))
    assert store.digest(*"abcdef") == before
    assert not store.repair().does_something


def test_a_part_reads_and_writes_its_own_shards_only(tmp_path):
    store, manifest = saved(tmp_path)
    damage(store, manifest)
    for meter in store.meters.values():
        meter.reset()
    part = next(part for part in parts(4) if shards_of(store, manifest, part))
    store.repair(shard=part)
    ids = {store.index(manifest).shards[i].shard_id for i in shards_of(store, manifest, part)}
    asked = [path.split("/") for meter in store.meters.values() for _, path in meter.paths]
    assert len(ids) < SHARDS
    assert {words[3] for words in asked if words[0] == "data"} == ids


def test_parts_at_once_leave_the_store_as_it_was(tmp_path):
    store, manifest = saved(tmp_path)
    before = store.digest(*"abcdef")
    damage(store, manifest)
    others = [reopen(tmp_path, store.config) for _ in range(3)]
    with ThreadPoolExecutor(3) as pool:
        reports = list(pool.map(lambda pair: pair[0].repair(shard=pair[1]), zip(others, parts(3), strict=True)))
    assert [report.exit_code for report in reports] == [0, 0, 0]
    assert store.digest(*"abcdef") == before


# -- where fragments move ----------------------------------------


def replaced(tmp_path) -> tuple[LocalStore, Config]:
    """A store whose target f is gone for good; g takes its place."""
    store, _ = saved(tmp_path, memory=False, spare="g")
    store.take_away("f")
    return store, store.config


@pytest.mark.parametrize("of", [2, 4])
def test_a_target_is_replaced_in_parts(tmp_path, of):
    store, _ = replaced(tmp_path)
    moved = 0
    for part in parts(of):
        report = store.repair(replace={"f": "g"}, shard=part)
        assert report.failed == [], part
        assert report.still_on == {}
        moved += report.checkpoints[0].moved
    assert_moved(store, moved)


def assert_moved(store: LocalStore, moved: int) -> None:
    on_f = sum(fragment.target == "f" for i in range(SHARDS) for fragment in store.fragments(store.latest(), i))
    assert on_f == 0
    assert moved > 0
    last = store.repair(replace={"f": "g"})
    assert (last.exit_code, last.does_something, last.replaced) == (0, False, ["f"])
    health = store.verify(read_data=True)
    assert (health.state, health.tolerance.targets) == ("good", 2)
    assert_equal(store.load(), ARRAYS)


def test_parts_that_put_versions_at_once_lose_none_of_their_moves(tmp_path):
    """All know the same version when they put theirs: only one of them can count."""
    store, config = replaced(tmp_path)
    store.opened.targets["g"].create_root()
    assert store.repair(replace={"f": "g"}, shard="1/1000000").failed == []  # re-admits; has hardly a shard
    chosen = [part for part in parts(4) if shards_of(store, store.latest(), part)]
    others = [reopen(tmp_path, config) for _ in chosen]
    together = threading.Barrier(len(chosen))
    for other in others:
        other.opened.group.supersede = once_together(other.opened.group.supersede, together)
    with ThreadPoolExecutor(len(chosen)) as pool:
        run = [pool.submit(o.repair, replace={"f": "g"}, shard=p) for o, p in zip(others, chosen, strict=True)]
        reports = [each.result() for each in run]
    assert [failure for report in reports for failure in report.failed + report.checkpoints[0].failed] == []
    versions = store.opened.group.history(RUN).checkpoints[0].versions
    assert len({version.version for version in versions}) < len(versions), "some were put at once"
    assert_moved(store, sum(report.checkpoints[0].moved for report in reports))


def once_together(supersede, barrier):
    """The first call waits for those of the others."""
    first = [True]

    def wrapped(manifest):
        if first.pop() if first else False:
            barrier.wait(timeout=60)
        return supersede(manifest)

    return wrapped


def test_what_a_target_missed_is_told_until_all_parts_have_put_it(tmp_path):
    store = make_store(tmp_path, fragment_size=4096, memory=True)
    store.faults["c"].inject("put", "data/*", error=unavailable("down", target="c"))
    manifest = store.save(ARRAYS, step=1, ranks=SHARDS)
    store.heal()
    assert [missing.target for missing in manifest.missing] == ["c"]
    working = [part for part in parts(4) if shards_of(store, manifest, part)]
    for part in working:
        assert store.latest().missing == manifest.missing
        assert store.repair(shard=part).exit_code == 0
    assert store.latest().missing == []
    assert not store.repair().does_something
    assert store.verify(read_data=True).state == "good"


def test_a_part_says_what_waits_for_the_first(tmp_path):
    store, manifest = saved(tmp_path, memory=False)
    store.wipe("c")
    report = store.repair(shard="2/2")
    assert report.exit_code == 3
    assert report.failed == ["c has to be re-admitted by part 1: run this part again after it"]
    for part in parts(2):
        assert store.repair(shard=part).exit_code == 0
    assert verify(store.opened, RUN, read_data=True).exit_code == 0
    assert len(store.index(manifest).shards) == SHARDS


def reference(shard: str, record: str) -> ShardReference:
    held = Reference(path=record, size=1, raw_size=1, sha256="0" * 64, targets=["a"])
    return ShardReference(shard_id=shard, rank=0, length=1, record=held)


def index(**records: str) -> Index:
    return Index(session="s", ordinal=1, shards=[reference(*each) for each in records.items()], tensors={})


def test_records_of_a_shard_are_in_the_order_in_which_they_came_up():
    versions = [index(a="a0", b="b0", c="c0"), index(a="a1", b="b0", c="c0"), index(a="a0", b="b1", c="c0")]
    found = {shard: list(records) for shard, records in records_of(versions).items()}
    assert found == {"a": ["a0", "a1"], "b": ["b0", "b1"], "c": ["c0"]}


# -- what it would take ----------------------------------------


def test_a_dry_run_says_what_is_read_and_written(tmp_path):
    store, manifest = saved(tmp_path)
    before = store.objects(*"abcdef")
    for number in range(SHARDS):
        for fragment in store.fragments(manifest, number)[number % 5 : number % 5 + 2]:
            store.remove(fragment)
    shard = store.index(manifest).shards[0]
    store.raw[shard.record.targets[0]].delete([shard.record.path])
    there: Counter[str] = Counter()
    for (target, path), data in store.objects(*"abcdef").items():
        there[target] += len(data) if path.startswith("data/") else 0
    report = store.repair(dry_run=True)
    for meter in store.meters.values():
        meter.reset()
    assert store.repair(limit_rate=2**40).exit_code == 0  # with a limit nothing is read twice because it is late
    assert store.objects(*"abcdef") == before
    read = Counter({name: meter.sizes["get_into"] for name, meter in store.meters.items()}) - there
    written = Counter({name: meter.sizes["put"] for name, meter in store.meters.items()})
    assert report.reads == read
    assert report.writes == +written
    assert report.checking.reads == there
    gets = Counter({name: meter.requests["get_into"] for name, meter in store.meters.items()})
    assert report.traffic.gets + report.checking.gets == gets
    assert report.traffic.puts == +Counter({name: meter.requests["put"] for name, meter in store.meters.items()})
    assert sum(report.writes.values()) > sum(result.bytes for result in report.checkpoints), "a record too"


def test_what_moves_is_read_once_where_it_is_good(tmp_path):
    store, manifest = saved(tmp_path, spare="g")
    report = store.repair(replace={"f": "g"}, dry_run=True)
    on_f = sum(len(store.read(f)) for i in range(SHARDS) for f in store.fragments(manifest, i) if f.target == "f")
    assert report.reads == {"f": on_f}
    assert report.writes == {"g": on_f}


def test_what_is_missing_is_found_by_listing_and_put_back_without_reading_the_rest(tmp_path):
    store, manifest = saved(tmp_path)
    whole = store.objects(*"abcdef")
    missing, flipped = store.fragments(manifest, 0)[0], store.fragments(manifest, 1)[1]
    store.remove(missing)
    store.flip(flipped)
    for meter in store.meters.values():
        meter.reset()
    (result,) = store.repair(read_data=False).checkpoints
    assert (result.rebuilt, result.failed) == (1, [])
    assert sum(meter.sizes["get_into"] for meter in store.meters.values()) == 4 * len(store.read(missing))
    assert store.read(flipped) != whole[flipped.target, flipped.path]
    assert store.repair().checkpoints[0].rebuilt == 1
    assert store.objects(*"abcdef") == whole


@pytest.mark.parametrize("damaged", [paths.IDENTITY, "incarnations"])
def test_a_dry_run_says_what_would_be_re_admitted_also_where_its_standing_is_damaged(tmp_path, damaged):
    store, _ = saved(tmp_path, memory=False)
    for path in [store.root / "c" / damaged, *(store.root / "c" / damaged).glob("*")]:
        if path.is_file():
            path.write_bytes(b"rubbish")
    shutil.rmtree(store.root / "c" / "data")
    dry = store.repair(dry_run=True)
    done = store.repair()
    assert dry.readmitted == done.readmitted == ["c"]
    told = [
        (each.rebuilt, each.moved, each.restored, each.bytes) for report in (dry, done) for each in report.checkpoints
    ]
    assert told[0] == told[1]
    assert told[0][0] > 0


# -- pace ----------------------------------------


def test_a_rate_slows_repair_down(tmp_path):
    store, manifest = saved(tmp_path)
    damage(store, manifest)
    begun = time.monotonic()
    assert store.repair(limit_rate=1_500_000, jobs=4).exit_code == 0
    assert time.monotonic() - begun > 0.25, "400 kB are read, some of them twice"


def test_votes_are_not_read_again_for_each_checkpoint(tmp_path):
    asked = []
    for count in (4, 8):
        store = make_store(tmp_path / f"{count}", fragment_size=4096, memory=True)
        for step in range(count):
            store.remove(store.fragment(store.save({"w": random_bytes(5000)}, step=step), 0))
        for meter in store.meters.values():
            meter.reset()
        assert store.repair().exit_code == 0
        asked.append(sum((meter.requests for meter in store.meters.values()), Counter())["get"])
    assert asked[1] < 2 * asked[0]


@pytest.mark.parametrize(
    ("options", "named"),
    [({"shard": "0/3"}, "shard"), ({"jobs": 0}, "jobs"), ({"shard": 3}, "shard")],
)
def test_what_is_no_part_is_refused_before_anything_is_written(tmp_path, options, named):
    store, manifest = saved(tmp_path)
    damage(store, manifest)
    before = store.digest(*"abcdef")
    with pytest.raises(UsageError, match=named):
        store.repair(**options)
    assert store.digest(*"abcdef") == before


READS, PUTS = "before it reads the versions", "before it puts its own"
OTHERS = [pytest.param(*each, marks=pytest.mark.soak) for each in ((True, READS), (False, PUTS))]


@pytest.mark.parametrize(("whole", "moment"), [(False, READS), (True, PUTS), *OTHERS])
def test_a_repair_takes_back_nothing_that_another_one_moved_meanwhile(tmp_path, monkeypatch, whole, moment):
    """It looked at a shard and rebuilt it; before it puts that, another repair moves it, and ends."""
    store, _ = saved(tmp_path, memory=False, spare="gh")
    store.take_away("f", "e")
    other = reopen(tmp_path, store.config)
    part = "1/1" if whole else next(part for part in parts(2) if shards_of(store, store.latest(), part))
    mine = shards_of(store, store.latest(), part)
    if moment == READS:
        place, name = Mender, "_supersede"
    else:
        place, name = type(store.opened.group), "supersede"
    put = getattr(place, name)
    moved = []

    def late(*arguments):
        monkeypatch.setattr(place, name, put)
        moved.append(other.repair(replace={"e": "h"}, shard="1/1000000"))  # re-admits what takes the place
        moved.append(other.repair(replace={"e": "h"}))
        assert not any(f.target == "e" for i in range(SHARDS) for f in store.fragments(store.latest(), i))
        return put(*arguments)

    monkeypatch.setattr(place, name, late)
    report = store.repair(replace={"f": "g"}, shard=None if whole else part)
    assert len(moved) == 2
    failures = " ".join(report.checkpoints[0].failed)
    assert failures.count("was moved by another repair meanwhile") == len(mine)
    assert not any(f.target == "e" for i in mine for f in store.fragments(store.latest(), i))
    for replace in ({"f": "g"}, {"e": "h"}):
        store.repair(replace=replace)
    assert not any(f.target in "ef" for i in range(SHARDS) for f in store.fragments(store.latest(), i))
    assert_equal(store.load(), ARRAYS)
