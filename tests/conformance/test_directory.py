"""The conformance suite on a local directory."""

import pytest

from ckptstore.targets.testing import TargetTests
from tests.conformance.conftest import ODD_ROOT
from tests.conformance.outsiders import FolderOutside


class TestDirectory(TargetTests):
    @pytest.fixture
    def opening(self, tmp_path):
        return {"name": "t", "url": tmp_path / ODD_ROOT}

    @pytest.fixture
    def outside(self, opening):
        return FolderOutside(opening["url"])
