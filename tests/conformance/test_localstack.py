"""The conformance suite on LocalStack's S3, by obstore and by s3fs: `make test-localstack`."""

import pytest

from ckptstore.targets.testing import TargetTests, unique
from tests.conformance.conftest import BUCKET, ODD_ROOT
from tests.conformance.outsiders import BotocoreOutside, ObstoreOutside

pytestmark = pytest.mark.localstack


class TestLocalStackByObstore(TargetTests):
    @pytest.fixture
    def opening(self, localstack):
        url = f"s3://{BUCKET}/{unique()}/{ODD_ROOT}"
        return {"name": "t", "url": url, "options": {"endpoint": localstack.endpoint}}

    @pytest.fixture
    def outside(self, localstack, opening):
        return BotocoreOutside(localstack.endpoint, BUCKET, opening["url"].removeprefix(f"s3://{BUCKET}/"))


class TestLocalStackByS3fs(TargetTests):
    @pytest.fixture
    def opening(self, localstack):
        url = f"s3://{BUCKET}/{unique()}/{ODD_ROOT}"
        return {"name": "t", "url": url, "options": {"endpoint": localstack.endpoint, "client": "fsspec"}}

    @pytest.fixture
    def outside(self, localstack, opening):
        return ObstoreOutside(localstack.endpoint, BUCKET, opening["url"].removeprefix(f"s3://{BUCKET}/"))
