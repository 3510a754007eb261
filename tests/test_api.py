"""The public API is what `__all__` says: every name is there, documented, and works as the documentation shows."""

import importlib
import inspect
import pkgutil
import signal

import pytest

import ckptstore
import erasure
import manifests
from ckptstore.errors import UsageError

PUBLIC = [ckptstore, erasure, manifests]
ROOMS = sorted(
    info.name
    for package in PUBLIC
    for info in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    if not info.name.endswith("__main__")
)


@pytest.mark.parametrize("package", PUBLIC, ids=lambda package: package.__name__)
def test_all_is_true(package):
    assert sorted(package.__all__) == sorted(set(package.__all__))
    missing = [name for name in package.__all__ if not hasattr(package, name)]
    assert not missing


@pytest.mark.parametrize("name", ROOMS)
def test_every_public_name_is_documented(name):
    module = importlib.import_module(name)
    assert (module.__doc__ or "").strip(), f"{name} doesn't say what it is"
    for public in getattr(module, "__all__", []):
        thing = getattr(module, public)
        if inspect.isclass(thing) or inspect.isfunction(thing):
            assert (thing.__doc__ or "").strip(), f"{name}.{public} isn't documented"


def test_open_needs_a_store_to_be_named(monkeypatch):
    monkeypatch.delenv("CKPT_STORE", raising=False)
    with pytest.raises(ckptstore.CkptStoreError, match="CKPT_STORE"):
        ckptstore.open()


@pytest.mark.parametrize("grace", [-1, -0.5, float("nan")])
def test_a_grace_that_is_no_time_is_refused(grace):
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(UsageError, match="seconds from 0"):
        ckptstore.finish_on_sigterm(grace)
    assert signal.getsignal(signal.SIGTERM) is before
