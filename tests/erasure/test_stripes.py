"""Range arithmetic against a model that lists every byte."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from erasure import Piece, StripeShape, cut
from erasure.errors import CodeShapeError, FragmentIndexError, RangeError


def edge_lengths(k, block):
    """Sizes at which something changes."""
    stripe = k * block
    near = [0, 1, k - 1, k, k + 1, block - 1, block, block + 1, stripe - 1, stripe, stripe + 1, 2 * stripe + 1]
    return sorted({size for size in near if size >= 0})


@st.composite
def shapes(draw):
    k, m = draw(st.integers(1, 9)), draw(st.integers(0, 4))
    block = draw(st.integers(1, 12))
    length = draw(st.one_of(st.sampled_from(edge_lengths(k, block)), st.integers(0, 3 * k * block)))
    return StripeShape(k, m, length, block)


def contents(shape):
    """The stripe byte at each place of each stored data fragment."""
    span = (shape.length + shape.k - 1) // shape.k
    data = list(range(shape.length))
    return [data[i * span : (i + 1) * span] for i in range(shape.k)]


@given(shapes())
def test_stored_lengths_are_those_of_the_cut_stripe(shape):
    stored = [shape.stored(i) for i in range(shape.k)]
    assert stored == [len(c) for c in contents(shape)]
    assert sum(stored) == shape.length
    assert all(shape.stored(i) == shape.span for i in range(shape.k, shape.k + shape.m))
    assert shape.span == max(stored)
    assert 0 <= shape.k * shape.span - shape.length < shape.k


@given(shapes())
def test_the_crc_table_has_one_place_for_every_block_in_order(shape):
    places = [(i, b) for i in range(shape.k + shape.m) for b in range(shape.blocks(i))]
    assert [shape.crc_index(i, b) for i, b in places] == list(range(shape.crc_count))


@given(shapes())
def test_blocks_tile_every_stored_fragment(shape):
    for i in range(shape.k + shape.m):
        ranges = [shape.block_range(i, b) for b in range(shape.blocks(i))]
        assert [x for start, stop in ranges for x in range(start, stop)] == list(range(shape.stored(i)))
        assert all(0 < stop - start <= shape.block for start, stop in ranges)
        assert all(stop - start == shape.block for start, stop in ranges[:-1])


@given(shapes(), st.data())
def test_pieces_hold_exactly_the_asked_bytes(shape, data):
    start = data.draw(st.integers(0, shape.length))
    stop = data.draw(st.integers(start, shape.length))
    model = contents(shape)
    pieces = shape.pieces(start, stop)
    got = [model[p.fragment][p.start : p.stop] for p in pieces]
    assert [byte for part in got for byte in part] == list(range(start, stop))
    assert all(part[0] - start == p.offset for p, part in zip(pieces, got, strict=True))
    assert all(p.stop > p.start for p in pieces)


@given(shapes(), st.data())
def test_blocks_covering_a_range_are_the_fewest_that_hold_it(shape, data):
    start = data.draw(st.integers(0, shape.span))
    stop = data.draw(st.integers(start, shape.span))
    covering = shape.blocks_covering(start, stop)
    assert set(covering) == {at // shape.block for at in range(start, stop)}


@given(st.integers(0, 500), st.integers(1, 60))
def test_stripes_tile_the_shard(length, stripe_bytes):
    stripes = cut(length, stripe_bytes)
    assert [x for offset, size in stripes for x in range(offset, offset + size)] == list(range(length))
    assert all(size == stripe_bytes for _, size in stripes[:-1])
    assert all(0 < size <= stripe_bytes for _, size in stripes)


def test_two_stripes_and_a_byte():
    assert cut(2 * 64 + 1, 64) == [(0, 64), (64, 64), (128, 1)]
    assert cut(0, 64) == []


def test_a_worked_example():
    shape = StripeShape(4, 2, 10, block=2)
    assert shape.span == 3
    assert [shape.stored(i) for i in range(6)] == [3, 3, 3, 1, 3, 3]
    assert [shape.blocks(i) for i in range(6)] == [2, 2, 2, 1, 2, 2]
    assert shape.crc_count == 11
    assert shape.crc_index(4, 1) == 8
    assert shape.block_range(0, 1) == (2, 3)
    assert shape.block_range(3, 0) == (0, 1)
    assert shape.pieces(2, 10) == [Piece(0, 2, 3, 0), Piece(1, 0, 3, 1), Piece(2, 0, 3, 4), Piece(3, 0, 1, 7)]
    assert shape.blocks_covering(1, 3) == range(2)
    assert shape.blocks_covering(3, 3) == range(0)


def test_a_stripe_of_one_byte_stores_one_data_fragment():
    shape = StripeShape(4, 2, 1)
    assert [shape.stored(i) for i in range(6)] == [1, 0, 0, 0, 1, 1]
    assert [shape.crc_index(i, 0) for i in (0, 4, 5)] == [0, 1, 2]


def test_very_large_stripes_stay_exact():
    shape = StripeShape(8, 4, (1 << 45) + 1)
    assert shape.stored(7) == (1 << 45) + 1 - 7 * shape.span
    assert shape.crc_index(11, 0) == shape.crc_count - shape.blocks(11)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: StripeShape(0, 2, 1), CodeShapeError, "k=0"),
        (lambda: StripeShape(4, 2, -1), RangeError, "-1"),
        (lambda: StripeShape(4, 2, 1, block=0), RangeError, "block size .0"),
        (lambda: StripeShape(4, 2, 9).stored(6), FragmentIndexError, "fragment 6 .* 0 to 5"),
        (lambda: StripeShape(4, 2, 9).stored(-1), FragmentIndexError, "fragment -1"),
        (lambda: StripeShape(4, 2, 9).crc_index(0, 1), RangeError, r"block of fragment 0 \[1, 2\) .*\[0, 1\)"),
        (lambda: StripeShape(4, 2, 1).block_range(1, 0), RangeError, r"\[0, 0\)"),
        (lambda: StripeShape(4, 2, 9).pieces(0, 10), RangeError, r"\[0, 10\) .* \[0, 9\)"),
        (lambda: StripeShape(4, 2, 9).pieces(5, 4), RangeError, r"\[5, 4\)"),
        (lambda: StripeShape(4, 2, 9).blocks_covering(0, 4), RangeError, r"\[0, 4\) .* \[0, 3\)"),
        (lambda: cut(-1, 5), RangeError, "-1"),
        (lambda: cut(5, 0), RangeError, "stripe size .0"),
    ],
)
def test_wrong_numbers_are_refused_with_the_numbers(call, error, text):
    with pytest.raises(error, match=text):
        call()


def test_a_shape_is_a_value():
    assert StripeShape(4, 2, 10) == StripeShape(4, 2, 10, 1 << 20)
    with pytest.raises(dataclasses.FrozenInstanceError):
        StripeShape(4, 2, 10).length = 11
