"""Documents to bytes and back: canonical, bounded, and open to newer minor versions."""

import base64
import gzip
import hashlib
import json
import pickle
import random
import resource
import zlib

import pytest
from format_documents import ANY, DOCUMENTS, index, manifest, record, reference
from hypothesis import example, given, settings
from hypothesis import strategies as st

import manifests
from manifests import errors as other_errors
from manifests import format_errors as errors
from manifests import validation


def names(document):
    return type(document).__name__


@given(ANY)
@settings(max_examples=150, deadline=None)
def test_decode_gives_back_what_was_encoded(document):
    data = manifests.encode(document)
    again = manifests.decode(type(document), data)
    assert again == document
    assert manifests.encode(again) == data


@given(st.sampled_from(DOCUMENTS))
@settings(deadline=None)
def test_canonical_bytes_are_sorted_compact_json(document):
    data = manifests.encode(document)
    raw = json.loads(data)
    assert data == json.dumps(raw, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def test_text_is_spelled_as_the_standard_library_does():
    text = "".join(map(chr, range(0x180))) + "\u2028\uffff\U0001f600"
    data = manifests.encode(manifest(user={"text": text}))
    assert json.dumps(text, ensure_ascii=False).encode() in data


def test_the_standard_library_reads_all_of_it():
    stored, _ = manifests.pack(record(stripes=record().stripes, shard_id="z" * 60))
    raw = json.loads(gzip.decompress(stored) if stored[:2] == b"\x1f\x8b" else stored)
    assert base64.b64decode(raw["codes"][0]["matrix"]) == b"\x01\x01"
    assert base64.b64decode(raw["stripes"][2]["crc"]) == record().stripes[2].crc


# -- packing -----------------------------------------------------------------------------------------------


def packed(document):
    stored, fields = manifests.pack(document)
    return stored, manifests.Reference(path="runs/r/index/a", targets=["a"], **fields)


def long_index():
    return index(structure=["the same again"] * 1000)


@pytest.mark.parametrize("document", [index(), long_index()], ids=["plain", "gzipped"])
def test_unpack_gives_back_what_was_packed(document):
    stored, ref = packed(document)
    assert manifests.unpack(manifests.Index, stored, ref) == document
    assert ref.size == len(stored)
    assert ref.sha256 == hashlib.sha256(stored).hexdigest()
    assert ref.raw_size == len(manifests.encode(document))


def test_gzip_carries_no_time():
    stored, _ = packed(long_index())
    assert stored[:2] == b"\x1f\x8b"
    assert stored[4:8] == bytes(4)
    assert stored == packed(long_index())[0]


def referred(stored: bytes, raw_size: int) -> manifests.Reference:
    digest = hashlib.sha256(stored).hexdigest()
    return manifests.Reference(path="runs/r/index/a", size=len(stored), raw_size=raw_size, sha256=digest, targets=["a"])


def test_wrong_size_and_digest_are_told_apart():
    stored, ref = packed(long_index())
    with pytest.raises(errors.SizeMismatch):
        manifests.unpack(manifests.Index, stored[:-1], ref)
    flipped = bytes([stored[0] ^ 1]) + stored[1:]
    with pytest.raises(errors.DigestMismatch):
        manifests.unpack(manifests.Index, flipped, ref)


def bomb() -> bytes:
    squeeze = zlib.compressobj(9, wbits=31)
    return b"".join(squeeze.compress(bytes(1 << 20)) for _ in range(128)) + squeeze.flush()


def test_o62_inflating_bombs_stop_at_the_recorded_size():
    stored = bomb()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(errors.SizeMismatch):
        manifests.unpack(manifests.Index, stored, referred(stored, 5000))
    with pytest.raises(errors.TooLarge):
        manifests.unpack(manifests.Index, stored, referred(stored, 1 << 40))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 << 10  # KiB


@pytest.mark.parametrize(
    ("damage", "error"),
    [
        (lambda gz: gz[:-4], errors.BadCompression),
        (lambda gz: gz + b"more", errors.BadCompression),
        (lambda gz: gz + gz, errors.BadCompression),
        (lambda gz: gz[:40] + bytes([gz[40] ^ 255]) + gz[41:], errors.BadCompression),
        (lambda gz: gz[:-4] + bytes(4), errors.BadCompression),
    ],
    ids=["cut short", "tail", "second member", "flipped", "wrong length"],
)
def test_damaged_gzip_is_refused_even_if_its_digest_was_recorded(damage, error):
    stored, ref = packed(long_index())
    damaged = damage(stored)
    with pytest.raises(error):
        manifests.unpack(manifests.Index, damaged, referred(damaged, ref.raw_size))


@pytest.mark.parametrize("by", [-1, 1])
def test_inflated_size_must_be_the_recorded_one(by):
    stored, ref = packed(long_index())
    with pytest.raises(errors.SizeMismatch):
        manifests.unpack(manifests.Index, stored, referred(stored, ref.raw_size + by))


def test_plain_documents_must_have_the_recorded_raw_size_too():
    stored, _ = packed(index())
    with pytest.raises(errors.SizeMismatch):
        manifests.unpack(manifests.Index, stored, referred(stored, len(stored) + 1))


def test_o70_what_is_too_large_to_be_read_is_refused_when_written(monkeypatch):
    monkeypatch.setattr("manifests.wire.MAX_DOCUMENT_BYTES", 200)
    with pytest.raises(errors.TooLarge) as caught:
        manifests.encode(index())
    assert caught.value.limit == 200


# -- versions ----------------------------------------------------------------------------------------------


def objects_in(value, path=()):
    """Every JSON object that is a stored type, by where it is."""
    free = {"user", "structure", "transforms", "frames", "strong", "planner_data"}
    if isinstance(value, dict):
        yield path, value
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
        if isinstance(inner, dict | list) and key not in free:
            yield from objects_in(inner, (*path, key))


@pytest.mark.parametrize("document", DOCUMENTS, ids=names)
def test_fields_of_a_newer_minor_version_are_kept_at_every_level(document):
    raw = json.loads(manifests.encode(document))
    raw["format"] = [1, 7]
    for number, (_, found) in enumerate(list(objects_in(raw))):
        found["later"] = {"number": number, "extra": [1.5, None]}
        found["extra"] = "not ours"
    again = manifests.decode(type(document), json.dumps(raw).encode())
    assert again.format == (1, 7)
    assert json.loads(manifests.encode(again)) == raw
    assert pickle.loads(pickle.dumps(again)) == again


@pytest.mark.parametrize("document", DOCUMENTS, ids=names)
def test_unknown_and_missing_fields_of_a_known_version_are_refused_at_every_level(document):
    raw = json.loads(manifests.encode(document))
    for path, found in list(objects_in(raw)):
        found["extra"] = {}
        with pytest.raises(errors.UnknownField) as caught:
            manifests.decode(type(document), json.dumps(raw).encode())
        assert str(caught.value.field).endswith("extra"), path
        del found["extra"]
        for key in list(found):
            kept = found.pop(key)
            with pytest.raises(errors.MissingField):
                manifests.decode(type(document), json.dumps(raw).encode())
            found[key] = kept


def test_a_newer_major_version_is_refused():
    raw = json.loads(manifests.encode(manifest())) | {"format": [2, 0]}
    with pytest.raises(errors.NewerFormat) as caught:
        manifests.decode(manifests.Manifest, json.dumps(raw).encode())
    assert (caught.value.found, caught.value.known) == (2, 1)
    assert isinstance(caught.value, manifests.NotUnderstood)
    assert caught.value.unknown == ["format 2.0"]


@pytest.mark.parametrize("found", [[1], [0, 1], [1, -1], [True, 0], "1.0", [1, 0, 0], [1.0, 0], {}, [1, 1000]])
def test_a_format_that_is_no_version_is_refused(found):
    raw = json.loads(manifests.encode(manifest())) | {"format": found}
    with pytest.raises(errors.FormatError):
        manifests.decode(manifests.Manifest, json.dumps(raw).encode())


def test_what_is_not_understood_can_be_read_but_not_acted_on():
    assert validation.not_understood(manifest()) == []
    manifests.check_understood(manifest())
    newer = manifest(kind="merge", requires=["locks"], copies=[])
    again = manifests.decode(manifests.Manifest, manifests.encode(newer))
    assert again == newer
    with pytest.raises(manifests.NotUnderstood) as caught:
        manifests.check_understood(again)
    assert caught.value.unknown == ["locks", "manifest kind merge"]
    assert validation.not_understood(manifests.Mark(kind="hold", of=("000001.a", 1))) == ["mark kind hold"]


# -- bytes that are no document ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"", errors.MalformedJson),
        (b"\xff\xfe", errors.MalformedJson),
        (b"\xef\xbb\xbf{}", errors.MalformedJson),
        (b'{"format":[1,0]', errors.MalformedJson),
        (b'{"format":[1,0]}x', errors.MalformedJson),
        (b'{"format":[1,0],"a":NaN}', errors.MalformedJson),
        (b'{"format":[1,0],"a":Infinity}', errors.MalformedJson),
        (b'{"format":[1,0],"a":1e999}', errors.MalformedJson),
        (b'{"format":[1,0],"a":' + b"9" * 5000 + b"}", errors.MalformedJson),
        (b'{"format":[1,0],"a":"\\ud800"}', errors.MalformedJson),
        (b'{"format":[1,0],"a":"\\ud800abcdef"}', errors.MalformedJson),
        (b'{"format":[1,0],"a":"\\udc00abcdef"}', errors.MalformedJson),
        (b'{"format":[1,0],"a":"\xed\xa0\x80"}', errors.MalformedJson),
        (b'{"format":[1,0],"a":"\x01"}', errors.MalformedJson),
        (b"[]", errors.WrongType),
        (b"7", errors.WrongType),
        (b"{}", errors.MissingField),
        (b'{"format":[1,0],"format":[1,0]}', errors.DuplicateKey),
        (b'{"a":{"b":1,"\\u0062":1},"format":[1,0]}', errors.DuplicateKey),
        (b"[" * 200_000, errors.NestingTooDeep),
        (b'{"a":' * 200_000, errors.NestingTooDeep),
    ],
)
def test_o62_bytes_that_are_no_document(data, error):
    with pytest.raises(error):
        manifests.decode(manifests.Manifest, data)


