"""A store in memory with a history, on which any damage can be undone.

Three saves in two sessions: step 1 (tagged, deleted and undeleted, with a second version of its manifest), step 2
(deleted) and step 3 (the latest). All have the same layout, so every object of step 3 has an older one at its
position.
"""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from random import Random
from typing import NamedTuple

import msgspec
import numpy as np

import erasure
from ckptstore.operations.verify import verify
from ckptstore.selection import key_of
from ckptstore.sessions import Sessions
from ckptstore.targets import MemoryTarget, Target
from ckptstore.targets.wrapper import Wrapper
from manifests import History, Manifest, paths
from tests.faults.campaign.reproducible import InThisThread, reproducible
from tests.support import RUN, LocalStore, make_store, random_bytes, reopen, shape_of

Place = tuple[str, str]
"""A target and a path on it."""
Objects = dict[Place, bytes]

HEADER = 4096  # bytes of a shard's safetensors header


class Code(NamedTuple):
    """The targets, the code and the sizes of one world."""

    targets: str
    code: str
    fragment_size: int
    shards: int


CODES = {
    "2+1": Code("abc", "2+1", 4096, 2),
    "4+2": Code("abcdef", "4+2", 4096, 2),
    "8+4": Code("abcdefghijkl", "8+4", 4096, 1),
    "2+1, three blocks": Code("abc", "2+1", 5 << 19, 1),  # fragments of 2.5 MiB: rows are lost one by one
}


