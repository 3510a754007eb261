"""Stores that `ckpt` made."""

import pytest

from tests.cli.support import Ckpt, write_tensors


@pytest.fixture
def empty(tmp_path):
    """A store on six directories, nothing in it."""
    ckpt = Ckpt(tmp_path)
    assert ckpt("init").code == 0
    return ckpt


@pytest.fixture
def ckpt(empty):
    """A store with the checkpoint step-7; its tensors are in in.safetensors."""
    write_tensors(empty.folder / "in.safetensors", 7)
    assert empty("save", empty.folder / "in.safetensors", "--step", 7).code == 0
    return empty
