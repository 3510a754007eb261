"""docs/format.md and the types say the same, and its example is what this release writes and reads."""

import base64
import json
import pickle
import re
import struct
import subprocess
import sys
from pathlib import Path

import crc32c
import pytest

import manifests
from manifests import schema, stored, table
from manifests.seal import seal, unseal
from manifests.testing import save_manifest

PAGE = (Path(__file__).parents[2] / "docs" / "format.md").read_text()
TYPES = [
    found
    for module in (schema, table)
    for found in vars(module).values()
    if isinstance(found, type) and issubclass(found, stored.Stored) and found not in {stored.Stored, stored.Document}
]
KINDS = "ShardRecord|Index|Manifest|Mark|Identity|Standing"
EXAMPLES = dict(re.findall(rf"an? ({KINDS})\b[^`]*?:\n\n```json\n(.*?)\n```", PAGE))


def documented(name: str) -> list[str]:
    """The names in the first column of the table below the heading of a type."""
    section = re.search(rf"^### [^\n]*\(`{name}`\)\n(.*?)(?=^##)", PAGE, re.DOTALL | re.MULTILINE)
    assert section, f"docs/format.md has no section about {name}"
    rows = re.findall(r"^\| (`.*?`) \|", section[1], re.MULTILINE)
    return [field for row in rows for field in re.findall(r"`(\w+)`", row)]


@pytest.mark.parametrize("cls", TYPES, ids=lambda cls: cls.__name__)
def test_every_field_is_documented_and_no_other(cls):
    common = set(stored.Document.__struct_fields__)
    assert sorted(documented(cls.__name__)) == sorted(set(cls.__struct_fields__) - common)


def test_the_example_has_every_document_that_a_store_needs():
    assert sorted(EXAMPLES) == ["Identity", "Index", "Manifest", "Mark", "ShardRecord", "Standing"]


SAVE = "000001.9d3c51b07e2f4a6688c0d1e2f3a4b5c6.000001"
PLACES = {"Manifest": f"demo/manifests/{SAVE}/000001", "Mark": f"demo/marks/{SAVE}/7a99"}


@pytest.mark.parametrize("name", ["Manifest", "Mark", "Identity", "Standing"])
def test_sealed_examples_are_what_this_release_writes(name):
    data, place = EXAMPLES[name].encode(), PLACES.get(name, "")
    assert seal(unseal(getattr(manifests, name), data, place), place) == data


@pytest.mark.parametrize("name", ["ShardRecord", "Index"])
def test_examples_are_canonical_and_match_the_reference_to_them(name):
    data = EXAMPLES[name].encode()
    document = manifests.decode(getattr(manifests, name), data)
    stored_bytes, fields = manifests.pack(document)
    assert stored_bytes == data
    index = manifests.decode(manifests.Index, EXAMPLES["Index"].encode())
    manifest = unseal(manifests.Manifest, EXAMPLES["Manifest"].encode(), PLACES["Manifest"])
    reference = manifest.copies[0].index if name == "Index" else index.shards[0].record
    assert fields == {"size": reference.size, "raw_size": reference.raw_size, "sha256": reference.sha256}
    assert manifests.unpack(type(document), data, reference) == document
    assert f"`{reference.path}`" in PAGE


def test_the_examples_bytes_make_the_examples_digests():
    metadata = {"format": "pt", "DCP_SHARDING_INFO": "{}"}
    tensors = {"__metadata__": metadata, "w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}
    header = json.dumps(tensors, separators=(",", ":")).encode()
    stream = struct.pack("<Q", 4088) + header.ljust(4088) + struct.pack("<2f", 1, -2)
    data = [stream[:2052], stream[2052:]]
    fragments = [*data, bytes(a ^ b for a, b in zip(*data, strict=True))]
    record = json.loads(EXAMPLES["ShardRecord"])
    digests = struct.unpack("<3I", base64.b64decode(record["stripes"][0]["crc"]))
    assert digests == tuple(map(crc32c.crc32c, fragments))
    assert ", ".join(f"{digest:08X}" for digest in digests) in PAGE
    for number, fragment in enumerate(fragments):
        assert f"000000.{number:03d}   {fragment[:16].hex(' ')} … {fragment[-8:].hex(' ')}\n" in PAGE
    folder = manifests.paths.shard_data_prefix("demo", record["shard_id"])
    assert f"`{folder}000000.000`" in PAGE


def test_every_feature_and_limit_on_the_page_is_the_codes():
    from manifests import checks, manifest_rules, record_rules

    assert f"at most {checks.MAX_DEPTH} deep" in PAGE
    assert f"{manifest_rules.MAX_DOCUMENT_BYTES >> 20} MiB" in PAGE
    assert f"at most {checks.MAX_DIMENSIONS} dimensions" in PAGE
    for dtype in ["complex128", "float8_e4m3fnuz", "float4_e2m1fn_x2", "bits4x2", "bfloat16"]:
        assert any(dtype in names.split() for names in record_rules.ITEM_SIZES.values())
        assert dtype in PAGE
    for rule in (manifests.paths._RUN, manifests.paths._LABEL, manifests.paths._TOKEN):
        assert f"`{rule.pattern}`" in PAGE


def test_the_format_side_imports_neither_numpy_nor_torch_nor_anything_of_ours():
    code = "import sys, manifests; print(*sorted(m.partition('.')[0] for m in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"numpy", "torch", "json", "erasure", "ckptstore"} & set(done.stdout.split())


def test_all_is_true_and_sorted():
    assert all(hasattr(manifests, name) for name in manifests.__all__)
    assert len(set(manifests.__all__)) == len(manifests.__all__)


@pytest.mark.parametrize("extra", [{}, {"format": [1, 9], "later": [1, {"a": None}]}])
def test_documents_pickle_as_they_are(extra):
    """Ranks send them to one another; what a newer release added goes along."""
    found = manifest_with(extra)
    again = pickle.loads(pickle.dumps(found))
    assert (again, manifests.encode(again)) == (found, manifests.encode(found))


def manifest_with(extra: dict) -> manifests.Manifest:
    document = json.loads(manifests.encode(save_manifest("r", "000001.x", 1)))
    return manifests.decode(manifests.Manifest, json.dumps({**document, **extra}).encode())
