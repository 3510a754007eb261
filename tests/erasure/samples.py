"""Test data."""

import numpy as np

from erasure import Code


def random_bytes(shape, seed=0):
    return np.random.default_rng(seed).integers(0, 256, shape, np.uint8)


def encoded(code: Code, length: int, seed: int = 0):
    """(n, length) fragments of random data."""
    fragments = np.empty((code.n, length), np.uint8)
    fragments[: code.k] = random_bytes((code.k, length), seed)
    code.encode(list(fragments[: code.k]), list(fragments[code.k :]))
    return fragments


def rebuild(code: Code, fragments, lost, wanted=None):
    """The wanted ones (default: all lost), rebuilt from all that aren't lost into memory that held something else."""
    present = {i: fragments[i] for i in range(code.n) if i not in lost}
    out = {i: np.full(fragments.shape[1], 0x5A, np.uint8) for i in (lost if wanted is None else wanted)}
    code.reconstruct(present, out)
    return out


def assert_rebuilds(code: Code, fragments, lost, wanted=None):
    for i, got in rebuild(code, fragments, lost, wanted).items():
        assert np.array_equal(got, fragments[i]), (code, lost, i)
