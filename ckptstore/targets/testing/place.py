"""What the parts of the suite share: the place under test, and a view of it from outside."""

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from ckptstore.targets.base import Target
from ckptstore.targets.opening import open_target

__all__ = ["Outside", "Place", "unique"]


class Outside(ABC):
    """A client of the same place that shares no code with the target."""

    @abstractmethod
    def read(self, path: str) -> bytes:
        """The object's bytes; `KeyError` where there is none."""

    @abstractmethod
    def write(self, path: str, data: bytes) -> None:
        """Put an object."""

    @abstractmethod
    def paths(self) -> set[str]:
        """Every object's path, as the service names it below the target's root."""


class Place:
    """The fixtures of every part: a target under test, in an empty place of its own for each test."""

    @pytest.fixture
    def opening(self) -> Mapping[str, Any]:
        """The arguments of `open_target` for an empty place."""
        raise NotImplementedError

    @pytest.fixture
    def outside(self) -> Outside:
        """The independent client of that place."""
        raise NotImplementedError

    @pytest.fixture
    def target(self, opening: Mapping[str, Any]) -> Iterator[Target]:
        """The target under test, as everything above gets it: with retries and health."""
        target = open_target(**opening)
        target.create_root()
        yield target
        target.close()


def unique() -> str:
    """A folder's name that no other test has."""
    return f"t-{os.urandom(6).hex()}"
