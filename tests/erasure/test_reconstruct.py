"""Any k fragments give every other one (cases O17 and O41)."""

import functools
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations

import numpy as np
import pytest

from erasure import Code
from erasure.errors import TooFewFragmentsError, UndecodableError
from erasure.kernels.tables import TableKernel
from erasure.matrix import MULTIPLY, matrix_product, recovery
from erasure.testing import reedsolo_rebuild

from .samples import assert_rebuilds, encoded, random_bytes, rebuild


@pytest.mark.parametrize("n", [*range(1, 11), *(pytest.param(n, marks=pytest.mark.soak) for n in (11, 12))])
def test_o41_all_losses_of_every_code_up_to_twelve_fragments(n):
    for k in range(1, n + 1):
        code = Code(k, n - k)
        fragments = encoded(code, 33, seed=k)
        for size in range(n - k + 1):
            for lost in combinations(range(n), size):
                assert_rebuilds(code, fragments, lost)


@pytest.mark.parametrize("n", [2, 5, 8, 10])
def test_o41_all_full_losses_by_the_numpy_kernel(n):
    for k in range(1, n + 1):
        code = Code(k, n - k, kernel=TableKernel())
        fragments = encoded(code, 9, seed=k)
        for lost in combinations(range(n), n - k):
            assert_rebuilds(code, fragments, lost)


@pytest.mark.parametrize(
    ("k", "m", "samples"),
    [(9, 9, 3000), (20, 10, 200), (50, 14, 100), (100, 20, 30), (128, 127, 3), (200, 55, 5)],
)
def test_o41_sampled_losses_of_size_m_to_255_fragments(k, m, samples):
    code = Code(k, m)
    fragments = encoded(code, 5)
    draw = np.random.default_rng(k)
    for _ in range(samples):
        assert_rebuilds(code, fragments, draw.permutation(code.n)[:m].tolist())


def test_o41_all_full_losses_of_a_code_that_vandermonde_matrices_fail_at():
    """Of the 3003 patterns of 10 + 5, ten can't be undone by a plain Vandermonde code."""
    code = Code(10, 5)
    fragments = encoded(code, 5)
    for lost in combinations(range(15), 5):
        assert_rebuilds(code, fragments, lost)


@pytest.mark.parametrize(
    ("step", "samples"), [(17, 1), pytest.param(1, 10, marks=[pytest.mark.soak, pytest.mark.timeout(3600)])]
)
def test_o41_every_number_of_parities(step, samples):
    """The longest code for each m. A shorter one is it with data fragments of zeros, which no loss changes."""
    for m in range(1, 255, step):
        code = Code(255 - m, m)
        generator = np.vstack([np.eye(code.k, dtype=np.uint8), code.parity_matrix])
        draw = np.random.default_rng(m)
        for _ in range(samples):
            lost = tuple(sorted(draw.permutation(255)[:m].tolist()))
            present = tuple(i for i in range(255) if i not in lost)
            found = recovery(code.parity_matrix, present, lost)
            again = matrix_product(found.coefficients, generator[list(found.sources)])
            assert np.array_equal(again, generator[list(lost)]), (m, lost)


@pytest.mark.parametrize(("k", "m"), [(1, 254), (254, 1), (1, 1), (2, 253)])
def test_o41_extreme_codes(kernel, k, m):
    code = Code(k, m, kernel=kernel)
    fragments = encoded(code, 40)
    for lost in (range(m), range(code.n - m, code.n), range(k - 1, k - 1 + m)):
        assert_rebuilds(code, fragments, list(lost))


def test_rebuilds_as_reedsolo_does(kernel):
    code = Code(8, 4, kernel=kernel)
    fragments = encoded(code, 60)
    lost = [1, 2, 9, 10]
    damaged = fragments.copy()
    damaged[lost] = 0
    expected = reedsolo_rebuild(damaged, lost, 4)
    for i, got in rebuild(code, damaged, lost).items():
        assert np.array_equal(got, expected[i])


def test_only_the_wanted_are_rebuilt_from_any_k(kernel):
    code = Code(6, 4, kernel=kernel)
    fragments = encoded(code, 100)
    for lost in combinations(range(10), 4):
        assert_rebuilds(code, fragments, lost, wanted=lost[2:3])


