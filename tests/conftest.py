"""Settings of all tests."""

import os
import shutil
import signal
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("ckptstore", deadline=None)  # a busy machine is no failure
settings.load_profile("ckptstore")

signal.signal(signal.SIGINT, signal.default_int_handler)
"""Also where the tests run behind `&` in a script, which has SIGINT ignored, by every child as well."""

MEMORY = Path("/dev/shm")
ROOM = 8 << 30
"""Bytes; the whole suite holds about a tenth of it at a time."""

if MEMORY.is_dir() and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free >= ROOM:
    # Stores are made and synced by the thousand: on a disk the tests wait for it three quarters of their time.
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))

LONG = (
    "test_campaign.py",
    "test_crash_sweep.py",
    "test_scale.py",
    "test_resume.py",
    "test_ranks.py",
    "test_storage_ranks.py",
    "test_explorer.py",
    "test_lives.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files that take long on their own go first: at the end all but one process would wait for the last of them."""
    items.sort(key=lambda item: LONG.index(item.path.name) if item.path.name in LONG else len(LONG))
