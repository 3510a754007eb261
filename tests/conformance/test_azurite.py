"""The conformance suite on Azurite, Azure's emulator, by obstore: `make test-azurite`."""

import pytest

from ckptstore.targets.testing import TargetTests, unique
from localstack.azurite import AzuriteServer
from tests.conformance.conftest import ODD_ROOT
from tests.conformance.outsiders import AzureOutside

pytestmark = [pytest.mark.azurite]

CONTAINER = "my-container"  # no dots: Azure has none in names of containers


@pytest.fixture(scope="session")
def azurite():
    with AzuriteServer(buckets=[CONTAINER]) as server, pytest.MonkeyPatch.context() as patch:
        for name, value in server.environment.items():
            patch.setenv(name, value)
        yield server


class TestAzureByObstore(TargetTests):
    @pytest.fixture
    def opening(self, azurite):
        url = f"az://{CONTAINER}/{unique()}/{ODD_ROOT}"
        return {"name": "t", "url": url, "options": {"endpoint": azurite.endpoint}}

    @pytest.fixture
    def outside(self, azurite, opening):
        return AzureOutside(azurite, CONTAINER, opening["url"].removeprefix(f"az://{CONTAINER}/"))
