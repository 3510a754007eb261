"""Every rule of docs/format.md: what breaks it is refused by its own error, written or read."""

import json

import msgspec
import pytest
from format_documents import DOCUMENTS, index, manifest, record, shard_reference, standing, stripe, table

import manifests
from manifests import format_errors as errors
from manifests import validation

LABELS = ["../../etc/x", "..", "", ".a", "a/b", "a\n", "a\u0000", "ü", "a" * 65, "-a"]


def set_at(document, path: str, value):
    """A copy of `document` with the field at `path` ("stripes.0.at.1") set."""
    raw = json.loads(manifests.encode(document))
    at = raw
    *parents, last = [int(part) if part.isdigit() else part for part in path.split(".")]
    for part in parents:
        at = at[part]
    at[last] = value
    return raw


def assert_refused(document, path, value, error):
    raw = set_at(document, path, value)
    with pytest.raises(error) as caught:
        manifests.decode(type(document), json.dumps(raw).encode())
    assert type(caught.value) is error
    assert caught.value.field is not None


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda d: type(d).__name__)
def test_valid_documents_pass(document):
    manifests.validate(document)


RECORD = [
    ("shard_id", "../x", errors.UnsafeName),
    ("rank", -1, errors.NumberOutOfRange),
    ("length", 2**63, errors.NumberOutOfRange),
    ("length", 2**53, errors.NumberOutOfRange),
    ("length", -1, errors.NumberOutOfRange),
    ("length", 10_000, errors.OverlappingRange),
    ("length", 10_002, errors.MissingRange),
    ("stream", "pickle", errors.WrongValue),
    ("targets", ["a", "a", "c"], errors.DuplicateName),
    ("targets", ["a", "../b", "c"], errors.UnsafeName),
    ("requires", ["x", "x"], errors.DuplicateName),
    ("codes.0.k", 0, errors.NumberOutOfRange),
    ("codes.0.k", 256, errors.NumberOutOfRange),
    ("codes.0.m", -1, errors.NumberOutOfRange),
    ("codes.0.m", 254, errors.NumberOutOfRange),
    ("codes.0.matrix", "", errors.WrongCount),
    ("codes.0.matrix", "not base64!", errors.WrongType),
    ("codes", [], errors.IndexOutOfRange),
    ("digest.algorithm", "md5", errors.WrongValue),
    ("digest.block", 0, errors.NumberOutOfRange),
    ("digest.block", 2**31, errors.NumberOutOfRange),
    ("digest.block", 512, errors.WrongCount),
    ("stripes", [], errors.MissingRange),
    ("stripes.0.offset", 1, errors.MissingRange),
    ("stripes.1.offset", 5999, errors.OverlappingRange),
    ("stripes.1.offset", 6001, errors.MissingRange),
    ("stripes.0.length", 0, errors.NumberOutOfRange),
    ("stripes.0.length", 2**63, errors.NumberOutOfRange),
    ("stripes.0.stored_length", 2**40, errors.NumberOutOfRange),
    ("stripes.0.stored_length", 5999, errors.WrongValue),
    ("stripes.0.code", 2, errors.IndexOutOfRange),
    ("stripes.0.code", -1, errors.IndexOutOfRange),
    ("stripes.0.at", [0, 1], errors.WrongCount),
    ("stripes.0.at.2", 3, errors.IndexOutOfRange),
    ("stripes.0.at.2", -1, errors.IndexOutOfRange),
    ("stripes.2.at.1", 1, errors.WrongValue),
    ("stripes.0.crc", "AAAA", errors.WrongCount),
    ("stripes.0.transforms", ["zstd"], errors.WrongValue),
    ("stripes.0.frames", 1, errors.WrongValue),
    ("stripes.0.strong", "blake3", errors.WrongValue),
    ("stripes.2.source.session", "7.a", errors.UnsafeName),
    ("stripes.2.source.shard_id", "a/b", errors.UnsafeName),
    ("stripes.2.source.stripe", -1, errors.NumberOutOfRange),
    ("stripes.2.source.ordinal", 10**9, errors.NumberOutOfRange),
    ("tensors.0.name", "__metadata__", errors.WrongValue),
    ("tensors.0.name", "e", errors.DuplicateName),
    ("tensors.0.fqn", "tied", errors.DuplicateName),
    ("tensors.0.aliases", ["t", "t"], errors.DuplicateName),
    ("tensors.0.shape", [2, 1001], errors.ShapeMismatch),
    ("tensors.0.shape", [2**62, 2**62], errors.NumberOutOfRange),
    ("tensors.0.shape", [2**30, 2**30], errors.NumberOutOfRange),
    ("tensors.0.shape", [-2, -1000], errors.NumberOutOfRange),
    ("tensors.0.shape", [1] * 65, errors.NumberOutOfRange),
    ("tensors.0.dtype", "float32", errors.ShapeMismatch),
    ("tensors.0.nbytes", 2**63, errors.NumberOutOfRange),
    ("tensors.0.nbytes", 3999, errors.ShapeMismatch),
    ("tensors.0.offset", 4097, errors.WrongValue),
    ("tensors.0.offset", 0, errors.WrongValue),
    ("tensors.0.offset", 8192, errors.OverlappingRange),
    ("tensors.1.offset", 8095, errors.OverlappingRange),
    ("tensors.1.offset", 8097, errors.MissingRange),
    ("tensors.2.shape", [1904], errors.ShapeMismatch),
    ("tensors.2.shape", [5, 381], errors.WrongCount),
    ("tensors.2.range", [0], errors.WrongValue),
    ("tensors.0.range", [3, 0], errors.OverlappingRange),
    ("tensors.0.range", [0], errors.WrongCount),
    ("tensors.0.range", [-1, 0], errors.NumberOutOfRange),
    ("tensors.0.range", None, errors.WrongValue),
    ("tensors.0.global_shape", None, errors.WrongValue),
    ("tensors.0.global_shape", [4], errors.WrongCount),
    ("tensors.0.global_shape", [2**63, 1000], errors.NumberOutOfRange),
    ("tensors.0.digest", "ab", errors.WrongValue),
    ("tensors.0.nbytes", "4000", errors.WrongType),
    ("tensors.0.nbytes", 4000.5, errors.WrongType),
    ("tensors.0.nbytes", True, errors.WrongType),
]


