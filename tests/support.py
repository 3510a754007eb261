"""Stores for tests: real targets that the real code saves to and loads from, without torch."""

import hashlib
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

import erasure
import manifests
from ckptstore.commit import About, Commit, shard_saver
from ckptstore.config import Config, TargetConfig
from ckptstore.events import Event, Observer, ignore
from ckptstore.load.documents import fetch_document
from ckptstore.load.plan import Request, Shard, box_runs
from ckptstore.opened import Opened
from ckptstore.operations.repair import RepairReport, repair
from ckptstore.operations.verify import CheckpointHealth, verify
from ckptstore.placement import full_tolerance
from ckptstore.save.fill import Sources
from ckptstore.save.stream import Piece, lay_out
from ckptstore.selection import Selector, select
from ckptstore.source import Source
from ckptstore.targets import FaultTarget, MeterTarget, Target, TargetRegister
from manifests import Index, Manifest, Reference, ShardRecord, TableBuilder, paths

RUN = "demo"
SENTINEL = 0xA5

Arrays = Mapping[str, np.ndarray]


class StoredFragment(NamedTuple):
    """One fragment of a checkpoint, and the object that should hold it."""

    target: str
    path: str
    stripe: int
    number: int


@dataclass
class LocalStore:
    """An open store; every target is wrapped so that it counts (`meters`) and fails as told (`faults`)."""

    config: Config
    opened: Opened
    root: Path
    raw: dict[str, Target] = field(default_factory=dict)
    meters: dict[str, MeterTarget] = field(default_factory=dict)
    faults: dict[str, FaultTarget] = field(default_factory=dict)

    # -- saving and loading ----------------------------------------

    def save(
        self,
        arrays: Arrays,
        *,
        step: int | None = None,
        ranks: int = 1,
        sources: Sources | None = None,
        observer: Observer = ignore,
    ) -> Manifest:
        """Save and commit; the tensors are dealt out to as many shards as there are ranks."""
        places = self.opened.ready_to_save()
        commit = Commit(self.opened, RUN, places)
        commit.begin()
        pieces = pieces_of(arrays)
        dealt = [pieces[rank::ranks] for rank in range(ranks)]
        table = TableBuilder()
        saved = []
        for rank, mine in enumerate(dealt):
            saver = shard_saver(self.opened, RUN, places, observer)
            saved.append(saver.save(lay_out(mine), sources or flat_bytes, rank))
            for piece in mine:
                table.add(piece.fqn, piece.dtype, piece.shape, [(piece.range, piece.shape, rank)])
        name = f"step-{step}"
        return commit.finish(saved, table.build(), About(name, name, step, ranks))

    def source(self, selector: Selector | None = None, observer: Observer = ignore) -> Source:
        """A checkpoint open for reading; the latest unless told."""
        return Source.open(self.opened, select(self.opened, RUN, selector or Selector()), observer)

    def load(self, selector: Selector | None = None, observer: Observer = ignore) -> dict[str, np.ndarray]:
        """Every tensor of a checkpoint."""
        return read_all(self.source(selector, observer))

    def verify(self, selector: Selector | None = None, *, read_data: bool = False) -> CheckpointHealth:
        """The health of one checkpoint, the latest unless told."""
        return verify(self.opened, RUN, selector or Selector(), read_data=read_data).checkpoints[0]

    def repair(self, **options: object) -> RepairReport:
        """Repair all checkpoints."""
        return repair(self.opened, RUN, **options)

    # -- what is stored ----------------------------------------

    def index(self, manifest: Manifest) -> Index:
        """The index of a checkpoint."""
        return fetch_document(Index, manifest.copies[0].index, self.raw)

    def record(self, manifest: Manifest, shard: int = 0) -> ShardRecord:
        """The record of one of its shards."""
        return fetch_document(ShardRecord, self.index(manifest).shards[shard].record, self.raw)

    def latest(self) -> Manifest:
        """The manifest that counts now."""
        return select(self.opened, RUN, Selector())

    def fragments(self, manifest: Manifest, shard: int = 0) -> list[StoredFragment]:
        """Every fragment that the record of a shard says is stored."""
        record = self.record(manifest, shard)
        return [
            StoredFragment(record.targets[at], paths.fragment(RUN, record.shard_id, stripe, number), stripe, number)
            for stripe, row in enumerate(record.stripes)
            for number, at in enumerate(row.at)
            if at is not None and shape_of(record, stripe).stored(number)
        ]

    def fragment(self, manifest: Manifest, number: int, stripe: int = 0) -> StoredFragment:
        """One of them."""
        return next(f for f in self.fragments(manifest) if (f.stripe, f.number) == (stripe, number))

    def homes(self, manifest: Manifest) -> list[list[str]]:
        """The targets of each stripe's fragments."""
        rows: dict[int, list[str]] = {}
        for fragment in self.fragments(manifest):
            rows.setdefault(fragment.stripe, []).append(fragment.target)
        return list(rows.values())

    def objects(self, *names: str) -> dict[tuple[str, str], bytes]:
        """All objects of all targets in reach (or those named), by target and path."""
        chosen = names or [name for name in self.raw if self.is_there(name)]
        return {
            (name, entry.path): bytes(self.raw[name].get(entry.path))
            for name in chosen
            for entry in self.raw[name].list("")
        }

    def digest(self, *names: str) -> str:
        """Of everything that is stored on the targets in reach, or on those named."""
        found = hashlib.sha256()
        for (target, path), data in sorted(self.objects(*names).items()):
            found.update(f"{target}/{path}/{len(data)}/".encode() + data)
        return found.hexdigest()

    # -- damage ----------------------------------------

    def flip(self, fragment: StoredFragment, at: int | None = None) -> None:
        """Flip one bit, in the middle unless told."""
        data = bytearray(self.raw[fragment.target].get(fragment.path))
        data[len(data) // 2 if at is None else at] ^= 1
        self.raw[fragment.target].put(fragment.path, bytes(data))

    def truncate(self, fragment: StoredFragment, count: int = 1) -> None:
        """Cut off its last bytes."""
        self.raw[fragment.target].put(fragment.path, bytes(self.raw[fragment.target].get(fragment.path))[:-count])

    def swap(self, one: StoredFragment, other: StoredFragment) -> None:
        """Let two fragments hold each other's bytes."""
        first, second = self.read(one), self.read(other)
        self.raw[one.target].put(one.path, second)
        self.raw[other.target].put(other.path, first)

    def copy_over(self, source: StoredFragment, into: StoredFragment) -> None:
        """Let one fragment hold another's bytes."""
        self.raw[into.target].put(into.path, self.read(source))

    def remove(self, fragment: StoredFragment) -> None:
        """Delete one."""
        self.raw[fragment.target].delete([fragment.path])

    def read(self, fragment: StoredFragment) -> bytes:
        """Its bytes."""
        return bytes(self.raw[fragment.target].get(fragment.path))

    def is_there(self, name: str) -> bool:
        """Whether a directory target is in its place."""
        return (self.root / name).exists()

    def take_away(self, *names: str) -> None:
        """Directory targets are out of reach: a disk that is not mounted."""
        for name in names:
            (self.root / name).rename(self.root / f"{name}.away")

    def bring_back(self, *names: str) -> None:
        """They are mounted again, as they were."""
        for name in names:
            (self.root / f"{name}.away").rename(self.root / name)

    def wipe(self, *names: str) -> None:
        """They are mounted, and empty."""
        for name in names:
            shutil.rmtree(self.root / name)
            (self.root / name).mkdir()

    def heal(self) -> None:
        """End all faults injected."""
        for fault in self.faults.values():
            fault.heal()


def make_store(
    root: Path,
    names: Sequence[str] = "abcdef",
    code: str = "4+2",
    fragment_size: int | str = "64KiB",
    *,
    domains: Mapping[str, str] | None = None,
    spare: Sequence[str] = (),
    t: int | None = None,
    memory: bool = False,
    **settings: object,
) -> LocalStore:
    """A new store on directories below `root` (or in memory). `spare`: targets that are in the config only."""
    targets = [
        TargetConfig(
            name=name,
            url=f"memory://{root}/{name}" if memory else str(root / name),
            domain=(domains or {}).get(name, ""),
        )
        for name in [*names, *spare]
    ]
    config = Config(name="store", code=code, fragment_size=fragment_size, targets=targets, **settings)
    store = reopen(root, config)
    members = [store.raw[name] for name in names]
    for target in members:
        target.create_root()
    lost = max(full_tolerance(config.k, config.m, config.places[: len(names)]).targets, 0)
    manifests.init_store([TargetRegister(target) for target in members], t=lost if t is None else t)
    return store


def reopen(root: Path, config: Config) -> LocalStore:
    """The store as another process would open it."""
    store = LocalStore(config, Opened(config), root)
    for name, target in store.opened.targets.items():
        store.raw[name] = target
        store.meters[name] = MeterTarget(target)
        store.faults[name] = FaultTarget(store.meters[name])
    store.opened.targets = dict(store.faults)
    return store


def read_all(source: Source) -> dict[str, np.ndarray]:
    """Every tensor of the index, whole."""
    table = source.index.tensors
    addresses = [(fqn, chunk.offsets) for fqn in table for chunk in table[fqn].chunks]
    arrays = {}
    requests = []
    for (fqn, _), (shard, entry) in zip(addresses, source.locate(addresses), strict=True):
        request = whole(shard, entry)
        requests.append(request)
        arrays[fqn] = request.into.view(entry.dtype).reshape(entry.shape)
    source.read(requests)
    return arrays


def whole(shard: Shard, entry: manifests.TensorEntry) -> Request:
    """A request for all of a tensor, into memory that shows what was written to."""
    itemsize = np.dtype(entry.dtype).itemsize
    runs = box_runs(entry.shape, itemsize, [0] * len(entry.shape), entry.shape)
    return Request(shard, entry.offset, runs, np.full(entry.nbytes, SENTINEL, np.uint8))


def pieces_of(arrays: Arrays) -> list[Piece]:
    """Pieces that `flat_bytes` finds the bytes of."""
    return [
        Piece(array, fqn, str(array.dtype), array.shape, array.nbytes, array.shape, (0,) * array.ndim)
        for fqn, array in arrays.items()
    ]


def flat_bytes(piece: Piece) -> np.ndarray:
    """`Sources` for pieces made by `pieces_of`."""
    return np.ascontiguousarray(piece.key).reshape(-1).view(np.uint8)


def shape_of(record: ShardRecord, stripe: int) -> erasure.StripeShape:
    """The arithmetic of one of a record's stripes."""
    code = record.codes[record.stripes[stripe].code]
    return erasure.StripeShape(code.k, code.m, record.stripes[stripe].length, record.digest.block)


def random_bytes(count: int, seed: int = 0) -> np.ndarray:
    """As many random bytes."""
    return np.random.default_rng(seed).integers(0, 256, count, np.uint8)


def assert_equal(found: Arrays, expected: Arrays) -> None:
    """Same names, dtypes, shapes and bits."""
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        assert found[name].dtype == array.dtype
        assert found[name].shape == array.shape
        assert found[name].tobytes() == array.tobytes(), name


def replace_index(store: LocalStore, manifest: Manifest, data: bytes) -> Manifest:
    """Let other bytes be a checkpoint's index, properly referred to by a new version of its manifest."""
    path = paths.index(RUN, paths.new_token())
    names = list(store.raw)
    for name in names:
        store.raw[name].put(path, data)
    index = reference_to(path, data, names)
    copies = [manifests.Copy(tier="main", index=index)]
    newer = msgspec.structs.replace(manifest, kind="repair", copies=copies)
    return store.opened.group.supersede(newer).manifest


def reference_to(path: str, data: bytes, targets: Sequence[str]) -> Reference:
    """A reference that `data`, uncompressed, matches."""
    return Reference(
        path=path,
        size=len(data),
        raw_size=len(data),
        sha256=hashlib.sha256(data).hexdigest(),
        targets=list(targets),
    )


class Listener:
    """An observer that keeps what it is told."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def __call__(self, event: Event) -> None:
        self.events.append(event)

    def of(self, kind: type[Event]) -> Iterator[Event]:
        """Those of one kind."""
        return (event for event in self.events if isinstance(event, kind))
