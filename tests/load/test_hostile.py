"""Records and indexes made to mislead: refused by a typed error, nothing allocated, written or run (case O62)."""

import json
import pickle
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ckptstore.errors import CorruptError, UsageError
from ckptstore.operations.restore import plan_restore, restore
from ckptstore.selection import Selector
from manifests import Manifest, paths
from tests.support import RUN, LocalStore, make_store, random_bytes, reference_to, replace_index

Edit = Callable[[dict[str, Any]], object]


@pytest.fixture
def saved(tmp_path) -> tuple[LocalStore, Manifest]:
    store = make_store(tmp_path, memory=True)
    return store, store.save({"w": random_bytes(100_000), "b": random_bytes(99, 1)})


def plain(store: LocalStore, path: str) -> dict[str, Any]:
    """A document's JSON as it is stored (it is small: not compressed)."""
    data = next(bytes(data) for (_, found), data in store.objects(*"abcdef").items() if found == path)
    return json.loads(data)


def packed(document: dict[str, Any]) -> bytes:
    return json.dumps(document).encode()


def with_index(store: LocalStore, manifest: Manifest, edit: Edit) -> None:
    document = plain(store, manifest.copies[0].index.path)
    edit(document)
    replace_index(store, manifest, packed(document))


def with_record(store: LocalStore, manifest: Manifest, edit: Edit) -> None:
    """Another record in the place of the shard's, to which an index properly refers."""
    index = plain(store, manifest.copies[0].index.path)
    document = plain(store, index["shards"][0]["record"]["path"])
    edit(document)
    put_record(store, manifest, packed(document))


def put_record(store: LocalStore, manifest: Manifest, data: bytes) -> None:
    shard = store.index(manifest).shards[0]
    path = paths.record(RUN, shard.shard_id, paths.new_token())
    for target in store.raw.values():
        target.put(path, data)
    reference = reference_to(path, data, "abcdef")
    fields = {name: getattr(reference, name) for name in ("path", "size", "raw_size", "sha256", "targets")}
    with_index(store, manifest, lambda index: index["shards"][0].update(record=fields))


def assert_refused(store: LocalStore) -> None:
    """Load, verify and restore refuse; nothing is written; no memory to speak of is taken."""
    before = store.digest(*"abcdef")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(CorruptError):
        store.load()
    files = sorted(store.root.rglob("*"))
    for place in (store.root / "out", store.root / "out.safetensors"):
        with pytest.raises(CorruptError):
            restored(store, place)
    assert sorted(store.root.rglob("*")) == files
    health = store.verify(read_data=True)
    assert health.state == "lost"
    assert {f.kind for f in health.findings} <= {"corrupt", "missing"}
    assert store.digest(*"abcdef") == before
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak < 64 << 10  # KiB
    assert store.opened.buffers._lent == 0


def restored(store: LocalStore, place: Path) -> None:
    source = store.source()
    restore(source, plan_restore(source, place))


def reference(index: dict[str, Any]) -> dict[str, Any]:
    return index["shards"][0]["record"]


INDEX_EDITS: dict[str, Edit] = {
    "a path out of the store": lambda i: reference(i).update(path="runs/demo/shards/../../../../etc/x"),
    "an absolute path": lambda i: reference(i).update(path="/etc/passwd"),
    "a record of another run": lambda i: reference(i).update(path=reference(i)["path"].replace(RUN, "other")),
    "a shard id that is a path": lambda i: i["shards"][0].update(shard_id="../../etc/x"),
    "a size of 2^63": lambda i: reference(i).update(size=1 << 63),
    "a raw size of 2^62": lambda i: reference(i).update(raw_size=1 << 62),
    "a negative length": lambda i: i["shards"][0].update(length=-1),
    "a shard that is not there": lambda i: i["tensors"]["chunks"]["shard"].__setitem__(0, 7),
    "a shape of 2^70": lambda i: i["tensors"]["shape"][0].__setitem__(0, 1 << 70),
    "a chunk past the shape": lambda i: i["tensors"]["chunks"]["offsets"].__setitem__(0, 5),
    "2^40 chunks": lambda i: i["tensors"]["chunks"]["count"].__setitem__(0, 1 << 40),
    "no tensors": lambda i: i.pop("tensors"),
    "an unknown field": lambda i: i.update(command="rm"),
    "nesting without end": lambda i: i.update(structure=json.loads("[" * 900 + "]" * 900)),
}


@pytest.mark.parametrize("edit", INDEX_EDITS.values(), ids=INDEX_EDITS)
def test_o62_a_hostile_index_is_refused(saved, edit):
    store, manifest = saved
    with_index(store, manifest, edit)
    assert_refused(store)


@pytest.mark.parametrize(
    "edit", [lambda i: i.update(format=[2, 0]), lambda i: i.update(requires=["encryption"])], ids=["format", "requires"]
)
def test_what_a_newer_release_wrote_is_refused_as_such(saved, edit):
    store, manifest = saved
    with_index(store, manifest, edit)
    with pytest.raises(UsageError, match="upgrade"):
        store.load()


