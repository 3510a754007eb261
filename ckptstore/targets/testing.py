"""The conformance suite: what every target must do, tried on a real one. Made for pytest.

    class TestMine(TargetTests):
        @pytest.fixture
        def opening(self): return {"name": "t", "url": "mine://place/" + unique(), "options": {…}}
        @pytest.fixture
        def outside(self, opening): return MyOutside(…)

Where it can, the suite looks around the target with a client of its own (`Outside`): a target can't vouch for itself.
"""

import multiprocessing
import os
import pickle
import random
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from multiprocessing.connection import Connection
from typing import Any

import pytest

import manifests
from ckptstore.errors import (
    CkptStoreError,
    ForkedClient,
    ObjectNotFound,
    ShortObject,
    TargetUnavailable,
    TargetUnusable,
)
from ckptstore.targets.base import Target
from ckptstore.targets.opening import open_target
from ckptstore.targets.probe import probe_target
from ckptstore.targets.registers import TargetRegister

__all__ = ["ODD_PATHS", "Outside", "TargetTests", "unique"]

ODD_PATHS = (
    "p[x]/a",
    "a#b/c",
    "c%20d/e%2Fx",
    "e+f/g",
    "with space/h i",
    "ü/é",
    "q?x=1&y",
    "a*b/{c}",
    "~t'/(u)",
    "v=1,w;x/@:$!",
)
"""Characters that some layer of some client takes for a pattern, an escape, a query or a fragment."""

BAD_PATHS = ("", "/a", "a/", "a//b", "../a", "a/../b", "a/./b", ".", "a\\b", "a\nb", "a\0b")
MANY = 1010  # over the 1000 that S3 lists or deletes in one request
FORK_SECONDS = 30
RACE_SECONDS = 60  # enough for a target that a race made rest to be asked again


class Outside(ABC):
    """A client of the same place that shares no code with the target."""

    @abstractmethod
    def read(self, path: str) -> bytes:
        """The object's bytes; `KeyError` where there is none."""

    @abstractmethod
    def write(self, path: str, data: bytes) -> None:
        """Put an object."""

    @abstractmethod
    def paths(self) -> set[str]:
        """Every object's path, as the service names it below the target's root."""