@pytest.mark.parametrize(("path", "value", "error"), RECORD)
def test_o62_records_that_break_a_rule(path, value, error):
    assert_refused(record(), path, value, error)


INDEX = [
    ("session", "7", errors.UnsafeName),
    ("session", "000007.../x", errors.UnsafeName),
    ("ordinal", -1, errors.NumberOutOfRange),
    ("shards.1.shard_id", "aa", errors.UnsafeName),
    ("shards.0.record.path", "runs/r/shards/../../etc/x", errors.UnsafeName),
    ("shards.0.record.path", "runs/r/shards/bb", errors.UnsafeName),
    ("shards.0.record.path", "runs/r/shards/aax", errors.UnsafeName),
    ("shards.0.record.path", "runs/other/shards/aa", errors.UnsafeName),
    ("shards.0.record.path", "runs/r/index/aa", errors.UnsafeName),
    ("shards.0.record.path", "/etc/passwd", errors.UnsafeName),
    ("shards.0.record.size", 0, errors.NumberOutOfRange),
    ("shards.0.record.raw_size", 2**63, errors.NumberOutOfRange),
    ("shards.0.record.sha256", "AB" * 32, errors.WrongValue),
    ("shards.0.record.targets", [], errors.NumberOutOfRange),
    ("shards.0.record.targets", ["a", "a"], errors.DuplicateName),
    ("shards.0.rank", -1, errors.NumberOutOfRange),
    ("shards.0.length", 2**63, errors.NumberOutOfRange),
    ("tensors.fqn.1", "w", errors.DuplicateName),
    ("tensors.dtype", [], errors.WrongCount),
    ("tensors.shape.0", [3, 1000], errors.OverlappingRange),
    ("tensors.shape.0", [5, 1000], errors.MissingRange),
    ("tensors.shape.0", [2**63, 1], errors.NumberOutOfRange),
    ("tensors.runs.0", 2, errors.WrongCount),
    ("tensors.runs.0", 0, errors.NumberOutOfRange),
    ("tensors.chunks.count.0", 2**62, errors.NumberOutOfRange),
    ("tensors.chunks.count.0", 3, errors.WrongCount),
    ("tensors.chunks.axis.0", 2, errors.IndexOutOfRange),
    ("tensors.chunks.axis.0", -1, errors.IndexOutOfRange),
    ("tensors.chunks.axis.3", 1, errors.IndexOutOfRange),
    ("tensors.chunks.offsets.0", 1, errors.OverlappingRange),
    ("tensors.chunks.offsets.0", 2**63, errors.NumberOutOfRange),
    ("tensors.chunks.offsets.3", 0, errors.OverlappingRange),
    ("tensors.chunks.sizes.3", 1, errors.MissingRange),
    ("tensors.chunks.sizes.3", 3, errors.OverlappingRange),
    ("tensors.chunks.offsets", [], errors.WrongCount),
    ("tensors.chunks.shard.0", 2, errors.IndexOutOfRange),
    ("tensors.chunks.shard.0", -1, errors.IndexOutOfRange),
    ("tensors.chunks.shard", [0], errors.WrongCount),
    ("planner_data", [["w", ["a"]], ["w", ["b"]]], errors.DuplicateName),
    ("planner_data.0.1", [-1], errors.NumberOutOfRange),
    ("planner_data.0.1", [1.5], errors.WrongType),
]


