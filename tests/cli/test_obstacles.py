"""What stands where an object must be is told all at once: whoever removes it repairs once."""

import os
import shutil
from pathlib import Path

import pytest

from tests.cli.support import Ckpt, write_tensors

MAKE = {
    "folder": lambda path: (path.mkdir(), (path / "x").touch()),
    "link": lambda path: path.symlink_to("/etc/passwd"),
    "fifo": os.mkfifo,
}


@pytest.fixture
def small(tmp_path) -> Ckpt:
    """A small store on a, b and c with a checkpoint."""
    ckpt = Ckpt(tmp_path, "abc", "2+1", "4KiB")
    assert ckpt("init").code == 0
    write_tensors(tmp_path / "in.safetensors", 7, rows=3)
    assert ckpt("save", tmp_path / "in.safetensors", "--step", 7).code == 0
    return ckpt


def of_each_kind(target: Path) -> list[Path]:
    """Identity, a standing, a fragment, a manifest, a note, and what there is of index and record."""
    places = ["ckptstore.json", "incarnations/000002.json", "data/*/*/*/*", "runs/*/commit/*/manifests/*/*"]
    places += ["runs/*/commit/*/begun/*", "runs/*/commit/*/marks/*/*", "runs/*/index/*", "runs/*/shards/*"]
    return [found[0] for place in places if (found := sorted(target.glob(place)))]


@pytest.mark.parametrize("what", MAKE)
def test_all_that_is_in_the_way_is_told_at_once(small, what):
    assert small("tag", "best", "7").code == 0
    blocked = of_each_kind(small.folder / "c")
    assert len(blocked) >= 6
    for path in blocked:
        path.unlink()
        MAKE[what](path)
    answer = small("repair")
    assert answer.code == 3
    assert [path for path in blocked if f"{path}: remove it" not in answer.out] == []
    assert "remove what is in the way, then: ckpt repair" in answer.err
    told = small("repair", "--json").summary["in_the_way"]
    assert {Path(each["place"]) for each in told} == set(blocked)
    for path in blocked:
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert small("repair").code == 0
    assert small("verify", "--read-data").code == 0


@pytest.mark.parametrize("folder", ["data", "runs", "incarnations"])
@pytest.mark.parametrize("what", ["file", "link"])
def test_a_file_or_a_link_where_a_folder_must_be(small, folder, what):
    place = small.folder / "c" / folder
    shutil.rmtree(place)
    place.write_bytes(b"") if what == "file" else place.symlink_to(small.folder)
    answer = small("repair")
    assert f"{place}: remove it" in answer.out
    place.unlink()
    assert small("repair").code == 0
    assert small("verify", "--read-data").code == 0


def test_what_belongs_there_is_not_in_the_way(small):
    """Whatever the store keeps: sessions, saves begun, deleted, tagged and pruned, more than one version."""
    for step in (8, 9):
        small("save", small.folder / "in.safetensors", "--step", step)
    small("tag", "best", 8)
    small("delete", "7", "--yes")
    small("prune", "--keep-last", "1", "--grace", "0", "--yes")
    small.names = "abcd"
    small.write("2+1", "4KiB")
    assert small("repair", "--replace", "c=d").code == 0
    small.away("b")
    summary = small("repair", "--json").summary
    assert (summary["code"], summary["in_the_way"]) == (3, [])


def test_what_people_keep_beside_objects_is_not_in_the_way(small):
    (small.folder / "c" / "notes").mkdir()
    (small.folder / "c" / "link").symlink_to("/etc")
    (small.folder / "c" / "data" / "README").mkdir()
    small.away("b")
    assert small("repair", "--json").summary["in_the_way"] == []