class TargetTests:
    """Subclass it, give `opening` and `outside`; each test has an empty place of its own."""

    @pytest.fixture
    def opening(self) -> Mapping[str, Any]:
        """The arguments of `open_target` for an empty place."""
        raise NotImplementedError

    @pytest.fixture
    def outside(self) -> Outside:
        """The independent client of that place."""
        raise NotImplementedError

    @pytest.fixture
    def target(self, opening: Mapping[str, Any]) -> Iterator[Target]:
        """The target under test, as everything above gets it: with retries and health."""
        target = open_target(**opening)
        target.create_root()
        yield target
        target.close()

    # -- put and get -------------------------------------------------------------------------------------

    @pytest.mark.parametrize("size", [0, 1, 1000, (1 << 20) + 1, 9 << 20])
    def test_put_then_get_gives_the_same_bytes(self, target: Target, outside: Outside, size: int) -> None:
        """Read after write, inside and outside, empty objects included."""
        data = os.urandom(size)
        target.put("data/ab/object", data)
        assert bytes(target.get("data/ab/object")) == data
        assert target.head("data/ab/object").size == size
        assert outside.read("data/ab/object") == data

    def test_get_sees_what_others_wrote(self, target: Target, outside: Outside) -> None:
        """No cache stands between: written and rewritten from outside."""
        for data in (b"first", b"", b"second, longer"):
            outside.write("a/b", data)
            assert bytes(target.get("a/b")) == data
            assert [(entry.path, entry.size) for entry in target.list("a/")] == [("a/b", len(data))]

    def test_put_replaces(self, target: Target) -> None:
        """A shorter object leaves nothing of the longer one."""
        target.put("a", b"long" * 1000)
        target.put("a", b"short")
        assert bytes(target.get("a")) == b"short"

    @pytest.mark.parametrize("pieces", [[], [b""], [b"", b"ab", b"", bytearray(b"cd"), memoryview(b"xefx")[1:3]]])
    def test_put_of_several_buffers_is_one_object(self, target: Target, pieces: list[bytes]) -> None:
        """Concatenated in order."""
        target.put("a", pieces)
        assert bytes(target.get("a")) == b"".join(pieces)

    def test_put_of_a_large_list_of_buffers(self, target: Target) -> None:
        """Larger than the size at which clients change to uploads in parts."""
        data = os.urandom(12 << 20)
        view = memoryview(data)
        target.put("a", [view[: 5 << 20], view[5 << 20 :]])
        assert bytes(target.get("a")) == data

    def test_a_reader_never_sees_half_an_object(self, target: Target) -> None:
        """While an object is replaced, each read gives the old bytes or the new."""
        versions = [bytes([i]) * (1 << 20) for i in range(8)]
        target.put("a", versions[0])
        with ThreadPoolExecutor(2) as pool:
            writing = pool.submit(lambda: [target.put("a", version) for version in versions * 2])
            seen = [bytes(target.get("a"))]
            while not writing.done():
                seen.append(bytes(target.get("a")))
            writing.result()
        assert set(seen) <= set(versions)

    def test_threads_share_a_target(self, target: Target) -> None:
        """Eight at once, each its own objects."""

        def work(i: int) -> bool:
            data = os.urandom(100_000)
            target.put(f"t/{i}", data)
            return bytes(target.get(f"t/{i}")) == data

        with ThreadPoolExecutor(8) as pool:
            assert all(pool.map(work, range(32)))
        assert len([*target.list("t/")]) == 32  # noqa: PLR2004

    # -- ranges ------------------------------------------------------------------------------------------

    @pytest.mark.parametrize(("start", "length"), [(0, 10), (3, 4), (0, 0), (9, 1), (10, 0), (3, None), (10, None)])
    def test_a_range_is_exact(self, target: Target, start: int, length: int | None) -> None:
        """Also an empty one, and what begins at the end."""
        target.put("a", b"0123456789")
        stop = 10 if length is None else start + length
        assert bytes(target.get("a", start=start, length=length)) == b"0123456789"[start:stop]

    @pytest.mark.parametrize(("start", "length"), [(0, 11), (5, 6), (10, 1), (11, 1), (11, 0), (11, None), (999, 5)])
    def test_a_range_past_the_end_is_short(self, target: Target, start: int, length: int | None) -> None:
        """Never fewer bytes than asked for."""
        target.put("a", b"0123456789")
        with pytest.raises(ShortObject, match=r"10 bytes|too few"):
            target.get("a", start=start, length=length)

    def test_a_range_of_an_empty_object(self, target: Target) -> None:
        """All of it is nothing; one byte of it is short."""
        target.put("a", b"")
        assert bytes(target.get("a")) == bytes(target.get("a", length=0)) == b""
        with pytest.raises(ShortObject):
            target.get("a", length=1)

    @pytest.mark.parametrize(("start", "length"), [(0, 10 << 20), (5 << 20, 1 << 20), (12345, 1), (7, 0)])
    def test_get_into_fills_the_caller_s_memory(self, target: Target, start: int, length: int) -> None:
        """And nothing beside it."""
        data = os.urandom(10 << 20)
        target.put("a", data)
        memory = bytearray(b"\xaa" * (length + 20))
        target.get_into("a", memoryview(memory)[10 : 10 + length], start=start)
        assert memory[10 : 10 + length] == data[start : start + length]
        assert memory[:10] == memory[10 + length :] == b"\xaa" * 10

    @pytest.mark.parametrize(("start", "length"), [(0, 11), (5, 6), (10, 1), (99, 1)])
    def test_get_into_past_the_end_is_short(self, target: Target, start: int, length: int) -> None:
        """The memory may be half filled; the error says so."""
        target.put("a", b"0123456789")
        with pytest.raises(ShortObject):
            target.get_into("a", memoryview(bytearray(length)), start=start)

    # -- what is not there -------------------------------------------------------------------------------

    def test_a_missing_object_is_not_found(self, target: Target) -> None:
        """By every verb that reads, with target and path as fields that survive pickling."""
        target.put("a/b", b"x")
        for path in ("missing", "a", "a/c", "a/b/c"):
            for read in (target.get, target.head, lambda p: target.get_into(p, memoryview(bytearray(1)))):
                with pytest.raises(ObjectNotFound) as caught:
                    read(path)
                again = pickle.loads(pickle.dumps(caught.value))  # noqa: S301
                assert (again.target, again.path, again.transient) == (target.name, path, False)

    @pytest.mark.parametrize("path", BAD_PATHS)
    def test_a_bad_path_is_refused(self, target: Target, outside: Outside, path: str) -> None:
        """By every verb, before anything happens."""
        for verb in (target.get, target.head, lambda p: target.put(p, b"x"), lambda p: target.delete([p])):
            with pytest.raises(TargetUnusable):
                verb(path)
        assert outside.paths() == set()

    # -- put if absent -----------------------------------------------------------------------------------

    def test_put_if_absent_creates_once(self, target: Target, outside: Outside) -> None:
        """The second is refused and changes nothing; after a delete the name is free."""
        if not target.can_put_if_absent:
            with pytest.raises(TargetUnusable):
                target.put_if_absent("m/1", b"first")
            return
        assert target.put_if_absent("m/1", b"first") is True
        assert target.put_if_absent("m/1", b"second") is False
        assert outside.read("m/1") == b"first"
        outside.write("m/2", b"theirs")
        assert target.put_if_absent("m/2", b"mine") is False
        assert outside.read("m/2") == b"theirs"
        assert target.delete(["m/1"]) == {}
        assert target.put_if_absent("m/1", b"") is True
        assert outside.read("m/1") == b""

    def test_put_if_absent_has_one_winner_of_eight(self, target: Target, outside: Outside) -> None:
        """In each of three races, and the winner's bytes are what stays; who gets no answer puts again."""
        if not target.can_put_if_absent:
            assert not probe_target(target).can_commit
            return
        for race in range(3):
            start = threading.Barrier(8)

            def put(racer: int, path: str = f"race/{race}", start: threading.Barrier = start) -> tuple[bool, bool]:
                start.wait()
                return _put_until_answered(target, path, b"racer %d" % racer)

            with ThreadPoolExecutor(8) as pool:
                outcomes = [*enumerate(pool.map(put, range(8)))]
            won = [racer for racer, (created, _) in outcomes if created]
            unsure = [racer for racer, (_, unsure) in outcomes if unsure]
            assert len(won) <= 1
            assert outside.read(f"race/{race}") in {b"racer %d" % racer for racer in won or unsure}

    # -- listings and times ------------------------------------------------------------------------------

    def test_a_prefix_names_whole_folders(self, target: Target) -> None:
        """step-1 is not the beginning of step-10."""
        for path in ("runs/step-1/a", "runs/step-1/b/c", "runs/step-10/a", "runs/step-1.x", "other/a"):
            target.put(path, path.encode())
        assert {entry.path for entry in target.list("runs/step-1/")} == {"runs/step-1/a", "runs/step-1/b/c"}
        assert len([*target.list("runs/")]) == 4  # noqa: PLR2004
        assert len([*target.list("")]) == 5  # noqa: PLR2004
        assert [*target.list("nothing/")] == []
        assert [*target.list("runs/step-1.x/")] == []
        assert all(entry.size == len(entry.path) for entry in target.list(""))
        with pytest.raises(TargetUnusable):
            [*target.list("runs/step-1")]

    def test_list_folders_gives_names_of_one_level(self, target: Target) -> None:
        """Without what lies deeper, and without objects."""
        for path in ("runs/b/x/1", "runs/b/y/2", "runs/a/1", "runs/object", "top"):
            target.put(path, b"x")
        assert [*target.list_folders("")] == ["runs"]
        assert [*target.list_folders("runs/")] == ["a", "b"]
        assert [*target.list_folders("runs/b/")] == ["x", "y"]
        assert [*target.list_folders("runs/a/")] == [*target.list_folders("nothing/")] == []

    def test_times_are_the_target_s_clock(self, target: Target) -> None:
        """Aware, about now for a server on this machine, the same by head and list, and moved on by a put."""
        target.put("a", b"1")
        first = target.head("a").modified
        assert abs(first - datetime.now(UTC)) < timedelta(seconds=30)
        # Listings of S3 tell milliseconds, heads whole seconds.
        assert all(abs(entry.modified - first) < timedelta(seconds=1) for entry in target.list(""))
        target.put("a", b"2")
        assert target.head("a").modified >= first

    def test_o45_more_objects_than_a_page_holds(self, target: Target, outside: Outside) -> None:
        """All of 1,010 are listed, and all are deleted by one call."""
        paths = {f"data/{i % 7:02x}/{i:06d}" for i in range(MANY)}
        with ThreadPoolExecutor(8) as pool:
            [*pool.map(lambda path: outside.write(path, b""), paths)]
        assert {entry.path for entry in target.list("data/")} == outside.paths() == paths
        assert target.delete(sorted(paths)) == {}
        assert [*target.list("")] == []
        assert outside.paths() == set()

    # -- delete ------------------------------------------------------------------------------------------

    def test_delete_is_of_exactly_these(self, target: Target, outside: Outside) -> None:
        """Absent ones are deleted already; neighbours stay."""
        for path in ("d/a", "d/ab", "d/a.b", "e/a"):
            target.put(path, b"x")
        assert target.delete([]) == {}
        assert target.delete(["d/a", "d/missing", "nowhere/at/all"]) == {}
        assert outside.paths() == {"d/ab", "d/a.b", "e/a"}
        with pytest.raises(ObjectNotFound):
            target.get("d/a")
        assert target.delete(["d/a"]) == {}

    # -- names -------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("path", ODD_PATHS)
    def test_o44_odd_names_are_exact(self, target: Target, outside: Outside, path: str) -> None:
        """Put, listed, read and deleted under the very name, as another client sees it."""
        target.put(path, b"odd")
        target.put("plain", b"plain")
        assert outside.paths() == {path, "plain"}
        assert {entry.path for entry in target.list("")} == {path, "plain"}
        assert bytes(target.get(path, start=1)) == b"dd"
        assert target.head(path).size == len(b"odd")
        folder, _, name = path.rpartition("/")
        if folder:
            assert [entry.path for entry in target.list(f"{folder}/")] == [f"{folder}/{name}"]
            assert [*target.list_folders("")] == [folder]
        assert target.delete([path]) == {}
        assert outside.paths() == {"plain"}

    # -- processes ---------------------------------------------------------------------------------------

    def test_o48_a_forked_child_reads_or_refuses(self, target: Target) -> None:
        """Never hangs, never reads something else; the parent's client goes on."""
        target.put("a", b"from the parent")
        context = multiprocessing.get_context("fork")
        for _ in range(4):
            assert _ask(context, _read, target) in {b"from the parent", "ForkedClient"}
        assert bytes(target.get("a")) == b"from the parent"

    def test_o48_a_spawned_child_opens_its_own(self, target: Target, opening: Mapping[str, Any]) -> None:
        """What the parent put is there, unless the place is the parent's memory."""
        target.put("a", b"from the parent")
        found = _ask(multiprocessing.get_context("spawn"), _open_and_read, opening)
        own_memory = "memory://" in target.url
        assert found in ({"ObjectNotFound", "TargetUnavailable"} if own_memory else {b"from the parent"})

    # -- together ----------------------------------------------------------------------------------------

    def test_the_probe_agrees_and_leaves_nothing(self, target: Target, outside: Outside) -> None:
        """What the target says it can do is what it was seen to do."""
        found = probe_target(target)
        assert found.can_hold_fragments, found.problems
        assert found.can_commit == target.can_put_if_absent, found.problems
        assert outside.paths() == set()

    def test_as_a_register(self, target: Target) -> None:
        """The commit protocol's view."""
        register = TargetRegister(target)
        assert register.get("runs/r/x") is None
        register.put("runs/r/x", b"1")
        assert register.get("runs/r/x") == b"1"
        assert register.list("runs/r/") == ["runs/r/x"]
        assert register.name == target.name

    def test_a_store_is_made_on_it(self, target: Target) -> None:
        """A target that can put if absent can be a commit target, and the only one; any other is refused as such."""
        register = TargetRegister(target)
        if not target.can_put_if_absent:
            with pytest.raises(manifests.Unavailable):
                manifests.init_store([register], t=0)
            return
        store_id = manifests.init_store([register], t=0)
        group = manifests.Group.open([register])
        assert group.store_id == store_id
        assert group.can_save
        with pytest.raises(manifests.Conflict):
            manifests.init_store([register], t=0)

    def test_the_url_opens_the_same_place(self, target: Target, opening: Mapping[str, Any]) -> None:
        """Ids round-trip, and neither url nor repr holds a secret of the environment."""
        target.put("a", b"x")
        again = open_target(**{**opening, "url": target.url})
        assert bytes(again.get("a")) == b"x"
        secret = os.environ.get("AWS_SECRET_ACCESS_KEY") or "no secret here"
        assert secret not in target.url + repr(target)


