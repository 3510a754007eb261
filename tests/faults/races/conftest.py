"""SeaweedFS for real processes to race on."""

import os
from collections.abc import Callable, Iterator

import pytest

from localstack.servers import SeaweedServers
from tests.faults.races.buckets import BucketWorld, bucket_world


@pytest.fixture
def buckets(_environment, monkeypatch) -> Iterator[Callable[[], BucketWorld]]:
    """New stores, each on three servers, whose credentials take the place of all others."""
    with SeaweedServers(3) as servers:
        for name in [name for name in os.environ if name.startswith("AWS_")]:
            monkeypatch.delenv(name)
        for name, value in servers.environment.items():
            monkeypatch.setenv(name, value)
        yield lambda: bucket_world(servers)