def test_the_order_of_the_mappings_does_not_matter(kernel):
    code = Code(4, 3, kernel=kernel)
    fragments = encoded(code, 50)
    out = {6: np.empty(50, np.uint8), 0: np.empty(50, np.uint8)}
    code.reconstruct({i: fragments[i] for i in (5, 2, 4, 1)}, out)
    assert np.array_equal(out[0], fragments[0])
    assert np.array_equal(out[6], fragments[6])


def test_nothing_wanted_and_nothing_long(kernel):
    code = Code(4, 2, kernel=kernel)
    code.reconstruct({i: random_bytes(8) for i in range(4)}, {})
    code.reconstruct({i: np.empty(0, np.uint8) for i in range(4)}, {5: np.empty(0, np.uint8)})


def test_too_few_present_says_how_many_more():
    code = Code(4, 2)
    with pytest.raises(TooFewFragmentsError, match="3 fragments are present, 4 are needed: fetch 1 more") as caught:
        code.reconstruct({i: random_bytes(8) for i in range(3)}, {5: random_bytes(8)})
    assert (caught.value.present, caught.value.k) == (3, 4)


def test_a_recorded_matrix_decodes_what_it_encoded(kernel):
    cauchy = np.array([[MULTIPLY[1].tolist().index(1)] * 5, [1, 2, 4, 8, 16], [1, 3, 5, 15, 17]], np.uint8)
    code = Code.from_matrix(cauchy, 5, 3, kernel=kernel)
    fragments = encoded(code, 77)
    assert np.array_equal(fragments[5], np.bitwise_xor.reduce(fragments[:5]))
    for lost in combinations(range(8), 1):
        assert_rebuilds(code, fragments, lost)


def test_a_code_with_local_parities_uses_those_that_help(kernel):
    local = np.array([[1, 1, 0, 0], [0, 0, 1, 1], [1, 2, 3, 4]], np.uint8)
    code = Code.from_matrix(local, 4, 3, kernel=kernel)
    fragments = encoded(code, 64)
    assert_rebuilds(code, fragments, (2,))
    assert_rebuilds(code, fragments, (2, 3))
    with pytest.raises(UndecodableError, match=r"can't rebuild data fragments \[2, 3\]") as caught:
        rebuild(code, fragments, (2, 3, 6))
    assert caught.value.missing == (2, 3)
    assert caught.value.present == (0, 1, 4, 5)


def test_the_recorded_matrix_is_copied():
    recorded = Code(4, 2).parity_matrix.copy()
    code = Code.from_matrix(recorded, 4, 2)
    recorded[:] = 0
    assert np.array_equal(code.parity_matrix, Code(4, 2).parity_matrix)


def test_data_fragments_are_preferred_as_sources():
    found = recovery(Code(4, 3).parity_matrix, (0, 2, 3, 4, 5, 6), (1,))
    assert found.sources == (0, 2, 3, 4)


def test_recovery_multiplies_back_to_the_identity():
    code = Code(12, 8)
    generator = np.vstack([np.eye(12, dtype=np.uint8), code.parity_matrix])
    lost = (0, 1, 5, 11, 12, 14, 19)
    found = recovery(code.parity_matrix, tuple(i for i in range(20) if i not in lost), lost)
    assert np.array_equal(matrix_product(found.coefficients, generator[list(found.sources)]), generator[list(lost)])


def test_recoveries_are_prepared_once_for_each_pattern(monkeypatch):
    made = []

    def counting(*arguments):
        made.append(arguments[1:])
        return recovery(*arguments)

    monkeypatch.setattr("erasure.code.recovery", counting)
    code = Code(4, 2)
    fragments = encoded(code, 20)
    for _ in range(3):
        assert_rebuilds(code, fragments, (0, 1))
    assert_rebuilds(code, fragments, (0, 1), wanted=(1,))
    assert made == [((2, 3, 4, 5), (0, 1)), ((2, 3, 4, 5), (1,))]


def test_threads_share_one_code():
    code = Code(6, 4)
    fragments = encoded(code, 20_000)
    patterns = list(combinations(range(10), 4))
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(functools.partial(assert_rebuilds, code, fragments), patterns * 2))
