"""SeaweedFS for real processes to race on."""

from collections.abc import Callable, Iterator

import pytest

from localstack.servers import SeaweedServers
from tests.faults.races.buckets import BucketWorld, bucket_world


@pytest.fixture(scope="module")
def buckets() -> Iterator[Callable[[], BucketWorld]]:
    """New stores, each on three servers."""
    with SeaweedServers(3) as servers, pytest.MonkeyPatch.context() as patch:
        for name, value in servers.environment.items():
            patch.setenv(name, value)
        yield lambda: bucket_world(servers)
