"""Wrong arguments raise typed errors with the numbers, and the errors survive pickling."""

import pickle

import numpy as np
import pytest

from erasure import Code, ErasureError, errors
from erasure.errors import (
    BufferCountError,
    BufferFormatError,
    BufferLengthError,
    BufferOverlapError,
    CodeShapeError,
    FragmentIndexError,
    MatrixError,
)

EXAMPLES = [
    errors.CodeShapeError(200, 56),
    errors.MatrixError(4, 2, "found int64 of shape (2, 4)"),
    errors.BufferFormatError("data", 3, "a bytes"),
    errors.BufferCountError("parity", 2, 3),
    errors.BufferLengthError("fragment", 5, 100, 99),
    errors.BufferOverlapError("parity"),
    errors.FragmentIndexError(7, 6, "wanted"),
    errors.TooFewFragmentsError(3, 4),
    errors.UndecodableError((0, 1), (2, 3)),
    errors.RangeError("stripe bytes", 0, 10, 9),
    errors.DirtyTailError(37, 40),
    errors.KernelError("isal", "4+3, one byte"),
]


def test_every_error_has_an_example_here():
    named = {getattr(errors, name) for name in errors.__all__}
    assert {type(e) for e in EXAMPLES} == named - {ErasureError, errors.KernelWarning}


@pytest.mark.parametrize("error", EXAMPLES, ids=lambda e: type(e).__name__)
def test_errors_survive_pickling_with_their_fields(error):
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert vars(again) == vars(error)
    assert vars(error)
    assert str(again) == str(error)
    assert isinstance(error, ErasureError)
    assert isinstance(error, ValueError)


def rows(count, size=8):
    return [np.zeros(size, np.uint8) for _ in range(count)]


READ_ONLY = np.zeros(8, np.uint8)
READ_ONLY.flags.writeable = False


@pytest.mark.parametrize(
    ("data", "parity", "error", "text"),
    [
        (rows(3), rows(2), BufferCountError, "4 data buffers are needed, 3 were given"),
        ([], rows(2), BufferCountError, "4 data buffers are needed, 0"),
        (rows(4), rows(3), BufferCountError, "2 parity buffers are needed, 3"),
        (rows(3) + rows(1, 9), rows(2), BufferLengthError, "fragment buffer 3 has 9 bytes where 8"),
        (rows(4), rows(1) + rows(1, 7), BufferLengthError, "fragment buffer 5 has 7 bytes where 8"),
        ([*rows(3), bytes(8)], rows(2), BufferFormatError, "data buffer 3 .*not a bytes"),
        ([*rows(3), np.zeros(8, np.int8)], rows(2), BufferFormatError, "contiguous int8"),
        ([*rows(3), np.zeros((2, 4), np.uint8)], rows(2), BufferFormatError, r"shape \(2, 4\)"),
        ([*rows(3), np.zeros(16, np.uint8)[::2]], rows(2), BufferFormatError, "strided"),
        (rows(4), [*rows(1), READ_ONLY], BufferFormatError, "parity buffer 5 .*read-only"),
    ],
)
def test_encode_refuses(data, parity, error, text):
    with pytest.raises(error, match=text):
        Code(4, 2).encode(data, parity)


def test_encode_takes_read_only_data():
    parity = rows(2)
    Code(2, 2).encode([READ_ONLY, READ_ONLY], parity)
    assert not np.any(parity)


@pytest.mark.parametrize("shift", [-7, 0, 7])
def test_outputs_that_overlap_a_source_are_refused(shift):
    memory = np.zeros(100, np.uint8)
    with pytest.raises(BufferOverlapError, match="parity"):
        Code(2, 2).encode([memory[40:48], memory[60:68]], [memory[60 + shift : 68 + shift], memory[90:98]])


def test_outputs_that_overlap_each_other_are_refused():
    memory = np.zeros(100, np.uint8)
    with pytest.raises(BufferOverlapError, match="wanted"):
        Code(2, 2).reconstruct({0: memory[:8], 1: memory[8:16]}, {2: memory[40:48], 3: memory[47:55]})


def test_an_output_over_an_unused_present_fragment_is_refused():
    memory = np.zeros(100, np.uint8)
    present = {0: memory[:8], 1: memory[8:16], 2: memory[16:24]}
    with pytest.raises(BufferOverlapError):
        Code(2, 2).reconstruct(present, {3: memory[20:28]})


def test_buffers_may_touch():
    memory = np.zeros(32, np.uint8)
    parts = [memory[i : i + 8] for i in range(0, 32, 8)]
    Code(2, 2).encode([parts[1], parts[2]], [parts[0], parts[3]])


@pytest.mark.parametrize(
    ("present", "wanted", "error", "text"),
    [
        ((0, 1, 2, 6), (3,), FragmentIndexError, "present fragment 6 doesn't exist: fragments are 0 to 5"),
        ((0, 1, 2, 3), (6,), FragmentIndexError, "wanted fragment 6"),
        ((0, 1, 2, 3), (-1,), FragmentIndexError, "wanted fragment -1"),
        ((0, 1, 2, 3), (3,), FragmentIndexError, "is both present and wanted"),
    ],
)
def test_reconstruct_refuses_indices(present, wanted, error, text):
    with pytest.raises(error, match=text):
        Code(4, 2).reconstruct(dict.fromkeys(present, READ_ONLY), {i: np.zeros(8, np.uint8) for i in wanted})


def test_reconstruct_refuses_buffers():
    present = dict(enumerate(rows(4)))
    with pytest.raises(BufferLengthError, match="fragment buffer 5 has 9 bytes where 8"):
        Code(4, 2).reconstruct(present, {5: np.zeros(9, np.uint8)})
    with pytest.raises(BufferLengthError, match="fragment buffer 4 has 3 bytes where 8"):
        Code(4, 2).reconstruct({**present, 4: np.zeros(3, np.uint8)}, {5: np.zeros(8, np.uint8)})
    with pytest.raises(BufferFormatError, match="present buffer 2"):
        Code(4, 2).reconstruct({**present, 2: bytes(8)}, {5: np.zeros(8, np.uint8)})
    with pytest.raises(BufferFormatError, match=r"wanted buffer 5 .*read-only"):
        Code(4, 2).reconstruct(present, {5: READ_ONLY})


@pytest.mark.parametrize(
    ("matrix", "k", "m", "error", "text"),
    [
        (np.zeros((2, 3), np.uint8), 4, 2, MatrixError, r"needs a \(2, 4\) uint8 .*found uint8 of shape \(2, 3\)"),
        ([[1, 2, 3, 4]], 4, 1, MatrixError, "found int64"),
        (np.zeros((2, 254), np.uint8), 254, 2, CodeShapeError, "256"),
    ],
)
def test_recorded_matrices_that_do_not_fit_are_refused(matrix, k, m, error, text):
    with pytest.raises(error, match=text):
        Code.from_matrix(matrix, k, m)
