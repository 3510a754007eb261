"""The parity matrix is reedsolo's, and small matrices over the field are solved rightly."""

import itertools
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import reedsolo

from erasure import matrix
from erasure.errors import CodeShapeError, MatrixError
from erasure.testing import reedsolo_parity

EXTREMES = [(1, 254), (254, 1), (1, 1), (200, 55), (128, 127), (4, 2), (8, 4), (17, 3)]


@pytest.mark.parametrize(("k", "m"), EXTREMES)
def test_columns_are_reedsolo_parities_of_unit_vectors(k, m):
    assert np.array_equal(matrix.parity_matrix(k, m), reedsolo_parity(np.eye(k, dtype=np.uint8), m))


def test_no_parity_gives_an_empty_matrix():
    assert matrix.parity_matrix(5, 0).shape == (0, 5)


def test_shortened_codes_are_parts_of_the_longest():
    longest = matrix.parity_matrix(200, 55)
    for k in (1, 2, 37, 199):
        assert np.array_equal(matrix.parity_matrix(k, 55), longest[:, 200 - k :])


def test_matrix_is_read_only():
    with pytest.raises(ValueError, match="read-only"):
        matrix.parity_matrix(4, 2)[0, 0] = 1


@pytest.mark.parametrize(("k", "m"), [(0, 1), (-1, 3), (1, -1), (0, 0), (200, 56), (255, 1), (1, 255), (256, 0)])
def test_o41_pairs_that_cannot_be_are_refused_with_the_numbers(k, m):
    with pytest.raises(CodeShapeError, match=f"k={k} .*m={m} .*<= 255") as caught:
        matrix.parity_matrix(k, m)
    assert (caught.value.k, caught.value.m) == (k, m)


def test_a_reedsolo_that_answers_wrongly_is_found(monkeypatch):
    honest = reedsolo.RSCodec.encode

    def lying(codec, data):
        word = honest(codec, data)
        word[-1] ^= 1 if data[0] else 0
        return word

    monkeypatch.setattr(reedsolo.RSCodec, "encode", lying)
    with pytest.raises(MatrixError, match="another thread"):
        matrix.parity_matrix.__wrapped__(6, 3)


def test_one_thread_at_a_time_uses_reedsolos_globals(monkeypatch):
    owner, intruders = [], []
    honest = reedsolo.RSCodec

    class Watched(honest):
        def __init__(self, *arguments, **options):
            owner[:] = [threading.get_ident()]
            super().__init__(*arguments, **options)
            time.sleep(0.005)

        def encode(self, data):
            intruders.extend(set(owner) - {threading.get_ident()})
            return super().encode(data)

    monkeypatch.setattr(reedsolo, "RSCodec", Watched)
    shapes = [(k, m) for k in (5, 9, 30) for m in (2, 7)]
    with ThreadPoolExecutor(len(shapes)) as pool:
        found = list(pool.map(lambda shape: matrix.parity_matrix.__wrapped__(*shape), shapes))
    assert intruders == []
    assert [each.shape for each in found] == [(m, k) for k, m in shapes]


def test_multiplication_table_against_reedsolo():
    reedsolo.init_tables(0x11D)
    for a, b in itertools.product(range(0, 256, 5), range(256)):
        assert matrix.MULTIPLY[a, b] == reedsolo.gf_mul(a, b)