@pytest.mark.parametrize(("path", "value", "error"), INDEX)
def test_o62_indexes_that_break_a_rule(path, value, error):
    assert_refused(index(), path, value, error)


MANIFEST = [
    ("run", "../../etc", errors.UnsafeName),
    ("run", "Run", errors.UnsafeName),
    ("session", "000007", errors.UnsafeName),
    ("session", "07.a", errors.UnsafeName),
    ("ordinal", 10**9, errors.NumberOutOfRange),
    ("version", 0, errors.NumberOutOfRange),
    ("version", 2, errors.WrongValue),
    ("kind", "repair", errors.WrongValue),
    ("kind", "void", errors.WrongCount),
    ("step", -1, errors.NumberOutOfRange),
    ("world", -1, errors.NumberOutOfRange),
    ("bytes", 2**63, errors.NumberOutOfRange),
    ("tolerance", None, errors.WrongValue),
    ("tolerance.targets", -1, errors.NumberOutOfRange),
    ("planned.domains", -1, errors.NumberOutOfRange),
    ("missing.0.target", "../c", errors.UnsafeName),
    ("missing.0.fragments", -1, errors.NumberOutOfRange),
    ("copies", [], errors.NumberOutOfRange),
    ("copies.0.tier", "a/b", errors.UnsafeName),
    ("copies.0.index.path", "runs/r/index/../x", errors.UnsafeName),
    ("copies.0.index.path", "runs/other/index/1dx", errors.UnsafeName),
    ("copies.0.index.path", "runs/r/shards/1dx", errors.UnsafeName),
    ("copies.0.index.path", "data/00/r/x/000000.000", errors.UnsafeName),
    ("copies.0.index.raw_size", 2**40, errors.NumberOutOfRange),
    ("copies.0.index.targets.0", "..", errors.UnsafeName),
    ("uses", [["000001.a", -1]], errors.NumberOutOfRange),
    ("uses", [["../x", 1]], errors.UnsafeName),
    ("uses", [["000001.a"]], errors.WrongType),
]


@pytest.mark.parametrize(("path", "value", "error"), MANIFEST)
def test_o62_manifests_that_break_a_rule(path, value, error):
    assert_refused(manifest(), path, value, error)


MARK = manifests.Mark(kind="tag", of=("000001.a", 2), tag="best", undoes="beef")
BEGUN = manifests.Begun(session="000001.a", ordinal=2)
IDENTITY = manifests.Identity(store_id="5t0re", target="a")
SMALL = [
    (MARK, "of.0", "../x", errors.UnsafeName),
    (MARK, "of.1", -1, errors.NumberOutOfRange),
    (MARK, "tag", "a/b", errors.UnsafeName),
    (MARK, "tag", None, errors.WrongValue),
    (MARK, "undoes", "../x", errors.UnsafeName),
    (MARK, "kind", "delete", errors.WrongValue),
    (manifests.Mark(kind="undelete", of=("000001.a", 2), undoes="b"), "undoes", None, errors.WrongValue),
    (BEGUN, "session", "x", errors.UnsafeName),
    (manifests.Session(session="000001.a"), "session", "000001.A", errors.UnsafeName),
    (IDENTITY, "store_id", "..", errors.UnsafeName),
    (IDENTITY, "target", "..", errors.UnsafeName),
    (standing(), "state", "dead", errors.WrongValue),
    (standing(), "incarnation", "../1", errors.UnsafeName),
    (standing(), "members.t", 3, errors.NumberOutOfRange),
    (standing(), "members.targets", [], errors.NumberOutOfRange),
    (standing(), "members.targets", ["a", "a"], errors.DuplicateName),
    (standing(), "members.number", -1, errors.NumberOutOfRange),
    (standing(), "members.old.t", 2, errors.NumberOutOfRange),
    (standing(), "members.old.old", {"number": 0, "targets": ["a"], "t": 0, "old": None}, errors.WrongValue),
]


