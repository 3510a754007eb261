"""Put if absent: one winner, and a store on top of it."""

import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

import manifests
from ckptstore.errors import TargetUnavailable, TargetUnusable
from ckptstore.targets.base import Target
from ckptstore.targets.probe import probe_target
from ckptstore.targets.registers import TargetRegister
from ckptstore.targets.testing.place import Outside, Place

__all__ = ["ExclusiveTests"]

RACE_SECONDS = 60  # enough for a target that a race made rest to be asked again


class ExclusiveTests(Place):
    """What the commit protocol needs."""

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
