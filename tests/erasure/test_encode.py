"""Every kernel encodes exactly as reedsolo does."""

import numpy as np
import pytest

from erasure import Code
from erasure.kernels.isal import IsalKernel, library_paths
from erasure.kernels.tables import TableKernel
from erasure.matrix import parity_matrix
from erasure.testing import reedsolo_parity, reedsolo_rebuild

from .samples import encoded, random_bytes

SHAPES = [(1, 1), (1, 5), (2, 1), (4, 2), (8, 4), (5, 7), (10, 6), (20, 13), (1, 254), (254, 1), (200, 55)]


@pytest.mark.parametrize(("k", "m"), SHAPES)
def test_parity_is_reedsolos(kernel, k, m):
    for length in (1, 31, 100) if k + m < 50 else (33,):
        fragments = encoded(Code(k, m, kernel=kernel), length)
        assert np.array_equal(fragments[k:], reedsolo_parity(fragments[:k], m))


def test_every_shape_up_to_twelve_fragments_is_reedsolos(kernel):
    for n in range(1, 13):
        for k in range(1, n + 1):
            fragments = encoded(Code(k, n - k, kernel=kernel), 17, seed=n)
            assert np.array_equal(fragments[k:], reedsolo_parity(fragments[:k], n - k))


def test_reedsolo_rebuilds_what_we_encoded(kernel):
    fragments = encoded(Code(8, 4, kernel=kernel), 50)
    assert np.array_equal(reedsolo_rebuild(fragments, [0, 3, 8, 11], 4), fragments)


@pytest.mark.parametrize("length", [0, 1, 15, 16, 17, 63, 64, 65, 4095, 4097, 70_001])
def test_kernels_agree_at_every_length_and_alignment(length):
    isal, tables = Code(7, 7), Code(7, 7, kernel=TableKernel())
    memory = random_bytes(14 * (length + 67 + 13))
    for shift in (0, 1, 13):
        rows = [memory[i * (length + 67) + shift * i :][:length] for i in range(14)]
        isal.encode(rows[:7], rows[7:])
        by_isal = [row.copy() for row in rows[7:]]
        tables.encode(rows[:7], rows[7:])
        assert all(np.array_equal(a, b) for a, b in zip(by_isal, rows[7:], strict=True))


def test_encode_touches_nothing_but_the_parity(kernel):
    memory = random_bytes(6 * 1000)
    before = memory.copy()
    rows = [memory[i * 1000 + 100 : i * 1000 + 900] for i in range(6)]
    Code(4, 2, kernel=kernel).encode(rows[:4], rows[4:])
    for i in (4, 5):
        assert not np.array_equal(rows[i], before[i * 1000 + 100 : i * 1000 + 900])
        rows[i][:] = before[i * 1000 + 100 : i * 1000 + 900]
    assert np.array_equal(memory, before)


def test_no_parity_encodes_to_nothing(kernel):
    data = [random_bytes(10) for _ in range(3)]
    Code(3, 0, kernel=kernel).encode(data, [])


def test_the_encoder_does_ranges(kernel):
    code = Code(4, 2, kernel=kernel)
    fragments = encoded(code, 1000)
    parity = [np.zeros(1000, np.uint8) for _ in range(2)]
    apply = code.encoder(list(fragments[:4]), parity)
    for start, stop in ((700, 1000), (0, 1), (1, 700)):
        apply(start, stop)
    assert np.array_equal(parity, fragments[4:])


def test_lengths_beyond_one_library_call(monkeypatch):
    monkeypatch.setattr("erasure.kernels.isal._MAX_CALL", 1000)
    kernel = IsalKernel(next(library_paths()))
    encode, lengths = kernel.encode, []
    kernel.encode = lambda length, *rest: lengths.append(length) or encode(length, *rest)
    fragments = encoded(Code(4, 2, kernel=kernel), 4321)
    assert lengths == [1000, 1000, 1000, 1000, 321]
    assert np.array_equal(fragments[4:], encoded(Code(4, 2, kernel=TableKernel()), 4321)[4:])


def test_an_encoder_outlives_its_code_and_buffers():
    def make():
        code = Code(20, 20)
        data = [random_bytes(3000, i) for i in range(20)]
        parity = [np.zeros(3000, np.uint8) for _ in range(20)]
        return code.encoder(data, parity), parity

    apply, parity = make()
    clutter = [np.full(32 * 400, 0xFF, np.uint8) for _ in range(50)]
    apply(0, 3000)
    expected = encoded_rows(20, 20, 3000)
    assert np.array_equal(parity, expected)
    assert len(clutter) == 50


def encoded_rows(k, m, length):
    parity = [np.zeros(length, np.uint8) for _ in range(m)]
    Code(k, m, kernel=TableKernel()).encode([random_bytes(length, i) for i in range(k)], parity)
    return parity


def test_a_code_knows_its_numbers():
    code = Code(8, 4)
    assert (code.k, code.m, code.n) == (8, 4, 12)
    assert repr(code) == "Code(k=8, m=4)"
    assert np.array_equal(code.parity_matrix, parity_matrix(8, 4))
    assert not code.parity_matrix.flags.writeable
