"""The protocol on registers in memory, where nothing comes back by waiting."""

import pytest

from manifests import quorum


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch):
    monkeypatch.setattr(quorum, "PAUSE", 0.0005)