def unique() -> str:
    """A folder's name that no other test has."""
    return f"t-{os.urandom(6).hex()}"


def _put_until_answered(target: Target, path: str, data: bytes) -> tuple[bool, bool]:
    """What put-if-absent answers, and whether it failed before: then an earlier try may be what is there."""
    unsure = False
    end = time.monotonic() + RACE_SECONDS
    while time.monotonic() < end:
        try:
            return target.put_if_absent(path, data), unsure
        except TargetUnavailable:
            unsure = True
            time.sleep(random.uniform(0.01, 0.1))  # noqa: S311 - so that racers don't meet for ever
    raise AssertionError(f"{path}: conflicts, but nobody wins")


def _ask(context: Any, function: Any, argument: object) -> object:
    """What `function` sends from a child process. Fails the test if it takes 30 s."""
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=function, args=(argument, sender), daemon=True)
    child.start()
    try:
        assert receiver.poll(FORK_SECONDS), "the child hangs"
        return receiver.recv()
    finally:
        child.kill()
        child.join()


def _read(target: Target, answer: Connection) -> None:
    try:
        answer.send(bytes(target.get("a")))
    except ForkedClient as error:
        answer.send(error.kind)


def _open_and_read(opening: Mapping[str, Any], answer: Connection) -> None:
    try:
        answer.send(bytes(open_target(**opening).get("a")))
    except CkptStoreError as error:
        answer.send(error.kind)
