"""Credentials as the servers want them, and a store over three servers."""

import os

import pytest

from tests.faults.support import CREDENTIALS, served


@pytest.fixture(autouse=True)
def _environment(monkeypatch):
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def three(tmp_path):
    """2+1 over three servers; a save may be degraded."""
    with served(tmp_path, require_tolerance=0) as made:
        yield made


@pytest.fixture
def six(tmp_path):
    """4+2 over six servers."""
    with served(tmp_path, "abcdef", "4+2") as made:
        yield made