def nested(depth: int):
    value = []
    for _ in range(depth):
        value = [value]
    return value


def test_o62_deep_nesting_is_refused_both_ways():
    manifests.decode(manifests.Manifest, manifests.encode(manifest(user={"a": nested(350)})))
    with pytest.raises(errors.NestingTooDeep):
        manifests.encode(manifest(user={"a": nested(450)}))
    raw = json.loads(manifests.encode(manifest())) | {"user": {"a": nested(450)}}
    with pytest.raises(errors.NestingTooDeep):
        manifests.decode(manifests.Manifest, json.dumps(raw).encode())
    raw |= {"user": {}, "format": [1, 1], "later": nested(450)}
    with pytest.raises(errors.NestingTooDeep):
        manifests.decode(manifests.Manifest, json.dumps(raw).encode())


@pytest.mark.parametrize(
    ("value", "error"),
    [
        (float("nan"), errors.NonFiniteNumber),
        ([{"a": float("inf")}], errors.NonFiniteNumber),
        (2**64, errors.NumberOutOfRange),
        (-(2**63) - 1, errors.NumberOutOfRange),
        (b"bytes", errors.WrongType),
        ({1: 2}, errors.WrongType),
        ({"set": {1}}, errors.WrongType),
        ("\ud800", errors.MalformedJson),
    ],
)
def test_values_that_json_would_change_are_refused_when_written(value, error):
    with pytest.raises(error):
        manifests.encode(manifest(user={"value": value}))


