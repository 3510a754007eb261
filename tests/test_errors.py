"""Errors travel between ranks by pickle, with every field; the tree in the docstring is the tree."""

import copy
import inspect
import pickle
import re

import pytest

import manifests
from ckptstore import errors
from ckptstore.errors import CkptStoreError, TargetError
from ckptstore.protocolerrors import _PROTOCOL_ERRORS, protocol_errors
from ckptstore.targets import Reason

CLASSES = [getattr(errors, name) for name in errors.__all__]
FIELDS = {"key": "layer.0", "ranks": [1, 2], "reached": 0, "reason": Reason.TIMEOUT, "retry_after": 1.5}


@pytest.mark.parametrize("cls", CLASSES)
@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_every_error_pickles_with_its_fields(cls, protocol):
    place = {"target": "a", "path": "data/x"} if issubclass(cls, TargetError) else {}
    error = cls("what happened", hint="what to do", **place, **FIELDS)
    found = pickle.loads(pickle.dumps(error, protocol))
    assert type(found) is cls
    assert (found.message, found.hint, found.fields) == (error.message, error.hint, error.fields)
    assert found.fields == {**place, **FIELDS}
    assert str(found) == str(error) == "what happened\n  next: what to do"
    assert found.key == "layer.0"
    assert found.kind == cls.__name__


@pytest.mark.parametrize("cls", CLASSES)
def test_every_error_can_be_copied(cls):
    error = copy.deepcopy(cls("what", key=[1]))
    assert error.key == [1]
    assert error.hint is None


def test_an_unknown_field_is_an_attribute_error():
    with pytest.raises(AttributeError, match="nothing"):
        _ = CkptStoreError("what").nothing
    assert not hasattr(CkptStoreError.__new__(CkptStoreError), "fields")


def test_all_is_every_error_of_the_module():
    defined = {name for name, value in vars(errors).items() if inspect.isclass(value) and issubclass(value, Exception)}
    assert defined == set(errors.__all__)


def test_the_tree_in_the_docstring_is_the_tree():
    lines = [line for line in errors.__doc__.splitlines() if re.match(r"[ │]*[├└]──|    CkptStoreError", line)]
    parents: list[str] = []
    for line in lines:
        name = re.search(r"\w+", line)[0]
        depth = (line.index(name) - 4) // 4
        parents[depth:] = [name]
        if depth:
            assert getattr(errors, name).__base__.__name__ == parents[depth - 1], name
        told = re.search(r"exit (\d+)", line)
        assert told is None or getattr(errors, name).exit_code == int(told[1]), name
    assert {re.search(r"\w+", line)[0] for line in lines} == set(errors.__all__)


def test_exit_codes_are_those_promised():
    assert {cls.exit_code for cls in CLASSES} <= {1, 2, 4, 5, 10, 11, 12}


@pytest.mark.parametrize("cls", [*_PROTOCOL_ERRORS, manifests.SizeMismatch])
def test_errors_of_the_protocol_become_ours_with_their_fields(cls):
    with pytest.raises(CkptStoreError) as caught, protocol_errors():
        raise cls("what happened", register="a", path="runs/x", reasons={"b": "down"})
    assert isinstance(caught.value.__cause__, cls)
    assert caught.value.reasons == {"b": "down"}
    assert caught.value.path == "runs/x"
    assert caught.value.hint
    assert pickle.loads(pickle.dumps(caught.value)).fields == caught.value.fields
