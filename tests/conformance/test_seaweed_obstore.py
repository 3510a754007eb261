"""The conformance suite on SeaweedFS's S3, by obstore."""

import pytest

from ckptstore.targets.testing import TargetTests, unique
from tests.conformance.conftest import BUCKET, ODD_ROOT
from tests.conformance.outsiders import BotocoreOutside

pytestmark = [pytest.mark.servers]


class TestSeaweedByObstore(TargetTests):
    @pytest.fixture
    def opening(self, seaweed):
        url = f"s3://{BUCKET}/{unique()}/{ODD_ROOT}"
        return {"name": "t", "url": url, "options": {"endpoint": seaweed.endpoint}}

    @pytest.fixture
    def outside(self, seaweed, opening):
        return BotocoreOutside(seaweed.endpoint, BUCKET, opening["url"].removeprefix(f"s3://{BUCKET}/"))
