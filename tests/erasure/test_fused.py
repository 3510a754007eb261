"""Encoding and checksumming a stripe in one pass (case O17)."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from erasure import Code, StripeShape, block_crcs, crc32c, cut, encode_stripe
from erasure.errors import (
    BufferCountError,
    BufferFormatError,
    BufferLengthError,
    BufferOverlapError,
    DirtyTailError,
    RangeError,
)
from erasure.kernels.isal import IsalChecksum, library_paths
from erasure.testing import naive_crc32c, reference_stripe

from .samples import random_bytes
from .test_stripes import edge_lengths


def encode(code, payload: bytes, block):
    """Fragments (padded to span), parity included, and the table."""
    shape = StripeShape(code.k, code.m, len(payload), block)
    stripe = np.zeros(code.k * shape.span, np.uint8)
    stripe[: len(payload)] = np.frombuffer(payload, np.uint8) if payload else []
    fragments = np.full((code.n, shape.span), 0x33, np.uint8)
    table = encode_stripe(code, stripe.reshape(code.k, -1), len(payload), fragments[code.k :], block)
    fragments[: code.k] = stripe.reshape(code.k, shape.span)
    return shape, fragments, np.frombuffer(table, "<u4").tolist()


@pytest.mark.parametrize(("k", "m"), [(1, 0), (1, 2), (3, 0), (4, 2), (5, 3)])
@pytest.mark.parametrize("block", [1, 7, 16])
def test_o17_odd_sizes_equal_the_reference(kernel, k, m, block):
    code = Code(k, m, kernel=kernel)
    for length in edge_lengths(k, block):
        payload = random_bytes(length, seed=length).tobytes()
        shape, fragments, table = encode(code, payload, block)
        stored, crcs = reference_stripe(payload, k, m, block)
        assert [fragments[i, : shape.stored(i)].tobytes() for i in range(code.n)] == stored
        assert table == crcs


def lose_and_rebuild(code, shape, fragments, lost):
    """The whole stored fragments again, from the stored (short) ones that are left."""
    present = {}
    for i in set(range(code.n)).difference(lost):
        present[i] = np.zeros(shape.span, np.uint8)
        present[i][: shape.stored(i)] = fragments[i, : shape.stored(i)]
    rebuilt = {i: np.full(shape.span, 0x77, np.uint8) for i in lost}
    code.reconstruct(present, rebuilt)
    return {i: (present | rebuilt)[i][: shape.stored(i)] for i in range(code.n)}


@pytest.mark.parametrize(("k", "m"), [(1, 2), (4, 2), (3, 3)])
def test_o17_odd_sizes_roundtrip(kernel, k, m):
    code, stripe_bytes, block = Code(k, m, kernel=kernel), k * 24, 8
    for length in edge_lengths(k, 24):
        payload = random_bytes(length, seed=length).tobytes()
        for lost in combinations(range(code.n), m):
            restored = b""
            for offset, size in cut(length, stripe_bytes):
                shape, fragments, table = encode(code, payload[offset : offset + size], block)
                again = lose_and_rebuild(code, shape, fragments, lost)
                assert all(np.array_equal(again[i], fragments[i, : shape.stored(i)]) for i in again)
                assert [crc for i in range(code.n) for crc in block_crcs(again[i], block)] == table
                restored += b"".join(again[i].tobytes() for i in range(k))
            assert restored == payload


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 6), st.integers(0, 4), st.integers(0, 3000), st.integers(1, 700), st.integers(1, 400))
def test_o17_any_size_block_and_step_equals_the_reference(k, m, length, block, step):
    payload = random_bytes(length, seed=length).tobytes()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("erasure.fused._STEP", step)
        shape, fragments, table = encode(Code(k, m), payload, block)
    stored, crcs = reference_stripe(payload, k, m, block)
    assert [fragments[i, : shape.stored(i)].tobytes() for i in range(k + m)] == stored
    assert table == crcs


def test_o17_a_whole_megabyte_block_and_one_byte():
    length = 4 * (1 << 20) + 1
    payload = random_bytes(length)
    code = Code(4, 2)
    shape, fragments, table = encode(code, payload.tobytes(), 1 << 20)
    assert shape.crc_count == len(table) == 12 - 1
    expected = [crc for i in range(6) for crc in block_crcs(fragments[i, : shape.stored(i)])]
    assert table == expected
    assert np.array_equal(fragments[:4].reshape(-1)[:length], payload)


def test_reused_buffers_may_be_longer_than_the_stripe():
    code, payload = Code(4, 2), random_bytes(103)
    rows = [np.full(100, 0x99, np.uint8) for _ in range(6)]
    for i, row in enumerate(rows[:4]):
        row[:26] = 0
        row[: min(26, 103 - 26 * i)] = payload[26 * i : 26 * (i + 1)]
    table = encode_stripe(code, rows[:4], 103, rows[4:], block=10)
    _, crcs = reference_stripe(payload.tobytes(), 4, 2, 10)
    assert np.frombuffer(table, "<u4").tolist() == crcs
    assert all((row[26:] == 0x99).all() for row in rows)


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 6), st.integers(0, 4), st.integers(0, 3000), st.integers(1, 700))
def test_data_fragments_may_lie_anywhere(k, m, length, block):
    payload, shape = random_bytes(length, seed=length), StripeShape(k, m, length, block)
    rows = [np.zeros(shape.span + i, np.uint8) for i in range(k)]
    for i, row in enumerate(rows):
        row[: shape.stored(i)] = payload[i * shape.span :][: shape.stored(i)]
        row[shape.span :] = 0x99
        row.flags.writeable = False
    parity = np.full((m, shape.span), 0x33, np.uint8)
    table = encode_stripe(Code(k, m), rows, length, parity, block)
    stored, crcs = reference_stripe(payload.tobytes(), k, m, block)
    assert [row.tobytes() for row in parity] == stored[k:]
    assert np.frombuffer(table, "<u4").tolist() == crcs


def test_the_table_is_little_endian():
    table = encode_stripe(Code(1, 0), [np.frombuffer(b"123456789", np.uint8)], 9, [])
    assert table == (0xE3069283).to_bytes(4, "little")


def test_an_empty_stripe_has_an_empty_table():
    assert encode_stripe(Code(4, 2), np.empty((4, 0), np.uint8), 0, np.empty((2, 0), np.uint8)) == b""


ROWS, PARITY = np.zeros((4, 10), np.uint8), np.zeros((2, 10), np.uint8)
ROW = ROWS[0]


@pytest.mark.parametrize(
    ("rows", "length", "parity", "error", "text"),
    [
        (ROWS, 40, np.zeros((3, 10), np.uint8), BufferCountError, "2 parity buffers are needed, 3"),
        (ROWS, 40, np.zeros((2, 9), np.uint8), BufferLengthError, "parity buffer 4 has 9 bytes where 10"),
        (ROWS, 40, [ROW, PARITY[0]], BufferOverlapError, "overlaps"),
        (ROWS, 40, [b"0123456789"] * 2, BufferFormatError, "a bytes"),
        (ROWS, -1, PARITY, RangeError, "-1"),
        (ROWS[:3], 40, PARITY, BufferCountError, "4 data buffers are needed, 3"),
        ([ROW, *[ROW[:9]] * 3], 40, PARITY, BufferLengthError, "data buffer 1 has 9"),
        (ROWS + 1, 37, PARITY, DirtyTailError, "7 to 9 must be zero"),
        ([b"0123456789"] * 4, 40, PARITY, BufferFormatError, "data buffer 0 .*a bytes"),
    ],
)
def test_wrong_arguments_are_refused_with_the_numbers(rows, length, parity, error, text):
    with pytest.raises(error, match=text):
        encode_stripe(Code(4, 2), rows, length, parity)


@given(st.binary(max_size=300), st.integers(0, 300), st.integers(0, 300))
def test_crc32c_equals_division_by_the_polynomial_and_continues(data, a, b):
    low, high = sorted((a, b))
    assert crc32c(data) == naive_crc32c(data)
    assert crc32c(data[high:], crc32c(data[low:high], crc32c(data[:low]))) == naive_crc32c(data)


@pytest.mark.parametrize("buffer", [b"123456789", bytearray(b"123456789"), memoryview(b"_123456789")[1:]])
def test_crc32c_takes_any_contiguous_buffer(buffer):
    assert crc32c(buffer) == 0xE3069283
    assert crc32c(np.frombuffer(buffer, np.uint8)) == 0xE3069283


def test_crc32c_of_typed_and_empty_arrays():
    words = np.arange(6, dtype="<u4").reshape(2, 3)
    assert crc32c(words) == naive_crc32c(words.tobytes())
    assert crc32c(b"") == 0
    assert crc32c(np.empty(0, np.float32), 77) == 77


def test_block_crcs():
    data = random_bytes(25).tobytes()
    assert block_crcs(data, 10).tolist() == [naive_crc32c(data[at : at + 10]) for at in (0, 10, 20)]
    assert block_crcs(b"").tolist() == []
    assert block_crcs(data).dtype == np.uint32


def test_checksums_beyond_one_library_call(monkeypatch):
    monkeypatch.setattr("erasure.kernels.isal._MAX_CALL", 100)
    checksum = IsalChecksum(next(library_paths()))
    crc, lengths = checksum.crc, []
    checksum.crc = lambda address, length, value: lengths.append(length) or crc(address, length, value)
    data = random_bytes(234)
    assert checksum.bind(data)(0, 234, 0) == naive_crc32c(data.tobytes())
    assert lengths == [100, 100, 34]


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: crc32c("text"), BufferFormatError, "a str"),
        (lambda: crc32c(ROW[::2]), BufferFormatError, "strided"),
        (lambda: crc32c(b"", 1 << 32), RangeError, "4294967296"),
        (lambda: crc32c(b"", -1), RangeError, "-1"),
        (lambda: block_crcs(b"abc", 0), RangeError, "block size"),
    ],
)
def test_wrong_checksum_arguments(call, error, text):
    with pytest.raises(error, match=text):
        call()