@pytest.mark.parametrize(("document", "path", "value", "error"), SMALL)
def test_o62_small_documents_that_break_a_rule(document, path, value, error):
    assert_refused(document, path, value, error)


@pytest.mark.parametrize("name", LABELS)
def test_o62_no_name_in_a_document_can_leave_its_folder(name):
    for document, path in [
        (record(), "shard_id"),
        (record(), "targets.0"),
        (manifest(), "run"),
        (manifest(), "session"),
        (manifest(), "copies.0.tier"),
        (standing(), "incarnation"),
        (IDENTITY, "store_id"),
    ]:
        assert_refused(document, path, name, errors.UnsafeName)


@pytest.mark.parametrize("fqn", ["", "../../etc/x", "a/b", "a\nb", "a\u0000b", "x" * 100_000, "ключ", "__metadata__"])
def test_tensors_may_have_any_name_at_all(fqn):
    builder = manifests.TableBuilder()
    builder.add(fqn, "float32", [1], [((0,), (1,), 0)])
    whole = index(tensors=builder.build())
    assert manifests.decode(manifests.Index, manifests.encode(whole)).tensors[fqn].fqn == fqn


def test_a_repaired_shard_has_a_record_beside_the_old_one():
    raw = set_at(index(), "shards.0.record.path", "runs/r/shards/aa-beef")
    assert manifests.decode(manifests.Index, json.dumps(raw).encode()).shards[0].shard_id == "aa"


def test_what_breaks_a_rule_is_not_written_either():
    broken = msgspec.structs.replace(index(), shards=[shard_reference("aa", 0)] * 2)
    with pytest.raises(errors.DuplicateName):
        manifests.encode(broken)
    with pytest.raises(errors.DuplicateName):
        manifests.pack(broken)


def test_a_dtype_of_a_newer_torch_needs_whole_bytes_an_element():
    raw = set_at(record(), "tensors.0.dtype", "float24")
    raw["tensors"][0] |= {"shape": [2, 500], "nbytes": 4000, "global_shape": [2, 500], "range": [0, 0]}
    assert manifests.decode(manifests.ShardRecord, json.dumps(raw).encode()).tensors[0].dtype == "float24"
    raw["tensors"][0]["shape"] = raw["tensors"][0]["global_shape"] = [2, 501]
    with pytest.raises(errors.ShapeMismatch):
        manifests.decode(manifests.ShardRecord, json.dumps(raw).encode())


def test_features_of_a_newer_release_leave_the_rest_of_the_record_readable():
    newer = record(requires=["zstd"], stripes=[*record().stripes[:2], stripe(10_000, 1, 2, 1)])
    newer.stripes[2].transforms = ["zstd"]
    newer.stripes[0].length, newer.stripes[1].offset, newer.stripes[1].length = 7000, 7000, 3000
    again = manifests.decode(manifests.ShardRecord, manifests.encode(newer))
    assert validation.not_understood(again) == ["zstd"]
    assert again.stripes[0].stored_length == 6000
    newer.stripes[2].at[0] = 9
    with pytest.raises(errors.IndexOutOfRange):
        manifests.encode(newer)


def test_item_sizes_are_torchs():
    torch = pytest.importorskip("torch")
    from manifests.record_rules import ITEM_SIZES

    for size, dtypes in ITEM_SIZES.items():
        for dtype in set(dtypes.split()) - {"object"}:
            assert getattr(torch, dtype).itemsize == size


def test_empty_tables_and_records_are_valid():
    manifests.validate(index(tensors=manifests.TableBuilder().build(), shards=[]))
    manifests.validate(record(tensors=[]))
    manifests.validate(record(tensors=[], stripes=[], length=0))
    assert len(table()) == 4
