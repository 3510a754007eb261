"""Random damage: what loads is right, the tolerance told is real, and repair ends byte-equal."""

import os
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ckptstore.errors import CkptStoreError, DataLost
from ckptstore.load.plan import Request, Runs
from ckptstore.targets.fault import unavailable
from tests.support import LocalStore, assert_equal, make_store, random_bytes, reopen

ARRAYS = {"w": random_bytes(60_000).view(np.float32).reshape(-1, 3), "b": random_bytes(77, 1)}
KINDS = ["remove", "flip", "truncate", "swap", "copy"]


class Damaged:
    """A store with one checkpoint; `undo` puts every object back."""

    def __init__(self, root, names: str, code: str) -> None:
        self.names = names
        self.store: LocalStore = make_store(root, names, code, fragment_size=4096, memory=True)
        self.manifest = self.store.save(ARRAYS)
        self.fragments = self.store.fragments(self.manifest)
        self.intact = self.store.objects(*names)

    def hurt(self, number: int, kind: str, other: int) -> None:
        fragment = self.fragments[number % len(self.fragments)]
        partner = self.fragments[other % len(self.fragments)]
        try:
            match kind:
                case "remove":
                    self.store.remove(fragment)
                case "flip":
                    self.store.flip(fragment)
                case "truncate":
                    self.store.truncate(fragment)
                case "swap":
                    self.store.swap(fragment, partner)
                case "copy":
                    self.store.copy_over(fragment, partner)
        except (CkptStoreError, IndexError):
            """It is gone, or empty, already."""

    def read_stream(self) -> None:
        """Every byte of the shard: what is lost may be in the header, which no tensor needs."""
        source = self.store.source()
        shard = source.shard(0)
        length = shard.record.length
        source.read([Request(shard, 0, Runs(np.zeros(1, np.int64), length), np.empty(length, np.uint8))])

    def undo(self) -> None:
        self.store.heal()
        now = self.store.objects(*self.names)
        for target, path in now.keys() - self.intact.keys():
            self.store.raw[target].delete([path])
        for (target, path), data in self.intact.items():
            if now.get((target, path)) != data:
                self.store.raw[target].put(path, data)

    def bad(self) -> dict[int, int]:
        """How many fragments of each stripe are not what they were."""
        now = self.store.objects(*self.names)
        counts = {fragment.stripe: 0 for fragment in self.fragments}
        for fragment in self.fragments:
            key = fragment.target, fragment.path
            counts[fragment.stripe] += now.get(key) != self.intact[key]
        return counts


@pytest.fixture(scope="module", params=[("abcdef", "4+2"), ("abcd", "4+2"), ("abcdefg", "3+3")], ids=str)
def damaged(request, tmp_path_factory) -> Damaged:
    return Damaged(tmp_path_factory.mktemp("damage"), *request.param)


@settings(max_examples=25)
@given(
    st.lists(st.tuples(st.integers(0, 200), st.sampled_from(KINDS), st.integers(0, 200)), max_size=8),
    st.booleans(),
)
def test_o11_right_or_refused_and_repaired_byte_equal(damaged, hurts, closely):
    for number, kind, other in hurts:
        damaged.hurt(number, kind, other)
    store, m = damaged.store, damaged.store.config.m
    bad = damaged.bad()
    try:
        if max(bad.values()) > m:
            with pytest.raises(DataLost):
                damaged.read_stream()
            assert store.verify(read_data=True).state == "lost"
            assert store.repair().exit_code == 4
        else:
            assert_equal(store.load(), ARRAYS)
            health = store.verify(read_data=True)
            assert health.state == ("degraded" if any(bad.values()) else "good")
            if closely:
                assert_tolerance_is_real(damaged, health.tolerance.targets)
            assert store.repair().exit_code == 0
            assert store.objects(*damaged.names) == damaged.intact
    finally:
        damaged.undo()


def assert_tolerance_is_real(damaged: Damaged, tolerance: int) -> None:
    """Whichever that many targets go, and all they hold, it loads."""
    assert tolerance >= 0
    for gone in combinations(damaged.names, tolerance):
        for name in gone:
            damaged.store.faults[name].inject(error=unavailable("down", target=name))
        assert_equal(damaged.store.load(), ARRAYS)
        damaged.store.heal()


@pytest.mark.parametrize("kind", ["fifo", "link", "folder"])
def test_what_is_no_file_in_the_place_of_a_vote_is_named_and_then_mended(tmp_path, kind):
    store = make_store(tmp_path, names="abc", code="2+1")
    store.save(ARRAYS, step=1)
    before = store.objects()
    vote = next(path for path in (tmp_path / "a").rglob("manifests/*/*") if path.is_file())
    vote.rename(tmp_path / "aside")
    {"fifo": os.mkfifo, "link": lambda p: p.symlink_to(tmp_path / "aside"), "folder": Path.mkdir}[kind](vote)
    report = reopen(store.root, store.config).repair()
    assert report.exit_code == 1
    assert any(f"remove {vote}" in failure for failure in report.failed)
    vote.rmdir() if kind == "folder" else vote.unlink()
    assert reopen(store.root, store.config).repair().exit_code == 0
    assert store.objects() == before