RECORD_EDITS: dict[str, Edit] = {
    "a length of 2^63": lambda r: r.update(length=1 << 63),
    "a stripe of 2^62": lambda r: r["stripes"][0].update(length=1 << 62, stored_length=1 << 62),
    "stripes that overlap": lambda r: r["stripes"].append(dict(r["stripes"][0])),
    "a hole": lambda r: r["stripes"][0].update(offset=4096),
    "a home that is not there": lambda r: r["stripes"][0]["at"].__setitem__(0, 99),
    "a negative home": lambda r: r["stripes"][0]["at"].__setitem__(0, -1),
    "too few homes": lambda r: r["stripes"][0]["at"].pop(),
    "a code that is not there": lambda r: r["stripes"][0].update(code=1),
    "k of a million": lambda r: r["codes"][0].update(k=10**6),
    "k of zero": lambda r: r["codes"][0].update(k=0),
    "another matrix size": lambda r: r["codes"][0].update(matrix="AAAA"),
    "blocks of zero bytes": lambda r: r["digest"].update(block=0),
    "blocks of 2^60 bytes": lambda r: r["digest"].update(block=1 << 60),
    "a CRC table that is short": lambda r: r["stripes"][0].update(crc="AAAA"),
    "tensors that overlap": lambda r: r["tensors"][1].update(offset=r["tensors"][0]["offset"]),
    "a tensor past the end": lambda r: r["tensors"][-1].update(offset=1 << 40),
    "a shape that is not its bytes": lambda r: r["tensors"][0].update(shape=[3]),
    "a shape whose product wraps": lambda r: r["tensors"][0].update(shape=[1 << 32, 1 << 32, 1 << 32]),
    "a target that is a path": lambda r: r["targets"].__setitem__(0, "../a"),
    "a transform unknown here": lambda r: r["stripes"][0].update(transforms=["zstd"]),
    "a shard id that is a path": lambda r: r.update(shard_id="../../x"),
}


@pytest.mark.parametrize("edit", RECORD_EDITS.values(), ids=RECORD_EDITS)
def test_o62_a_hostile_record_is_refused(saved, edit):
    store, manifest = saved
    with_record(store, manifest, edit)
    assert_refused(store)


class Bomb:
    """A pickle that would leave a file behind."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


@pytest.mark.parametrize("what", ["index", "record"])
def test_o62_a_pickle_is_no_document(saved, tmp_path, what):
    store, manifest = saved
    bomb = pickle.dumps(Bomb(tmp_path / "exploded"))
    if what == "index":
        replace_index(store, manifest, bomb)
    else:
        put_record(store, manifest, bomb)
    assert_refused(store)
    assert not (tmp_path / "exploded").exists()


# -- well-formed, and wrong ----------------------------------------


def test_o62_a_record_of_another_shard_is_refused(saved):
    """Its digests and places would all be right, and its bytes another tensor's."""
    store, manifest = saved
    other = store.save({"w": random_bytes(100_000, 7), "b": random_bytes(99, 8)})
    foreign = plain(store, store.index(other).shards[0].record.path)
    put_record(store, manifest, packed(foreign))
    with pytest.raises(CorruptError):
        _load_first(store, manifest)


def _load_first(store: LocalStore, manifest: Manifest) -> object:
    return store.load(Selector(key=paths.save_name(manifest.session, manifest.ordinal)))


def test_o62_a_matrix_that_does_not_fit_the_parity_gives_no_wrong_bytes(saved):
    store, manifest = saved
    with_record(store, manifest, lambda r: r["codes"][0].update(matrix="AQEBAQICAgI="))
    store.remove(store.fragment(manifest, 0))
    with pytest.raises(CorruptError):
        store.load()
    assert store.opened.buffers._lent == 0


def test_o62_an_index_and_a_record_that_disagree_are_refused(saved):
    store, manifest = saved
    with_index(store, manifest, lambda i: i["tensors"]["fqn"].__setitem__(0, "elsewhere"))
    with pytest.raises(CorruptError, match="elsewhere"):
        store.load()


@pytest.mark.parametrize("shape", [[50_000], [200_000], [100, 1000]])
def test_o62_an_index_with_another_shape_than_the_record_is_refused(saved, shape):
    """Whoever sizes a destination by the index must not be given bytes by the record."""
    store, manifest = saved

    def edit(index: dict[str, Any]) -> None:
        place = index["tensors"]["fqn"].index("w")
        assert index["tensors"]["shape"][place] == [100_000]
        sizes = index["tensors"]["chunks"]["sizes"]
        at = sum(len(s) for s in index["tensors"]["shape"][:place])
        offsets = index["tensors"]["chunks"]["offsets"]
        sizes[at : at + 1], offsets[at : at + 1] = shape, [0] * len(shape)
        index["tensors"]["shape"][place] = shape

    with_index(store, manifest, edit)
    source = store.source()
    chunk = source.index.tensors["w"].chunks[0]
    with pytest.raises(CorruptError):
        source.locate([("w", chunk.offsets)])
