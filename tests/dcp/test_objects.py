"""Typed JSON: every value comes back as what it was, and hostile bytes do nothing but raise."""

import base64
import io
import json
import math
import os
import pickle
import random
import struct
import subprocess
import sys
from collections import OrderedDict, defaultdict

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ckptstore.dcp.objects import decode, encode, from_torch_zip, to_torch_zip
from ckptstore.dtypes import DTYPES, OBJECT
from ckptstore.errors import CorruptError, UnsupportedValue
from tests.dcp.equality import same

TENSOR_DTYPES = [name for name in DTYPES if name != OBJECT]


nan_with_payload = struct.unpack("<d", struct.pack("<Q", 0xFFF8_0000_0000_BEEF))[0]
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.complex_numbers()
    | st.text(st.characters(codec=None))
    | st.binary()
)
hashable = st.recursive(scalars.filter(lambda value: value == value), lambda inner: st.tuples(inner, inner))  # noqa: PLR0124
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(hashable, inner, max_size=4)
        | st.dictionaries(hashable, inner, max_size=4).map(OrderedDict)
        | st.sets(hashable, max_size=4)
        | st.frozensets(hashable, max_size=4)
    ),
    max_leaves=12,
)


@given(values)
def test_any_value_comes_back_with_its_types(value):
    assert same(decode(encode(value)), value)


@pytest.mark.parametrize(
    "value",
    [
        -0.0,
        math.inf,
        -math.inf,
        nan_with_payload,
        complex(-0.0, nan_with_payload),
        2**53,
        2**53 + 1,
        -(10**6000),
        "\ud83d\ude00",  # two surrogates, which are not the one character that they would form
        "\udfff",
        bytearray(b"\0\xff"),
        {1: "int", "1": "str", (1, None): "tuple", b"1": "bytes", 2.5: "float", None: 0},
        OrderedDict(b=1, a=2),
        torch.float8_e4m3fn,
        torch.Size([3, 0]),
        torch.device("cuda", 3),
        np.float32(0.1),
        np.bool_(True),
        np.datetime64("2020-02-29"),
        np.str_("x"),
        np.array(7, dtype=">i2"),
        np.array([["a", "bcd"]]),
        np.zeros((0, 5), dtype=np.complex64),
        np.arange(12).reshape(3, 4)[::-1, ::2],
        {"list": [torch.tensor(3.0)], "set": {1}},
        random.getstate(),
        np.random.get_state(),  # noqa: NPY002
        np.random.default_rng(7).bit_generator.state,
    ],
    ids=lambda value: f"{type(value).__name__}",
)
def test_o34_python_and_numpy_values_come_back_with_their_types(value):
    assert same(decode(encode(value)), value)


@pytest.mark.parametrize("name", TENSOR_DTYPES)
def test_o36_every_dtype_keeps_its_bits_inside_an_object(name):
    dtype = getattr(torch, name)
    bits = torch.arange(256 * dtype.itemsize, dtype=torch.int64).mul(37).to(torch.uint8)
    tensor = bits.view(dtype).reshape(16, 16)
    assert same(decode(encode([tensor, tensor.t(), tensor[0, 0]])), [tensor, tensor.t(), tensor[0, 0]])


def test_o36_views_keep_their_logical_values_inside_an_object():
    base = torch.randn(4, 4, dtype=torch.complex64)
    for view in (base.conj(), base.conj().imag, base[:, 1].expand(3, 4), base.t()[::2]):
        assert same(decode(encode(view)), view.clone().resolve_conj().resolve_neg())


def test_decoded_arrays_and_tensors_are_writable():
    array, tensor = decode(encode([np.zeros(2), torch.zeros(2)]))
    array[0] = tensor[0] = 1
    assert (array[0], tensor[0]) == (1, 1)


def test_equal_sets_are_equal_bytes_in_every_process():
    members = {str(number) for number in range(100)} | {1, 2.5, None}
    program = "import sys; from ckptstore.dcp.objects import encode; sys.stdout.buffer.write(encode({}))"
    seeded = os.environ | {"PYTHONHASHSEED": "1"}
    other = subprocess.run([sys.executable, "-c", program.format(members)], env=seeded, capture_output=True, check=True)
    assert other.stdout == encode(members)


class Custom:
    pass


CYCLE: list = []
CYCLE.append(CYCLE)


