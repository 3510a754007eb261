"""Arithmetic over GF(2^8) on small matrices: the parity matrix, and what rebuilds lost fragments.

The field is reedsolo's: polynomial 0x11D, generator 2, first consecutive root 0.
"""

import functools
import threading
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import reedsolo

from erasure.errors import CodeShapeError, MatrixError, TooFewFragmentsError, UndecodableError

__all__ = [
    "MAX_FRAGMENTS",
    "MULTIPLY",
    "Recovery",
    "check_shape",
    "matrix_product",
    "parity_matrix",
    "recovery",
]

Matrix = npt.NDArray[np.uint8]

MAX_FRAGMENTS = 255
_POLYNOMIAL = 0x11D

# reedsolo keeps the tables of its field in module globals that every RSCodec() call rebuilds.
_reedsolo_lock = threading.Lock()


def _field_tables() -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Powers of the generator 2 (period 255), and their logarithms (the one of 0 is unused)."""
    exponent, logarithm = np.zeros(255, np.int64), np.zeros(256, np.int64)
    value = 1
    for power in range(255):
        exponent[power], logarithm[value] = value, power
        value = value << 1 ^ (_POLYNOMIAL if value & 0x80 else 0)
    return exponent, logarithm


_EXP, _LOG = _field_tables()


def _multiplication_table() -> Matrix:
    table: Matrix = _EXP[(_LOG[:, None] + _LOG[None, :]) % 255].astype(np.uint8)
    table[0, :] = table[:, 0] = 0
    table.flags.writeable = False
    return table


MULTIPLY = _multiplication_table()
"""(256, 256) uint8: MULTIPLY[a, b] is the product of a and b in the field."""


def check_shape(k: int, m: int) -> None:
    """Raise CodeShapeError unless k >= 1, m >= 0 and k + m <= 255."""
    if k < 1 or m < 0 or k + m > MAX_FRAGMENTS:
        raise CodeShapeError(k, m)


@functools.lru_cache(maxsize=64)
def parity_matrix(k: int, m: int) -> Matrix:
    """(m, k) uint8, read-only: parity = matrix x data, read out of reedsolo by encoding unit vectors.

    Raises CodeShapeError, and MatrixError if another user of reedsolo changed its globals meanwhile.
    """
    check_shape(k, m)
    columns = np.zeros((k, m), np.uint8)
    if m:
        with _reedsolo_lock:
            codec = reedsolo.RSCodec(m, nsize=k + m)
            for i in range(k):
                unit = bytearray(k)
                unit[i] = 1
                columns[i] = codec.encode(unit)[k:]
    matrix = np.ascontiguousarray(columns.T)
    if _syndromes(matrix).any():
        raise MatrixError(k, m, "what reedsolo gave isn't its code; is another thread using reedsolo?")
    matrix.flags.writeable = False
    return matrix


def _syndromes(matrix: Matrix) -> Matrix:
    """(m, k): column i is zero exactly if unit vector i and its parity form a code word.

    A code word is a polynomial with the roots 2^0 ... 2^(m-1) (Reed-Solomon, first consecutive root 0);
    fragment j holds the coefficient of x^(n-1-j). This determines the matrix, so it checks it whole.
    """
    m, k = matrix.shape
    roots = np.arange(m)[:, None]
    data_powers = _EXP[roots * np.arange(k + m - 1, m - 1, -1)[None, :] % 255].astype(np.uint8)
    parity_powers = _EXP[roots * np.arange(m - 1, -1, -1)[None, :] % 255].astype(np.uint8)
    return matrix_product(parity_powers, matrix) ^ data_powers


def matrix_product(a: Matrix, b: Matrix) -> Matrix:
    """(p, q) x (q, r) over the field, by way of all p * q * r products: at most 2.4 million where n <= 255."""
    product: Matrix = np.bitwise_xor.reduce(MULTIPLY[a[:, :, None], b[None, :, :]], axis=1)
    return product


class Recovery(NamedTuple):
    """How to rebuild: fragment wanted[r] is the sum over c of coefficients[r, c] x fragment sources[c]."""

    sources: tuple[int, ...]
    wanted: tuple[int, ...]
    coefficients: Matrix


def recovery(parity: Matrix, present: tuple[int, ...], wanted: tuple[int, ...]) -> Recovery:
    """Express the wanted fragments by k of the present ones, data fragments first.

    With L the lost data fragments, D the data present and P as many parity fragments as there are lost ones,
    P = A L + B D, so L = A^-1 (P + B D): only A, lost x lost, is inverted. `parity` is (m, k).
    `present` is sorted. Raises TooFewFragmentsError, and UndecodableError where a code that isn't MDS has no
    solution.
    """
    k = parity.shape[1]
    if len(present) < k:
        raise TooFewFragmentsError(len(present), k)
    data = [i for i in present if i < k]
    lost = sorted(set(range(k)).difference(data))
    spare = [i - k for i in present if i >= k]
    pivots, inverse = _solve(parity[spare][:, lost])
    if len(pivots) < len(lost):
        raise UndecodableError(present, tuple(lost))
    used = [spare[row] for row in pivots]
    rebuild = np.concatenate([matrix_product(inverse, parity[used][:, data]), inverse], axis=1)
    every_data = np.zeros((k, k), np.uint8)
    every_data[data, range(len(data))] = 1
    every_data[lost] = rebuild
    generator = np.concatenate([np.eye(k, dtype=np.uint8), parity])
    coefficients = matrix_product(generator[list(wanted)], every_data)
    return Recovery((*data, *(i + k for i in used)), wanted, coefficients)


def _solve(a: Matrix) -> tuple[list[int], Matrix]:
    """Gauss-Jordan: rows of the (p, q) matrix that make an invertible q x q one, and its inverse.

    No row comes back where the rank is below q. Row order in the inverse follows the columns of `a`,
    its columns follow the returned rows.
    """
    p, q = a.shape
    work = np.concatenate([a, np.eye(p, dtype=np.uint8)], axis=1)
    pivots: list[int] = []
    unused = np.ones(p, bool)
    for column in range(q):
        candidates = np.flatnonzero((work[:, column] != 0) & unused)
        if not candidates.size:
            return [], np.zeros((0, 0), np.uint8)
        pivot = int(candidates[0])
        inverse_element = _EXP[-_LOG[work[pivot, column]] % 255]
        work[pivot] = MULTIPLY[inverse_element, work[pivot]]
        factors = work[:, column].copy()
        factors[pivot] = 0
        work ^= MULTIPLY[factors[:, None], work[None, pivot]]
        pivots.append(pivot)
        unused[pivot] = False
    return pivots, work[pivots][:, [q + r for r in pivots]]
