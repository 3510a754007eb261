"""The protocol on registers in memory, where nothing comes back by waiting."""

import pytest

from manifests import attempts


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch):
    monkeypatch.setattr(attempts, "PAUSE", 0.0005)