@pytest.mark.parametrize(
    "value",
    [
        Custom(),
        defaultdict(list),
        torch.zeros(3).to_sparse(),
        torch.empty(3, device="meta"),
        np.array([object()]),
        np.zeros(1, dtype=[("a", "i4")]),
        torch.nn.Linear,
        CYCLE,
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_cant_be_stored_is_refused_by_name(value):
    with pytest.raises(UnsupportedValue) as caught:
        encode({"deep": [1, value]}, key="config")
    assert caught.value.key.startswith("config['deep'][1]")
    assert "config['deep'][1]" in str(caught.value)


# -- hostile bytes -------------------------------------------------------------------------------------------


def stored(value: object) -> bytes:
    return json.dumps({"object": 1, "value": value}).encode()


def array(**changes) -> dict:
    return {"dtype": "<f8", "shape": [1], "data": "AAAAAAAAAAA="} | changes


HOSTILE = {
    "not JSON": b"\x80\x04.",
    "a pickle": pickle.dumps({"a": 1}),
    "no document": b"[]",
    "another version": b'{"object": 2, "value": 1}',
    "no value": b'{"object": 1}',
    "NaN literal": b'{"object": 1, "value": NaN}',
    "number of a million digits": b'{"object": 1, "value": ' + b"9" * 1_000_000 + b"}",
    "deep for the JSON parser": b'{"object": 1, "value": ' + b"[" * 100_000,
    "deep for us": b'{"object":1,"value":' + b"[" * 400 + b"]" * 400 + b"}",
    "deep in tags": b'{"object":1,"value":' + b'{"tuple":[' * 400 + b"]}" * 400 + b"}",
    "unknown type": stored({"os.system": "true"}),
    "two types": stored({"tuple": [], "set": []}),
    "no type": stored({}),
    "unhashable member": stored({"set": [[1]]}),
    "unhashable key": stored({"dict": [[[1], 2]]}),
    "key twice": stored({"dict": [[1, 2], [1, 3]]}),
    "member twice": stored({"set": [1, 1]}),
    "pair of three": stored({"dict": [[1, 2, 3]]}),
    "text for a list": stored({"tuple": "abc"}),
    "number for bytes": stored({"bytes": 1 << 40}),
    "bad base64": stored({"bytes": "%%%"}),
    "not an int": stored({"int": "0xzz"}),
    "not a float": stored({"float": "10000000000000000"}),
    "an attribute of torch": stored({"torch.dtype": "load"}),
    "a quantised dtype": stored({"torch.dtype": "qint8"}),
    "no device": stored({"torch.device": "nowhere:1"}),
    "huge shape": stored({"ndarray": array(shape=[1 << 62])}),
    "huge shape without data": stored({"ndarray": array(shape=[1 << 40], dtype="V0", data="")}),
    "negative shape": stored({"ndarray": array(shape=[-1])}),
    "shape of floats": stored({"ndarray": array(shape=[1.0])}),
    "too little data": stored({"ndarray": array(shape=[2])}),
    "object array": stored({"ndarray": array(dtype="|O")}),
    "huge item": stored({"ndarray": array(dtype="V2000000000")}),
    "no dtype": stored({"ndarray": array(dtype="nonsense")}),
    "array is a list": stored({"ndarray": []}),
    "huge tensor": stored({"tensor": array(dtype="float64", shape=[1 << 40])}),
    "unknown tensor dtype": stored({"tensor": array(dtype="qint32")}),
}


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE.keys())
def test_o62_hostile_bytes_are_refused(data):
    with pytest.raises(CorruptError) as caught:
        decode(data, key="epoch")
    assert caught.value.key == "epoch"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["tuple", "set", "dict", "int", "float", "str", "ndarray", "tensor", "torch.Size"]),
            inner,
            max_size=2,
        )
    ),
    max_leaves=8,
)


@given(json_values)
def test_o62_any_json_is_either_a_value_or_refused(value):
    try:
        decode(stored(value))
    except CorruptError:
        return


class RunsCode:
    def __reduce__(self):
        return os.mkdir, (RunsCode.path,)


@pytest.fixture
def evil_zip(tmp_path):
    RunsCode.path = str(tmp_path / "it-ran")
    return torch_zip(RunsCode()), tmp_path / "it-ran"


def torch_zip(value: object) -> bytes:
    buffer = io.BytesIO()
    torch.save(value, buffer)
    return buffer.getvalue()


def test_o62_a_pickle_runs_no_code_unless_asked_for(evil_zip):
    data, trace = evil_zip
    with pytest.raises(UnsupportedValue, match="rng") as caught:
        from_torch_zip(data, key="rng")
    assert caught.value.key == "rng"
    kept = from_torch_zip(data, key="rng", allow_pickle=True)
    assert json.loads(kept).keys() == {"object", "torch_zip"}, "the stored bytes say that they are a pickle"
    for read in (decode, to_torch_zip):
        with pytest.raises(UnsupportedValue, match="runs whatever code"):
            read(kept, key="rng")
    assert not trace.exists()
    decode(kept, allow_pickle=True)
    assert trace.exists()


# -- what stock planners hand over ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [
        random.getstate(),
        np.random.get_state(),  # noqa: NPY002
        np.random.default_rng(7).bit_generator.state,
        {"lr": 0.1, "betas": (0.9, 0.999), "name": None, 3: {1, 2}, "f": frozenset({1})},
        np.float64(0.5),
        np.array(["a", "bc"]),
        [torch.bfloat16, torch.Size([1, 2]), torch.device("cpu"), torch.arange(3)],
    ],
    ids=lambda value: type(value).__name__,
)
def test_stock_archives_are_stored_typed_and_given_back_as_archives(value):
    kept = from_torch_zip(torch_zip(value))
    assert same(decode(kept), value)
    assert same(torch.load(io.BytesIO(to_torch_zip(kept)), weights_only=False), value)


def test_pickling_is_the_last_resort_even_where_it_is_allowed():
    assert "value" in json.loads(from_torch_zip(torch_zip({"lr": 0.1}), allow_pickle=True))
    assert "value" in json.loads(encode({"lr": 0.1}, allow_pickle=True))
    kept = encode({"when": Custom()}, allow_pickle=True)
    assert base64.b64decode(json.loads(kept)["torch_zip"])[:2] == b"PK"
    assert isinstance(decode(kept, allow_pickle=True)["when"], Custom)
