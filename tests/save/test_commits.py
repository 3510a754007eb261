"""Several saves of one run: quick, at once, and slow. Who wins, and which of them is the latest."""

import threading
import time
from dataclasses import dataclass

import pytest

from ckptstore.commit import About, Commit, shard_saver
from ckptstore.errors import ConflictError
from ckptstore.save.shard import SavedShard
from ckptstore.save.stream import lay_out
from ckptstore.selection import Selector
from ckptstore.targets import Reason
from ckptstore.targets.fault import unavailable
from ckptstore.targets.wrapper import Wrapper
from manifests import Manifest, TableBuilder, TensorTable
from tests.support import RUN, Arrays, LocalStore, assert_equal, flat_bytes, make_store, pieces_of, random_bytes, reopen


def arrays(seed: int) -> dict:
    return {"w": random_bytes(300_000, seed), "b": random_bytes(77, seed + 1)}


@dataclass
class Saver:
    """A save in its steps: begun, written, and committed by `finish`."""

    commit: Commit
    about: About
    saved: list[SavedShard]
    table: TensorTable | None = None

    @classmethod
    def begin(cls, store: LocalStore, job: str, step: int) -> "Saver":
        commit = Commit(store.opened, RUN, store.opened.writable()[0], job=job)
        commit.begin()
        return cls(commit, About(f"step-{step}", f"step-{step}", step), [])

    def write(self, payload: Arrays) -> None:
        pieces, table = pieces_of(payload), TableBuilder()
        saver = shard_saver(self.commit.opened, RUN, self.commit.places)
        self.saved = [saver.save(lay_out(pieces), flat_bytes, 0)]
        for piece in pieces:
            table.add(piece.fqn, piece.dtype, piece.shape, [(piece.range, piece.shape, 0)])
        self.table = table.build()

    def finish(self) -> Manifest:
        return self.commit.finish(self.saved, self.table, self.about)


# -- quick ----------------------------------------


class OneChangeASecond(Wrapper):
    """As GCS: an object that was changed within the last second is refused with 429."""

    def __init__(self, inner) -> None:
        super().__init__(inner)
        self.changed: dict[str, float] = {}
        self.refused: list[str] = []
        self.lock = threading.Lock()

    def call(self, verb, path, operation):
        if verb in {"put", "put_if_absent", "delete"}:
            with self.lock:
                last = self.changed.get(path, -1.0)
                self.changed[path] = now = time.monotonic()
                if now - last < 1 and last >= 0:
                    self.refused.append(path)
                    raise unavailable("429", target=self.name, reason=Reason.BUSY)
        return operation()


def test_o32_ten_checkpoints_in_three_seconds_change_no_object_twice(tmp_path):
    store = make_store(tmp_path, memory=True)
    store.opened.targets = limited = {name: OneChangeASecond(target) for name, target in store.raw.items()}
    began = time.monotonic()
    for step in range(1, 11):
        assert store.save(arrays(step), step=step).missing == []
    assert time.monotonic() - began < 3
    assert [name for name, target in limited.items() if target.refused] == []
    assert [found.manifest.step for found in store.opened.group.history(RUN).checkpoints] == [*range(1, 11)]
    assert store.latest().step == 10
    assert_equal(store.load(), arrays(10))
    assert_equal(store.load(Selector(step=3)), arrays(3))


# -- at once ----------------------------------------


@pytest.mark.parametrize("first", ["zombie", "restarted"])
def test_o71_of_two_jobs_that_save_one_step_at_once_one_wins(tmp_path, first):
    """Both write all they have; whichever commits first, the job that was started last has the checkpoint."""
    store = make_store(tmp_path)
    zombie = Saver.begin(store, "zombie", 10)
    restarted = Saver.begin(reopen(tmp_path, store.config), "restarted", 10)
    for saver, seed in ((zombie, 1), (restarted, 2)):
        saver.write(arrays(seed))
    if first == "restarted":
        restarted.finish()
    with pytest.raises(ConflictError, match="has been opened since"):
        zombie.finish()
    if first == "zombie":
        restarted.finish()
    history = store.opened.group.history(RUN)
    assert [found.session for found in history.checkpoints] == [restarted.commit.session]
    assert_equal(store.load(Selector(step=10)), arrays(2))
    assert store.verify(read_data=True).state == "good"


def test_o71_what_the_loser_wrote_can_be_given_up_for_good(tmp_path):
    """Its register is closed on all targets, so that it can never commit; the winner's can't be closed."""
    store = make_store(tmp_path)
    zombie = Saver.begin(store, "zombie", 10)
    restarted = Saver.begin(reopen(tmp_path, store.config), "restarted", 10)
    zombie.write(arrays(1))
    restarted.write(arrays(2))
    restarted.finish()
    with pytest.raises(ConflictError):
        zombie.finish()
    group = store.opened.group
    assert group.history(RUN).begun == ((zombie.commit.session, 1),)
    assert group.void(RUN, zombie.commit.session, 1) == "voided"
    assert group.void(RUN, restarted.commit.session, 1) == "saved"
    assert group.history(RUN).voided == ((zombie.commit.session, 1),)
    with pytest.raises(ConflictError):
        zombie.finish()
    assert_equal(store.load(Selector(step=10)), arrays(2))


# -- slow ----------------------------------------


def test_o73_a_slow_save_that_ends_late_is_not_the_latest(tmp_path):
    store = make_store(tmp_path)
    slow, quick = Saver.begin(store, "job", 10), Saver.begin(store, "job", 20)
    quick.write(arrays(20))
    quick.finish()
    slow.write(arrays(10))
    slow.finish()
    assert store.latest().step == 20
    assert_equal(store.load(), arrays(20))
    assert_equal(store.load(Selector(step=10)), arrays(10))


def test_o73_no_object_by_hand_points_to_the_latest_and_a_tag_does_what_it_would(tmp_path):
    store = make_store(tmp_path)
    store.save(arrays(10), step=10)
    store.save(arrays(20), step=20)
    assert not [path for _, path in store.objects() if "latest" in path]
    for target in store.raw.values():
        for path in ("latest", f"runs/{RUN}/latest", f"runs/{RUN}/latest.json", f"runs/{RUN}/index/latest"):
            target.put(path, b'{"step": 10, "name": "step-10"}')
    later = reopen(tmp_path, store.config)
    assert later.latest().step == 20
    assert_equal(later.load(), arrays(20))
    pinned = later.source(Selector(step=10)).manifest
    later.opened.group.tag(RUN, pinned.session, pinned.ordinal, "pinned")
    assert_equal(later.load(Selector(tag="pinned")), arrays(10))
    assert later.latest().step == 20