# -- mutation fuzzing --------------------------------------------------------------------------------------

ODD = [
    None,
    True,
    False,
    -1,
    0,
    1,
    254,
    255,
    2**31,
    2**53,
    2**63,
    2**64,
    1.5,
    "",
    "../../etc/x",
    "a",
    [],
    {},
    [[]],
    ["a"],
    [-1],
]


def places(value, path=()):
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
        yield (*path, key)
        if isinstance(inner, dict | list):
            yield from places(inner, (*path, key))


def changed(raw, path, odd):
    *parents, last = path
    for key in parents:
        raw = raw[key]
    if odd == "delete":
        del raw[last]
    elif odd == "repeat" and isinstance(raw, list):
        raw.insert(last, raw[last])
    else:
        raw[last] = odd


def meaning(data: bytes):
    """The JSON value; of byte strings what base64 stands for, whatever the unused bits of its last digit."""

    def bytes_of(raw):
        return raw | {key: base64.b64decode(raw[key]) for key in ("crc", "matrix") if isinstance(raw.get(key), str)}

    return json.loads(data, object_hook=bytes_of)


def assert_refused_or_whole(cls, data: bytes):
    """Only a FormatError may come out, or a document that stands for what these bytes say."""
    refused = None
    try:
        document = manifests.decode(cls, data)
    except manifests.FormatError as error:
        refused = error
    if refused is None:
        assert meaning(manifests.encode(document)) == meaning(data)
    else:
        assert pickle.loads(pickle.dumps(refused)).fields == refused.fields
        assert len(str(refused)) < 1000


@pytest.mark.parametrize("document", DOCUMENTS, ids=names)
def test_o62_any_field_replaced_by_anything_gives_a_typed_refusal_or_a_whole_document(document):
    text = manifests.encode(document)
    for path in places(json.loads(text)):
        for odd in [*ODD, "delete", "repeat"]:
            raw = json.loads(text)
            changed(raw, path, odd)
            assert_refused_or_whole(type(document), json.dumps(raw, ensure_ascii=False).encode())


@given(ANY, st.randoms(use_true_random=False))
@example(record(), random.Random(0))
@settings(max_examples=100, deadline=None)
def test_o62_flipped_bytes_give_a_typed_refusal_or_a_whole_document(document, rnd):
    data = manifests.encode(document)
    for _ in range(10):
        damaged = bytearray(data)
        damaged[rnd.randrange(len(data))] = rnd.randrange(256)
        assert_refused_or_whole(type(document), bytes(damaged))


def test_errors_survive_pickling():
    named = [(module, name) for module in (errors, other_errors) for name in module.__all__]
    assert len(named) > 30
    for module, name in named:
        error = getattr(module, name)("what happened", field="x", found=3)
        again = pickle.loads(pickle.dumps(error))
        assert (type(again), str(again), again.field, again.found) == (type(error), "what happened", "x", 3)
        assert again.kind == name


def test_reference_of_a_manifest_matches_packed_bytes():
    stored, fields = manifests.pack(index())
    assert manifests.Reference(path="runs/r/index/1", targets=["a"], **fields) != reference("runs/r/index/1")
    assert fields["size"] == len(stored)
