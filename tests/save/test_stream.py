"""A shard's stream is a safetensors file: safetensors itself opens it, whatever the dtypes and the names."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import deserialize, safe_open

from ckptstore.dtypes import DTYPES, OBJECT
from ckptstore.errors import KeyCollision, UnsupportedValue
from ckptstore.save.fill import Filler
from ckptstore.save.stream import HEADER_LIMIT, HEADER_ROOM, Piece, Stream, _header_cost, lay_out, split
from tests.support import flat_bytes, pieces_of, random_bytes

ODD_NAMES = [
    "",
    "../x",
    "a/b",
    "a\nb",
    "nul\0nul",
    "x" * 5000,
    "ü",
    "漢字",
    "😀",
    'say "hi"',
    "back\\slash",
    "a.b",
    " ",
]


def raw_piece(fqn: str, dtype: str, shape: tuple[int, ...], seed: int = 0, **more) -> Piece:
    nbytes = math.prod(shape) * DTYPES[dtype].itemsize
    return Piece(random_bytes(nbytes, seed), fqn, dtype, shape, nbytes, **more)


def stream_bytes(stream: Stream) -> bytes:
    out = np.empty(stream.length, np.uint8)
    Filler(stream, flat_bytes).fill(out)
    return out.tobytes()


def header(stream: Stream) -> dict:
    return json.loads(stream.header[8:])


def opened(stream: Stream) -> dict:
    return dict(deserialize(stream_bytes(stream)))


def sharding_info(stream: Stream) -> dict:
    return json.loads(header(stream)["__metadata__"]["DCP_SHARDING_INFO"])


@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (0, 5), (1, 17)])
def test_o36_every_dtype_opens_with_its_bits(shape):
    pieces = [raw_piece(name, name, shape, i) for i, name in enumerate(DTYPES) if name != OBJECT]
    found = opened(lay_out(pieces))
    for piece in pieces:
        dtype = DTYPES[piece.dtype]
        assert bytes(found[piece.fqn]["data"]) == piece.key.tobytes()
        assert found[piece.fqn]["dtype"] == (dtype.stream or "U8")
        assert tuple(found[piece.fqn]["shape"]) == (shape if dtype.stream else (*shape, dtype.itemsize))


def test_o36_torch_reads_every_dtype_that_the_format_has(tmp_path):
    torch = pytest.importorskip("torch")
    names = [name for name, dtype in DTYPES.items() if dtype.stream]
    stream = lay_out([raw_piece(name, name, (4, 2), i) for i, name in enumerate(names)])
    (tmp_path / "all.safetensors").write_bytes(stream_bytes(stream))
    with safe_open(tmp_path / "all.safetensors", "pt") as file:
        for i, name in enumerate(names):
            tensor = file.get_tensor(name)
            assert tensor.dtype == getattr(torch, name)
            expected = random_bytes(8 * DTYPES[name].itemsize, i).tobytes()
            assert tensor.reshape(-1).view(torch.uint8).numpy().tobytes() == expected


def test_torch_knows_every_dtype_by_our_name():
    torch = pytest.importorskip("torch")
    for name, dtype in DTYPES.items():
        if name != OBJECT and hasattr(torch, name):
            assert getattr(torch, name).itemsize == dtype.itemsize


def test_o35_odd_names_come_back():
    pieces = [raw_piece(name, "int16", (i + 1,), i) for i, name in enumerate(ODD_NAMES)]
    found = opened(lay_out(pieces))
    assert {name: bytes(tensor["data"]) for name, tensor in found.items()} == {
        piece.fqn: piece.key.tobytes() for piece in pieces
    }


@given(st.lists(st.text(max_size=20).filter(lambda name: name != "__metadata__"), unique=True, max_size=8))
def test_o35_any_text_is_a_name(names):
    found = opened(lay_out([raw_piece(name, "uint8", (2,), i) for i, name in enumerate(names)]))
    assert set(found) == set(names)


def test_o35_a_name_that_json_cannot_hold_is_refused_by_name():
    with pytest.raises(UnsupportedValue) as caught:
        lay_out([raw_piece("half \ud800", "uint8", (1,))])
    assert caught.value.key == "half \ud800"


def test_o35_a_tensor_cannot_take_the_place_of_the_metadata():
    with pytest.raises(UnsupportedValue, match="__metadata__"):
        lay_out([raw_piece("__metadata__", "uint8", (1,))])
    assert set(opened(lay_out([raw_piece("__metadata__", OBJECT, (1,))]))) == {"object:__metadata__"}


def test_chunks_of_one_tensor_have_names_and_places_of_their_own():
    whole = (8, 4)
    pieces = [raw_piece("w", "float32", (4, 4), row, global_shape=whole, range=(row, 0)) for row in (4, 0)]
    stream = lay_out(pieces)
    assert [entry.name for entry in stream.entries] == ["w", "w@4,0"]
    assert sharding_info(stream) == {"w": {"saved_offsets": [0, 0]}, "w@4,0": {"saved_offsets": [4, 0]}}
    assert bytes(opened(stream)["w@4,0"]["data"]) == pieces[0].key.tobytes()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (raw_piece("a", OBJECT, (3,)), raw_piece("object:a", "uint8", (3,))),
        (raw_piece("object:a", "float64", (3,)), raw_piece("a", OBJECT, (3,))),
    ],
)
def test_o35_two_keys_under_one_name_are_refused(one, other):
    with pytest.raises(KeyCollision) as caught:
        lay_out([one, other])
    assert {caught.value.key, caught.value.other} == {"a", "object:a"}


@pytest.mark.parametrize("dtype", ["int8", "float64"])
def test_o35_a_key_that_reads_like_a_chunk_of_another_is_refused(dtype):
    chunks = [raw_piece("a", "int32", (2,), row, global_shape=(4,), range=(row,)) for row in (0, 2)]
    with pytest.raises(KeyCollision):
        lay_out([*chunks, raw_piece("a@2", dtype, (2,))])


dtypes = st.sampled_from([name for name in DTYPES if name != OBJECT])


@given(st.lists(st.tuples(dtypes, st.integers(0, 9), st.booleans()), max_size=12))
def test_no_holes_and_every_tensor_aligned(kinds):
    pieces = [
        raw_piece(f"t{i}", OBJECT if is_object else dtype, (count,), i)
        for i, (dtype, count, is_object) in enumerate(kinds)
    ]
    stream = lay_out(pieces)
    at = len(stream.header)
    assert at % 4096 == 0
    for piece, entry in zip(stream.pieces, stream.entries, strict=True):
        assert entry.offset == at
        assert entry.offset % DTYPES[entry.dtype].itemsize == 0
        at += piece.nbytes
    assert stream.length == at
    assert [piece.is_object for piece in stream.pieces] == sorted(piece.is_object for piece in pieces)
    assert len(opened(stream)) == len(pieces)


def test_nothing_at_all_is_a_safetensors_file_too():
    assert opened(lay_out([])) == {}
    assert list(split([])) == [[]]


@settings(max_examples=50)
@given(st.lists(st.integers(0, 300), max_size=6), st.lists(st.integers(1, 3000), min_size=1, max_size=40))
def test_filling_in_any_steps_gives_one_stream(sizes, steps):
    stream = lay_out(pieces_of({f"t{i}": random_bytes(size, i) for i, size in enumerate(sizes)}))
    filler, parts, left = Filler(stream, flat_bytes), [], stream.length
    for step in [*steps, stream.length]:
        out = np.empty(min(step, left), np.uint8)
        filler.fill(out)
        parts.append(out.tobytes())
        left -= out.size
    assert b"".join(parts) == stream.header + b"".join(piece.key.tobytes() for piece in stream.pieces)


@settings(max_examples=50)
@given(
    st.lists(st.tuples(st.integers(0, 300), st.booleans()), max_size=6),
    st.lists(st.tuples(st.integers(0, 300), st.integers(0, 40)), min_size=1, max_size=40),
)
def test_fragments_taken_are_the_stream_wherever_they_lie(tensors, steps):
    pieces = pieces_of({f"t{i}": random_bytes(size, i) for i, (size, _) in enumerate(tensors)})
    stream = lay_out([replace(piece, stays=stays) for piece, (_, stays) in zip(pieces, tensors, strict=True)])
    filler, parts, left = Filler(stream, flat_bytes), [], stream.length
    for step, short in [*steps, (stream.length, 0)]:
        size = min(step, left)
        room = np.full(size + short, 0x55, np.uint8)
        taken = filler.take(size, room)
        assert not taken[size:].any()
        assert taken.size == room.size
        parts.append(taken[:size].tobytes())
        left -= size
    assert b"".join(parts) == stream.header + b"".join(piece.key.tobytes() for piece in stream.pieces)


def test_what_stays_is_not_copied():
    array = random_bytes(10_000)
    for stays in (True, False):
        (piece,) = pieces_of({"w": array})
        stream = lay_out([replace(piece, stays=stays)])
        filler = Filler(stream, flat_bytes)
        filler.fill(np.empty(len(stream.header), np.uint8))
        room = np.empty(4000, np.uint8)
        taken = filler.take(4000, room)
        assert (taken is room, np.shares_memory(taken, array)) == (not stays, stays)


def test_a_source_is_asked_once_and_in_stream_order():
    stream, asked = lay_out(pieces_of({f"t{i}": random_bytes(999, i) for i in range(5)})), []
    filler = Filler(stream, lambda piece: asked.append(piece.fqn) or flat_bytes(piece))
    for _ in range(stream.length):
        filler.fill(np.empty(1, np.uint8))
    assert asked == [piece.fqn for piece in stream.pieces]


# -- headers too large for one shard ----------------------------------------


def assert_split(pieces: list[Piece], least: int) -> None:
    """Every group has a header that safetensors accepts, and none of the pieces is lost."""
    groups = list(split(pieces))
    counts = [len(group) for group in groups]
    assert len(counts) >= least
    in_order = [piece for group in groups for piece in group]
    assert all(one is other for one, other in zip(in_order, pieces, strict=True))
    for group in groups:
        stream = lay_out(group)
        assert len(stream.header) - 8 <= HEADER_LIMIT
        assert len(opened(stream)) == len(group)


def tiny(names: list[str], **more) -> list[Piece]:
    empty = np.empty(0, np.uint8)
    return [Piece(empty, name, "uint8", (0,), 0, **more) for name in names]


def test_o70_names_of_100_kib():
    assert_split(tiny([f"{i:04d}" + "k" * (100 << 10) for i in range(1000)]), least=2)


@settings(max_examples=60)
@given(
    st.lists(st.text(st.sampled_from('"\\\né😀a'), max_size=40), unique=True, min_size=1, max_size=5),
    st.integers(1, 8),
    dtypes,
)
def test_o70_no_piece_takes_more_of_a_header_than_it_is_counted_for(names, dimensions, dtype):
    whole = (10**18 + 1,) * dimensions
    pieces = [
        Piece(np.empty(0, np.uint8), name, dtype, (0,) * dimensions, 0, whole, (10**18 - at,) * dimensions)
        for name in names
        for at in (0, 1)
    ]
    assert len(lay_out(pieces).header) <= sum(map(_header_cost, pieces)) + HEADER_LIMIT - HEADER_ROOM


def test_o70_names_that_json_writes_longer():
    names = ['"' * 5_500_000 + str(i) for i in range(4)]
    assert_split(tiny(names, global_shape=(0,), range=(0,)), least=2)


def test_o70_a_name_that_no_header_can_hold_is_refused():
    with pytest.raises(UnsupportedValue, match="header limited to 100000000"):
        list(split(tiny(["k" * 34_000_000])))


def test_o70_many_tiny_tensors():
    assert_split(tiny([f"layers.{i}.weight" for i in range(20_000)]), least=1)


@pytest.mark.soak
def test_o70_1_3_million_tiny_tensors():
    assert_split(tiny([f"layers.{i}.weight" for i in range(1_300_000)]), least=2)
