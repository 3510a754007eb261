"""What a service or a network does wrong now and then, case by case."""

import threading
import time

import pytest

import manifests
from ckptstore.commit import About, Commit, shard_saver
from ckptstore.errors import CkptStoreError, ConflictError, DataLost, NotFoundError, ObjectNotFound, ToleranceError
from ckptstore.events import TargetFailed
from ckptstore.operations.verify import verify
from ckptstore.save.stream import lay_out
from ckptstore.selection import Selector
from ckptstore.targets import open_target, probe_target
from ckptstore.targets.fault import cut_short, flip_bit
from localstack import faults
from localstack.faulty import FaultyServer
from manifests.testing import save_manifest
from tests.faults.support import ARRAYS, CREDENTIALS, FAST, served
from tests.operations.test_prune_races import on_first
from tests.support import RUN, Listener, assert_equal, flat_bytes, make_store, pieces_of, random_bytes

TRAILER = b"x-amz-checksum-crc32:sOO8/Q==\r\n0123456789"


def test_o02_of_two_commits_of_one_save_one_wins(three):
    """Real requests that race for one name on three servers, twenty times."""
    groups = [three.reopen().store.opened.group for _ in range(2)]
    session = groups[0].open_session(RUN)
    for ordinal in range(1, 21):
        start = threading.Barrier(2)
        outcomes = [None, None]

        def commit(i, ordinal=ordinal, start=start, outcomes=outcomes):
            start.wait()
            try:
                outcomes[i] = groups[i].commit(save_manifest(RUN, session, ordinal, step=i))
            except manifests.ManifestError as error:
                outcomes[i] = error

        threads = [threading.Thread(target=commit, args=(i,)) for i in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        won = [outcome for outcome in outcomes if isinstance(outcome, manifests.Committed)]
        assert len(won) == 1
        assert sum(isinstance(outcome, manifests.Conflict) for outcome in outcomes) == 1


def test_o02_two_jobs_that_open_a_run_at_once_have_one_latest(three):
    """Each saves under a session of its own; one may be fenced, and every reader agrees on which save is the latest."""
    stores = [three.reopen().store for _ in range(2)]
    start = threading.Barrier(2)
    outcomes = [None, None]

    def save(i):
        start.wait()
        try:
            places = stores[i].opened.ready_to_save()
            outcomes[i] = save_as(stores[i], places, job=f"job{i}", step=i)
        except CkptStoreError as error:
            outcomes[i] = error

    threads = [threading.Thread(target=save, args=(i,)) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    saved = {outcome.step for outcome in outcomes if isinstance(outcome, manifests.Manifest)}
    assert saved
    assert all(isinstance(outcome, manifests.Manifest | ConflictError) for outcome in outcomes)
    seen = [three.reopen().store.opened.group.history(RUN) for _ in range(3)]
    assert saved <= {found.manifest.step for found in seen[0].checkpoints}
    assert len({history.latest.key for history in seen}) == 1
    assert_equal(three.reopen().store.load(), ARRAYS)


def save_as(store, places, *, job, step):
    """A save of another job than this process's."""
    commit = Commit(store.opened, RUN, places, job)
    commit.begin()
    pieces = pieces_of(ARRAYS)
    saved = [shard_saver(store.opened, RUN, places).save(lay_out(pieces), flat_bytes, 0)]
    table = manifests.TableBuilder()
    for piece in pieces:
        table.add(piece.fqn, piece.dtype, piece.shape, [(piece.range, piece.shape, 0)])
    return commit.finish(saved, table.build(), About(f"step-{step}", f"step-{step}", step, 1))


@pytest.mark.parametrize("client", ["obstore", pytest.param("fsspec", marks=pytest.mark.soak)])
def test_o20_a_reader_sees_what_others_commit_and_delete_meanwhile(tmp_path, client):
    with served(tmp_path, client=client, require_tolerance=0) as made:
        reader, writer = made.reopen().store, made.store
        old = writer.save(ARRAYS, step=1)
        assert_equal(reader.load(), ARRAYS)
        key = manifests.paths.shard_data_prefix(RUN, writer.record(old).shard_id)
        newer = {"weights": random_bytes(1000, seed=3)}
        writer.save(newer, step=2)
        assert_equal(reader.load(), newer)
        assert_equal(reader.load(Selector(step=1)), ARRAYS)
        for target in writer.raw.values():
            target.delete([entry.path for entry in target.list(key)])
        for target in reader.raw.values():
            assert list(target.list(key)) == []
            with pytest.raises(ObjectNotFound):
                target.head(f"{key}000000.000")
        with pytest.raises(DataLost):
            reader.load(Selector(step=1))
        writer.opened.group.delete(RUN, old.session, old.ordinal)
        assert [found.manifest.step for found in reader.opened.group.history(RUN).checkpoints] == [2]
        with pytest.raises(NotFoundError):
            reader.load(Selector(step=1))
        assert_equal(reader.load(), newer)


def test_o19_a_server_that_is_down_in_a_save_is_told_and_repaired(six):
    six.servers["a"].stop()
    manifest = six.store.save(ARRAYS, step=1)
    assert (manifest.tolerance.targets, manifest.planned.targets) == (1, 2)
    six.servers["a"].start()
    store = six.reopen().store
    report = verify(store.opened, RUN)
    assert (report.exit_code, report.checkpoints[0].tolerance.targets) == (3, 1)
    store.repair()
    assert verify(store.opened, RUN, read_data=True).exit_code == 0
    for name in "bc":
        six.servers[name].stop()
    assert_equal(six.reopen().store.load(), ARRAYS)


def test_o19_a_server_that_goes_down_in_the_middle_of_a_save(six):
    """It has taken some fragments already: the others are missing, and said to be."""
    six.servers["a"].inject(lambda exchange: exchange.cut(), "*Object", "*/data/*", skip=3)
    manifest = six.store.save({"weights": random_bytes(1_000_000)}, step=1)
    assert [missing.target for missing in manifest.missing] == ["a"]
    assert manifest.tolerance.targets == 1
    six.heal()
    assert verify(six.reopen().store.opened, RUN).exit_code == 3
    six.reopen().store.repair()
    assert verify(six.reopen().store.opened, RUN, read_data=True).exit_code == 0


def test_o19_below_the_minimum_a_save_fails(tmp_path):
    with served(tmp_path, "abcdef", "4+2", require_tolerance=2) as six:
        six.servers["a"].stop()
        before = six.held()
        with pytest.raises(ToleranceError, match=r"5 of 6 targets are writable.*a: "):
            six.store.save(ARRAYS, step=1)
        assert six.held() == before


def test_o32_ten_commits_in_a_row_where_a_name_may_change_once_a_second(three):
    """Every object has a name of its own and is put once: nothing contends for one."""
    rules = [server.inject(faults.limits_mutations(1.0)) for server in three.servers.values()]
    for step in range(10):
        three.store.save({"weights": random_bytes(5_000, seed=step)}, step=step)
    assert three.reopen().store.latest().step == 9
    assert len(three.store.opened.group.history(RUN).checkpoints) == 10
    assert all(rule.hits for rule in rules)
    for server in three.servers.values():
        puts = [request.key for request in server.log if request.method == "PUT" and "/runs/" in request.key]
        assert len(puts) == len(set(puts))


def test_o45_more_than_one_request_may_delete_are_deleted():
    """2500 objects, of which S3 takes a thousand at a time."""
    with FaultyServer(credentials=CREDENTIALS) as server:
        target = open_target("a", "s3://bucket/p", options={"endpoint": server.endpoint, **FAST})
        names = [f"data/{number:04d}" for number in range(2500)]
        for name in (*names, "data/mine"):
            server.hold(f"p/{name}", b"x")
        assert target.delete(names) == {}
        assert set(server.objects) == {"p/data/mine"}
        assert server.count("DeleteObjects") == 3


def test_o45_every_page_of_a_listing_is_read(tmp_path):
    """2500 fragments of one checkpoint."""
    arrays = {"weights": random_bytes(6_900_000)}
    with served(tmp_path, fragment_size="4KiB", require_tolerance=0, options={}) as made:  # it is not about time-outs
        made.store.save(arrays, step=1)
        for size in (1000, 3):
            listed = {name: server.count("ListObjectsV2", "*/data/*") for name, server in made.servers.items()}
            for server in made.servers.values():
                server.memory.page_size = size
            health = made.reopen().store.verify()
            assert health.state == "good"
            assert health.counts.expected == health.counts.checked > 2500
            for name, server in made.servers.items():
                held = sum("/data/" in key for key in server.objects)
                assert server.count("ListObjectsV2", "*/data/*") - listed[name] == -(-held // size)
        for step in range(2, 6):
            made.store.save({"bias": random_bytes(10)}, step=step)
        assert [c.manifest.step for c in made.reopen().store.opened.group.history(RUN).checkpoints] == [1, 2, 3, 4, 5]


def test_o65_a_byte_flipped_after_the_digest_was_taken_is_found_by_verify(tmp_path):
    store = make_store(tmp_path)
    store.faults["a"].inject("put", "data/*", damage=flip_bit, times=1)
    store.save(ARRAYS, step=1)
    assert_equal(store.load(), ARRAYS)
    health = store.verify(read_data=True)
    assert {(finding.kind, finding.target) for finding in health.findings} == {("corrupt", "a")}
    store.repair()
    assert store.verify(read_data=True).state == "good"


def test_o65_a_write_that_is_short_though_it_was_acknowledged_is_found_by_the_save(tmp_path):
    store = make_store(tmp_path)
    store.faults["a"].inject("put", "data/*", damage=cut_short(10))
    listener = Listener()
    manifest = store.save(ARRAYS, step=1, observer=listener)
    assert [missing.target for missing in manifest.missing] == ["a"]
    (failed,) = listener.of(TargetFailed)
    assert failed.target == "a"
    assert "are kept" in failed.reason
    assert_equal(store.load(), ARRAYS)


def test_o71_a_save_whose_data_was_removed_before_its_record_is_told_so(tmp_path):
    """As a prune does to a saver that was frozen for longer than the grace period."""
    store = make_store(tmp_path)
    remove = lambda: [target.delete([entry.path for entry in target.list("data/")]) for target in store.raw.values()]  # noqa: E731
    on_first(store, "head", "data/", remove)
    with pytest.raises(ConflictError, match="it was put and taken, and is gone") as caught:
        store.save(ARRAYS, step=1)
    assert "save again" in caught.value.hint


def test_o66_a_trailer_kept_by_one_service_costs_that_target(six):
    six.servers["a"].inject(faults.appends(TRAILER), "PutObject")
    listener = Listener()
    manifest = six.store.save(ARRAYS, step=1, observer=listener)
    assert [missing.target for missing in manifest.missing] == ["a"]
    assert [event.target for event in listener.of(TargetFailed)] == ["a"]
    six.heal()
    store = six.reopen().store
    store.repair()
    assert store.verify(read_data=True).state == "good"
    assert_equal(store.load(), ARRAYS)


@pytest.mark.parametrize("key", ["*/data/*", "*/shards/*"])
def test_o66_a_trailer_kept_by_all_fails_the_save(six, key):
    six.inject(faults.appends(TRAILER), "PutObject", key)
    with pytest.raises(ToleranceError, match="bytes were put and taken"):
        six.store.save(ARRAYS, step=1)
    assert six.store.opened.group.history(RUN).checkpoints == ()


def test_o66_a_service_that_refuses_checksum_headers_works(three):
    three.inject(faults.rejects_checksums)
    three.store.save(ARRAYS, step=1)
    assert_equal(three.reopen().store.load(), ARRAYS)


def test_o66_a_service_that_refuses_checksum_headers_works_by_s3fs_too():
    """botocore adds some by itself, unless told not to."""
    with FaultyServer(credentials=CREDENTIALS) as server:
        server.inject(faults.rejects_checksums)
        options = {"endpoint": server.endpoint, "client": "fsspec", **FAST}
        assert probe_target(open_target("a", "s3://bucket", options=options)).can_commit


def test_o66_bulk_deletes_need_a_checksum_and_the_error_names_the_setting(six):
    six.inject(faults.rejects_checksums)
    target = six.store.raw["a"]
    target.put("x", b"x")
    failed = target.delete(["x"])
    assert 'client = "fsspec"' in failed["x"].hint


def test_o67_a_save_is_found_at_once_though_listings_lag(three):
    """By the process that committed it, which is the one that decides for all ranks: it asks by name."""
    three.store.save(ARRAYS, step=1)
    three.inject(faults.lags(30), "ListObjectsV2", "*/runs/*")
    newer = {"weights": random_bytes(1000, seed=3)}
    three.store.save(newer, step=2)
    began = time.monotonic()
    assert three.store.latest().step == 2
    assert_equal(three.store.load(), newer)
    assert_equal(three.store.load(Selector(step=2)), newer)
    assert time.monotonic() - began < 10


def test_o67_a_listing_that_lags_on_one_target_hides_nothing(three):
    three.servers["a"].inject(faults.lags(30), "ListObjectsV2", "*/runs/*")
    three.store.save(ARRAYS, step=1)
    assert_equal(three.reopen().store.load(), ARRAYS)


def test_o67_a_service_whose_listings_lag_is_refused_at_the_door(three):
    from ckptstore.operations.doctor import examine

    three.servers["b"].inject(faults.lags(30), "ListObjectsV2")
    (found,) = [health for health in examine(three.reopen().store.opened).targets if health.problems]
    assert found.name == "b"
    assert "an object just put is not listed" in found.problems
