"""The conformance suite on the server that fails as told, told nothing: what it does else is what S3 does."""

import pytest

from ckptstore.targets.testing import TargetTests, unique
from localstack.faulty import FaultyServer
from tests.conformance.conftest import BUCKET, ODD_ROOT
from tests.conformance.outsiders import BotocoreOutside


@pytest.fixture(scope="module")
def server(credentials):
    with FaultyServer(buckets=[BUCKET], credentials=credentials) as server:
        yield server


@pytest.fixture
def url():
    return f"s3://{BUCKET}/{unique()}/{ODD_ROOT}"


class TestFaultyByObstore(TargetTests):
    @pytest.fixture
    def opening(self, server, url):
        return {"name": "t", "url": url, "options": {"endpoint": server.endpoint}}

    @pytest.fixture
    def outside(self, server, url):
        return BotocoreOutside(server.endpoint, BUCKET, url.removeprefix(f"s3://{BUCKET}/"))


@pytest.mark.soak
class TestFaultyByS3fs(TestFaultyByObstore):
    @pytest.fixture
    def opening(self, server, url):
        return {"name": "t", "url": url, "options": {"endpoint": server.endpoint, "client": "fsspec"}}
