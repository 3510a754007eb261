"""The conformance suite on fake-gcs-server, by gcsfs."""

import pytest

from ckptstore.targets.testing import TargetTests, unique
from tests.conformance.conftest import BUCKET, ODD_ROOT
from tests.conformance.outsiders import GcsOutside

pytestmark = [pytest.mark.servers]


class TestGcsByGcsfs(TargetTests):
    @pytest.fixture
    def opening(self, gcs):
        url = f"fsspec+gs://{BUCKET}/{unique()}/{ODD_ROOT}"
        return {"name": "t", "url": url, "options": {"endpoint": gcs.endpoint}}

    @pytest.fixture
    def outside(self, gcs, opening):
        return GcsOutside(gcs.endpoint, BUCKET, opening["url"].removeprefix(f"fsspec+gs://{BUCKET}/"))