@dataclass(frozen=True)
class StripePlaces:
    """One stripe: where its bytes stand in its shard, and where each fragment is (None: empty, so not stored)."""

    shard: int
    offset: int
    shape: erasure.StripeShape
    fragments: tuple[Place | None, ...]

    def is_loadable(self, now: Objects, intact: Objects) -> bool:
        """Whether k blocks of each row are as they were."""
        rows = range(-(-self.shape.span // self.shape.block))
        return all(sum(self._is_good(f, row, now, intact) for f in range(self.shape.n)) >= self.shape.k for row in rows)

    def _is_good(self, fragment: int, row: int, now: Objects, intact: Objects) -> bool:
        place = self.fragments[fragment]
        if place is None or row >= self.shape.blocks(fragment):
            return True  # zeros by definition
        low, high = self.shape.block_range(fragment, row)
        return place in now and (now[place] is intact[place] or now[place][low:high] == intact[place][low:high])


@dataclass(frozen=True)
class Saved:
    """One checkpoint as it was saved: the bytes of its shards, its stripes, the copies of its index and records."""

    manifest: Manifest
    streams: tuple[bytes, ...]
    stripes: tuple[StripePlaces, ...]
    documents: tuple[tuple[Place, ...], ...]

    @property
    def key(self) -> str:
        """Its name inside its run."""
        return key_of(self.manifest)

    @cached_property
    def positions(self) -> list[Place]:
        """All its objects below the votes, in an order that is that of every save of the same layout."""
        fragments = [place for stripe in self.stripes for place in stripe.fragments if place]
        return [place for copies in self.documents for place in copies] + fragments


@dataclass(frozen=True)
class Truth:
    """Every object as it must be, the checkpoints that must load, oldest first, and what the history says."""

    intact: Objects
    live: list[Saved]
    facts: object


class World:
    """One store, and the truth about it; `incarnations`: those under which its targets count."""

    def __init__(self, name: str, root: Path) -> None:
        self.code = CODES[name]
        self.names = list(self.code.targets)
        with reproducible(Random(name)):
            self.store = self._make(root)
            history = self.store.opened.group.history(RUN)
            live = [self.describe(checkpoint.manifest) for checkpoint in history.checkpoints]
            self.truth = Truth(self.objects(), live, facts(history))
            self.incarnations = {name: s.incarnation for name, s in self.store.opened.group.standings.items()}
            assert verify(self.store.opened, RUN, read_data=True).exit_code == 0
        self._kept = {target: dict(held(self.store.raw[target])) for target in self.names}

    @property
    def m(self) -> int:
        """Fragments of a stripe, and targets, that may be lost."""
        return self.store.config.m

    @cached_property
    def by_kind(self) -> dict[str, list[Place]]:
        """All objects by what they are."""
        found: dict[str, list[Place]] = {}
        for place in sorted(self.truth.intact):
            found.setdefault(kind_of(place[1]), []).append(place)
        return found

    def objects(self) -> Objects:
        """What is stored now."""
        return {(name, path): data for name in self.names for path, (data, _) in held(self.store.raw[name]).items()}

    def put(self, place: Place, data: bytes | None) -> None:
        """Let an object hold `data`, or, None, be gone."""
        target, path = place
        if data is None:
            self.store.raw[target].delete([path])
        else:
            self.store.raw[target].put(path, data)

    def restore(self) -> None:
        """Put everything back as it was."""
        for name, kept in self._kept.items():
            objects = held(self.store.raw[name])
            objects.clear()
            objects.update(kept)
        self.forget()

    def forget(self) -> None:
        """Know no more of the store than a process that opens it."""
        opened = self.store.opened
        opened.__dict__.pop("group", None)
        opened.sessions = Sessions(lambda: opened.group)

    def arrays(self, step: int) -> dict[str, np.ndarray]:
        """The state of a step: shards of one stripe and a part of another."""
        k = int(self.code.code.partition("+")[0])
        nbytes = k * self.code.fragment_size * 8 // 5 - HEADER
        large = {f"w{i}": random_bytes(nbytes, 10 * step + i) for i in range(self.code.shards)}
        small = {f"b{i}": random_bytes(33, 10 * step + 5 + i) for i in range(self.code.shards)}
        return large | small

    def save(self, step: int) -> Manifest:
        """Save a step."""
        return self.store.save(self.arrays(step), step=step, ranks=self.code.shards)

    def describe(self, manifest: Manifest) -> Saved:
        """A checkpoint as it is stored now."""
        now = self.objects()
        shards = self.store.index(manifest).shards
        stripes = [stripe for number in range(len(shards)) for stripe in self._stripes(manifest, number)]
        streams = tuple(_stream([s for s in stripes if s.shard == number], now) for number in range(len(shards)))
        references = [manifest.copies[0].index, *(shard.record for shard in shards)]
        documents = tuple(tuple((target, r.path) for target in r.targets) for r in references)
        return Saved(manifest, streams, tuple(stripes), documents)

    def _stripes(self, manifest: Manifest, shard: int) -> list[StripePlaces]:
        record = self.store.record(manifest, shard)
        rows: list[list[Place | None]] = [[None] * len(stripe.at) for stripe in record.stripes]
        for fragment in self.store.fragments(manifest, shard):
            rows[fragment.stripe][fragment.number] = fragment.target, fragment.path
        return [
            StripePlaces(shard, record.stripes[i].offset, shape_of(record, i), tuple(row)) for i, row in enumerate(rows)
        ]

    def _make(self, root: Path) -> LocalStore:
        made = make_store(root, self.names, self.code.code, self.code.fragment_size, memory=True)
        self.store = in_this_thread(made)
        first, second = self.save(1), self.save(2)
        group = self.store.opened.group
        group.tag(RUN, first.session, first.ordinal, "best")
        group.delete(RUN, first.session, first.ordinal)
        group.undelete(RUN, first.session, first.ordinal)
        group.supersede(msgspec.structs.replace(first, kind="repair"))
        group.delete(RUN, second.session, second.ordinal)
        self.store = in_this_thread(reopen(root, self.store.config))
        self.save(3)
        return self.store


def in_this_thread(store: LocalStore) -> LocalStore:
    """A store that starts no thread, on bare targets: none of them fails, so there is nothing to try again."""
    store.opened.executor = InThisThread()
    store.raw = {name: bare(target) for name, target in store.raw.items()}
    store.opened.targets = dict(store.raw)
    return store


def bare(target: Target) -> MemoryTarget:
    """A memory target without what is wrapped around it."""
    while isinstance(target, Wrapper):
        target = target.inner
    assert isinstance(target, MemoryTarget)
    return target


def held(target: MemoryTarget) -> dict:
    """What it holds: bytes and time by path."""
    return target._objects.by_path


def facts(history: History) -> object:
    """What a run's manifests and marks say."""
    every = (*history.checkpoints, *history.deleted)
    live = [checkpoint.key for checkpoint in history.checkpoints]
    tags = {tag: checkpoint.key for tag, checkpoint in history.tags.items()}
    return live, [(c.key, c.versions, c.deletes) for c in every], tags, history.sessions


def kind_of(path: str) -> str:
    """What an object is: "fragment", "record", "index", "standing", "identity", or the folder of a vote."""
    match path.split("/"):
        case ["data", *_]:
            return "fragment"
        case ["runs", _, "commit", _, folder, *_]:
            return folder
        case ["runs", _, folder, _]:
            return {"shards": "record", "index": "index"}[folder]
        case _:
            return "identity" if path == paths.IDENTITY else "standing"


def inner_name(path: str) -> str:
    """A vote's name below its target's incarnation; of any other object its path."""
    return path.split("/", 4)[4] if "/commit/" in path else path


def _stream(stripes: list[StripePlaces], now: Objects) -> bytes:
    """A shard's bytes: its data fragments one after another."""
    return b"".join(now[place] for stripe in stripes for place in stripe.fragments[: stripe.shape.k] if place)
