"""What is put is what is got: whole objects and ranges, from one thread and from many."""

import os
import pickle
from concurrent.futures import ThreadPoolExecutor

import pytest

from ckptstore.errors import (
    ObjectNotFound,
    ShortObject,
    TargetUnusable,
)
from ckptstore.targets.base import Target
from ckptstore.targets.testing.place import Outside, Place

__all__ = ["ContentTests"]

BAD_PATHS = ("", "/a", "a/", "a//b", "../a", "a/../b", "a/./b", ".", "a\\b", "a\nb", "a\0b")


class ContentTests(Place):
    """Reading and writing one object."""

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
