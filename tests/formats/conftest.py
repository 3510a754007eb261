"""Stores that formats are brought into and out of."""

import pytest

from tests.formats.support import make_place


@pytest.fixture
def place(tmp_path):
    """A store of a test's own."""
    return make_place(tmp_path)


@pytest.fixture(scope="module")
def untouched(tmp_path_factory):
    """A store that nothing is written to."""
    return make_place(tmp_path_factory.mktemp("untouched"))
