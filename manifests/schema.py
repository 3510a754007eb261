"""What is stored beside the fragments, as types: shard record, index, manifest, mark, identity, standing.

The meaning of each field is in `docs/format.md`; a type here and a table there say the same. Every field is
always written, also when it holds its default.
"""

from typing import Any

from msgspec import field

from manifests.stored import Document, Stored
from manifests.table import TensorTable

# -- shard record ----------------------------------------


class CodeSpec(Stored, kw_only=True):
    """A linear code. With its (m, k) parity `matrix`, stored row by row, any reader can decode it."""

    family: str = "rs-reedsolo"
    k: int
    m: int
    matrix: bytes


class Digest(Stored, kw_only=True):
    """How blocks are digested: `block` bytes of a fragment at a time."""

    algorithm: str = "crc32c"
    block: int = 1 << 20


class StripeSource(Stored, kw_only=True):
    """An unchanged stripe of an older checkpoint that this shard uses again."""

    session: str
    ordinal: int
    shard_id: str
    stripe: int


class Stripe(Stored, kw_only=True):
    """`length` bytes of the shard from `offset`, stored as `stored_length` bytes.

    `at`: for each fragment the position of its target, None if it is not stored (empty, or lost by a late
    failure). `crc`: a little-endian u32 for every block of every fragment, stored or lost, fragment after
    fragment; how many blocks a fragment has follows from `stored_length`, k and the block size.
    """

    offset: int
    length: int
    stored_length: int
    code: int = 0
    transforms: list[Any] = field(default_factory=list)
    frames: Any = None
    source: StripeSource | None = None
    at: list[int | None]
    crc: bytes
    strong: Any = None


class TensorEntry(Stored, kw_only=True):
    """One tensor, chunk of a tensor, or byte object in a shard's safetensors stream.

    `name` is its name in the stream, `fqn` the key in the state dict. `dtype` is the true dtype ("bfloat16",
    "complex128" …, "object" for a byte object) even where the stream says U8. `offset` counts from the start
    of the *stream* (header included). `range` is the chunk's offset in the global tensor, one number a
    dimension; it and `global_shape` are None for byte objects.
    """

    name: str
    fqn: str
    aliases: list[str] = field(default_factory=list)
    dtype: str
    shape: list[int]
    offset: int
    nbytes: int
    global_shape: list[int] | None = None
    range: list[int] | None = None
    digest: str | None = None


class ShardRecord(Document, kw_only=True):
    """The stripe table, digests and tensor table of one shard; written by the rank that wrote the shard."""

    shard_id: str
    rank: int
    stream: str = "safetensors"
    length: int
    targets: list[str]
    codes: list[CodeSpec]
    digest: Digest = field(default_factory=Digest)
    stripes: list[Stripe]
    tensors: list[TensorEntry]


# -- references and index ----------------------------------------


class Reference(Stored, kw_only=True):
    """Another stored object: where it is and what it must be. `raw_size` bounds what it may inflate to."""

    path: str
    size: int
    raw_size: int
    sha256: str
    targets: list[str]


class ShardReference(Stored, kw_only=True):
    """One shard of a checkpoint."""

    shard_id: str
    rank: int
    length: int
    record: Reference


class Index(Document, kw_only=True):
    """The shards and the global tensor table of one save; written by rank 0.

    `structure` describes the containers of the saved state. `planner_data` lists (fqn, path in the state); an
    int in a path is a position in a list.
    """

    session: str
    ordinal: int
    shards: list[ShardReference]
    tensors: TensorTable
    structure: Any = None
    planner_data: list[tuple[str, list[str | int]]] = field(default_factory=list)


# -- manifest and marks ----------------------------------------


class Tolerance(Stored, kw_only=True):
    """How many targets, and how many domains, may be lost with every byte loadable. Never rounded up."""

    targets: int
    domains: int


class Missing(Stored, kw_only=True):
    """What a target that failed late in a save did not get."""

    target: str
    fragments: int
    records: int = 0


class Copy(Stored, kw_only=True):
    """The whole checkpoint in one tier."""

    tier: str
    index: Reference


class Manifest(Document, kw_only=True):
    """What makes a checkpoint. `kind`: "save", "repair", "copy" or "void" (closed without a save).

    `tolerance`: what it survives as it is stored. `planned`: what it would survive with all of the store's
    targets in reach; where `tolerance` is lower, the checkpoint is degraded.
    """

    kind: str
    run: str
    session: str
    ordinal: int
    version: int = 1
    name: str | None = None
    checkpoint_id: str | None = None
    step: int | None = None
    world: int = 0
    bytes: int = 0
    created: str = ""
    user: dict[str, Any] = field(default_factory=dict)
    tolerance: Tolerance | None = None
    planned: Tolerance | None = None
    missing: list[Missing] = field(default_factory=list)
    copies: list[Copy] = field(default_factory=list)
    uses: list[tuple[str, int]] = field(default_factory=list)


class Mark(Document, kw_only=True):
    """A fact about a checkpoint that is only ever added. `kind`: "delete", "undelete", "tag", "untag" or "collect".

    `undoes`: the random part of the mark that this one undoes, or carries out if it is of kind "collect".
    """

    kind: str
    of: tuple[str, int]
    undoes: str | None = None
    tag: str | None = None
    created: str = ""


class Session(Document, kw_only=True):
    """One opening of a run for saving."""

    session: str
    created: str = ""


class Begun(Document, kw_only=True):
    """Rank 0 is about to save: no data of this save was written before this was put."""

    session: str
    ordinal: int
    created: str = ""


# -- the target's own ----------------------------------------


class Identity(Document, kw_only=True):
    """`ckptstore.json`: the store a target belongs to, and its name in manifests. Never changes."""

    store_id: str
    target: str


class Members(Stored, kw_only=True):
    """The commit targets, and how many may be lost (`t`); while they change, the set before (`old`)."""

    number: int
    targets: list[str]
    t: int
    old: "Members | None" = None


class Standing(Document, kw_only=True):
    """What a target counts for. `state`: "valid", or "joining" while it has no vote yet."""

    incarnation: str
    state: str
    members: Members
