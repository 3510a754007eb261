"""Stores of several runs, and what was asked of them."""

from collections import Counter

from ckptstore.commit import About, Commit, shard_saver
from ckptstore.save.stream import lay_out
from manifests import TableBuilder
from tests.support import LocalStore, flat_bytes, pieces_of, random_bytes

SMALL = {"w": random_bytes(20_000)}


def save_into(store: LocalStore, run: str, step: int = 1) -> None:
    """A checkpoint of another run."""
    places = store.opened.ready_to_save()
    commit = Commit(store.opened, run, places)
    commit.begin()
    pieces, table = pieces_of(SMALL), TableBuilder()
    saved = shard_saver(store.opened, run, places, lambda _: None).save(lay_out(pieces), flat_bytes, 0)
    for piece in pieces:
        table.add(piece.fqn, piece.dtype, piece.shape, [(piece.range, piece.shape, 0)])
    commit.finish([saved], table.build(), About(f"step-{step}", f"step-{step}", step, 1))


def requests(store: LocalStore) -> Counter:
    found: Counter = Counter()
    for meter in store.meters.values():
        found.update(meter.requests)
        meter.reset()
    return found


def read_paths(store: LocalStore) -> set[str]:
    """The fragments that were read since the last time."""
    found = {path for meter in store.meters.values() for verb, path in meter.paths if verb == "get_into"}
    requests(store)
    return found
