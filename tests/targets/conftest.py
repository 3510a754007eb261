"""An S3 server that fails as told, and credentials of which nobody may ever read more than these tests do."""

import os

import pytest

from localstack.faulty import FaultyServer

SECRET = "a-secret-that-nobody-prints"


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    """Credentials where clients look for them, and no others."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_REGION", "us-east-1")


@pytest.fixture
def server():
    with FaultyServer() as server:
        yield server
