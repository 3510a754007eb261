"""Valid documents of every type, made by hand and by hypothesis."""

import math

from hypothesis import strategies as st

import manifests
from manifests.record_rules import fragment_sizes

SHA = "ab" * 32
SESSION = "000007.5e55"


def reference(path: str) -> manifests.Reference:
    return manifests.Reference(path=path, size=100, raw_size=400, sha256=SHA, targets=["a", "b"])


def stripe(offset: int, length: int, k: int, m: int, targets: int = 3, **fields) -> manifests.Stripe:
    sizes = fragment_sizes(length, k, m)
    at = [i % targets if size else None for i, size in enumerate(sizes)]
    blocks = sum(-(-size // 1024) for size in sizes)
    return manifests.Stripe(
        offset=offset, length=length, stored_length=length, at=at, crc=bytes(range(4)) * blocks, **fields
    )


def record(**changes) -> manifests.ShardRecord:
    """Two codes, three stripes (one with empty fragments), a chunk, an empty tensor, a byte object."""
    fields = {
        "shard_id": "5a" * 16,
        "rank": 3,
        "length": 10_001,
        "targets": ["a", "b", "c"],
        "codes": [
            manifests.CodeSpec(k=2, m=1, matrix=b"\x01\x01"),
            manifests.CodeSpec(k=3, m=0, matrix=b"", family="none"),
        ],
        "digest": manifests.Digest(block=1024),
        "stripes": [
            stripe(0, 6000, 2, 1),
            stripe(6000, 4000, 3, 0, code=1),
            stripe(
                10_000,
                1,
                2,
                1,
                source=manifests.StripeSource(session=SESSION, ordinal=2, shard_id="0ld", stripe=9),
            ),
        ],
        "tensors": [
            manifests.TensorEntry(
                name="w",
                fqn="w",
                dtype="bfloat16",
                shape=[2, 1000],
                offset=4096,
                nbytes=4000,
                global_shape=[4, 1000],
                range=[2, 0],
                aliases=["tied"],
            ),
            manifests.TensorEntry(name="e", fqn="e", dtype="int64", shape=[0, 5], offset=8096, nbytes=0),
            manifests.TensorEntry(name="object:s", fqn="s", dtype="object", shape=[1905], offset=8096, nbytes=1905),
        ],
    }
    return manifests.ShardRecord(**fields | changes)


def shard_reference(shard_id: str, rank: int) -> manifests.ShardReference:
    return manifests.ShardReference(
        shard_id=shard_id, rank=rank, length=10_001, record=reference(f"runs/r/shards/{shard_id}")
    )


def table() -> manifests.TensorTable:
    builder = manifests.TableBuilder()
    builder.add("w", "bfloat16", [4, 1000], [((0, 0), (2, 1000), 0), ((2, 0), (2, 1000), 1)])
    builder.add("x", "float32", [3], [((0,), (1,), 1), ((1,), (2,), 0)])
    builder.add("scalar", "int64", [], [((), (), 1)])
    builder.add("s", "object", [], [((), (), 0)])
    return builder.build()


def index(**changes) -> manifests.Index:
    fields = {
        "session": SESSION,
        "ordinal": 4,
        "shards": [shard_reference("aa", 0), shard_reference("bb", 1)],
        "tensors": table(),
        "structure": {"dict": [["w", 0.5], ["é\n\u0000", None]]},
        "planner_data": [("w", ["model", 0, "w"])],
    }
    return manifests.Index(**fields | changes)


def manifest(**changes) -> manifests.Manifest:
    fields = {
        "kind": "save",
        "run": "r",
        "session": SESSION,
        "ordinal": 4,
        "name": "step-100",
        "checkpoint_id": "out/step-100",
        "step": 100,
        "world": 2,
        "bytes": 12_345,
        "created": "2026-01-02T03:04:05Z",
        "user": {"loss": 0.25, "tags": ["a", None, True]},
        "tolerance": manifests.Tolerance(targets=1, domains=1),
        "planned": manifests.Tolerance(targets=2, domains=1),
        "missing": [manifests.Missing(target="c", fragments=2)],
        "copies": [manifests.Copy(tier="cloud", index=reference("runs/r/index/1dx"))],
        "uses": [(SESSION, 2)],
    }
    return manifests.Manifest(**fields | changes)


def standing() -> manifests.Standing:
    old = manifests.Members(number=1, targets=["a", "b"], t=0)
    members = manifests.Members(number=2, targets=["a", "b", "c"], t=1, old=old)
    return manifests.Standing(incarnation="1nc", state="valid", members=members)


DOCUMENTS = [
    record(),
    index(),
    manifest(),
    manifests.Mark(kind="tag", of=(SESSION, 4), tag="best", created="today"),
    manifests.Mark(kind="undelete", of=(SESSION, 4), undoes="beef"),
    manifests.Session(session=SESSION, created="today"),
    manifests.Begun(session=SESSION, ordinal=4),
    manifests.Identity(store_id="5t0re", target="a"),
    standing(),
]

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)


@st.composite
def records(draw) -> manifests.ShardRecord:
    k, m, block = draw(st.integers(1, 6)), draw(st.integers(0, 3)), draw(st.sampled_from([1024, 4096]))
    sizes = draw(st.lists(st.integers(0, 500), max_size=4))
    tensors, offset = [], 4096
    for i, size in enumerate(sizes):
        fqn = f"{i}{draw(TEXT)}"
        tensors.append(
            manifests.TensorEntry(name=fqn, fqn=fqn, dtype="float32", shape=[size], offset=offset, nbytes=4 * size)
        )
        offset += 4 * size
    stripes, at = [], 0
    while at < offset:
        length = min(draw(st.integers(1000, 4000)), offset - at)
        stripes.append(stripe(at, length, k, m))
        at += length
    for one in stripes:
        one.crc = b"\x00\xff?>" * sum(-(-size // block) for size in fragment_sizes(one.length, k, m))
    code = manifests.CodeSpec(k=k, m=m, matrix=bytes(range(k * m)))
    return record(length=offset, codes=[code], stripes=stripes, tensors=tensors, digest=manifests.Digest(block=block))


@st.composite
def manifests_(draw) -> manifests.Manifest:
    return manifest(
        user=draw(st.dictionaries(TEXT, JSON, max_size=3)),
        name=draw(st.none() | TEXT),
        step=draw(st.none() | st.integers(0, 2**53 - 1)),
        ordinal=draw(st.integers(0, 999_999_999)),
    )


@st.composite
def boxes(draw, max_dimensions: int = 3):
    """A shape and boxes that tile it: cut by halves again and again, so not always a grid."""
    shape = draw(st.lists(st.integers(1, 9), max_size=max_dimensions))
    parts = [([0] * len(shape), shape)]
    for _ in range(draw(st.integers(0, 6)) if shape else 0):
        start, sizes = parts.pop(draw(st.integers(0, len(parts) - 1)))
        axis = draw(st.integers(0, len(shape) - 1))
        cut = draw(st.integers(0, sizes[axis]))
        left, right = list(sizes), list(sizes)
        left[axis], right[axis] = cut, sizes[axis] - cut
        moved = list(start)
        moved[axis] += cut
        parts += [(part, size) for part, size in ((start, left), (moved, right)) if math.prod(size)]
    return shape, [(tuple(start), tuple(sizes)) for start, sizes in parts]


@st.composite
def indexes(draw) -> manifests.Index:
    builder = manifests.TableBuilder()
    for i in range(draw(st.integers(0, 3))):
        shape, parts = draw(boxes())
        shards = draw(st.lists(st.integers(0, 1), min_size=len(parts), max_size=len(parts)))
        builder.add(f"{i}{draw(TEXT)}", "float32", shape, [(*p, s) for p, s in zip(parts, shards, strict=True)])
    return index(tensors=builder.build(), structure=draw(JSON))


ANY = st.one_of(st.sampled_from(DOCUMENTS), manifests_(), indexes(), records())
