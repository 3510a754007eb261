"""Names: listed, deleted and told apart exactly."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

from ckptstore.errors import ObjectNotFound, TargetUnusable
from ckptstore.targets.base import Target
from ckptstore.targets.testing.place import Outside, Place

__all__ = ["ODD_PATHS", "NameTests"]

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
MANY = 1010  # over the 1000 that S3 lists or deletes in one request


class NameTests(Place):
    """Listings, times, deletes and odd names."""

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
