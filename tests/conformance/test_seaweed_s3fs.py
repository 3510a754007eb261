"""The conformance suite on SeaweedFS's S3, by s3fs."""

import pytest

from ckptstore.targets.testing import TargetTests, unique
from tests.conformance.conftest import BUCKET, ODD_ROOT
from tests.conformance.outsiders import ObstoreOutside

pytestmark = pytest.mark.servers


class TestSeaweedByS3fs(TargetTests):
    @pytest.fixture
    def opening(self, seaweed):
        url = f"s3://{BUCKET}/{unique()}/{ODD_ROOT}"
        return {"name": "t", "url": url, "options": {"endpoint": seaweed.endpoint, "client": "fsspec"}}

    @pytest.fixture
    def outside(self, seaweed, opening):
        return ObstoreOutside(seaweed.endpoint, BUCKET, opening["url"].removeprefix(f"s3://{BUCKET}/"))
