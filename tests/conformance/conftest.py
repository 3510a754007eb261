"""Servers for the conformance suites: once a test process, on free ports, so that xdist's workers don't meet."""

import os
from collections.abc import Iterator

import pytest

from localstack.servers import (
    GcsServer,
    LocalStackServer,
    RcloneServer,
    SeaweedServer,
    Server,
    new_credentials,
)

BUCKET = "my.bucket"  # a dot in the name (case O44)
ODD_ROOT = "p[x]/a#b/c%20d/e+f/with space/ü"  # above every object of every suite (case O44)


@pytest.fixture(scope="session")
def credentials() -> Iterator[dict[str, str]]:
    """One set for all servers of this process, in the environment, where clients look."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("AWS_")]:
            patch.delenv(name)
        values = new_credentials()
        for name, value in values.items():
            patch.setenv(name, value)
        yield values


@pytest.fixture(scope="session")
def seaweed(credentials: dict[str, str]) -> Iterator[Server]:
    with SeaweedServer(buckets=[BUCKET], credentials=credentials) as server:
        yield server


@pytest.fixture(scope="session")
def rclone(credentials: dict[str, str]) -> Iterator[Server]:
    with RcloneServer(buckets=[BUCKET], credentials=credentials) as server:
        yield server


@pytest.fixture(scope="session")
def localstack(credentials: dict[str, str]) -> Iterator[Server]:
    with LocalStackServer(buckets=[BUCKET], credentials=credentials) as server:
        yield server


@pytest.fixture(scope="session")
def gcs() -> Iterator[Server]:
    with GcsServer(buckets=[BUCKET]) as server, pytest.MonkeyPatch.context() as patch:
        for name, value in server.environment.items():
            patch.setenv(name, value)
        yield server
