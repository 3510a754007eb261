"""Documents that an earlier release of format 1 wrote decode to the same, and encode to the same bytes."""

from pathlib import Path

import pytest
from format_documents import DOCUMENTS, index

import manifests

FOLDER = Path(__file__).parents[1] / "golden" / "documents-1.0"
GOLDEN = {f"{number}-{type(document).__name__}": document for number, document in enumerate(DOCUMENTS)}


def test_no_golden_document_is_left_out():
    assert sorted(path.stem for path in FOLDER.glob("*.json")) == sorted(GOLDEN)


@pytest.mark.parametrize("name", GOLDEN)
def test_golden_documents(name):
    data = (FOLDER / f"{name}.json").read_bytes()
    assert manifests.decode(type(GOLDEN[name]), data) == GOLDEN[name]
    assert manifests.encode(GOLDEN[name]) == data


def test_golden_gzipped_index():
    """Its reference is kept beside it: bytes that another zlib made must be read as well."""
    reference = manifests.Reference(
        path="runs/r/index/1dx",
        size=(FOLDER / "index.json.gz").stat().st_size,
        raw_size=19_670,
        sha256="c2602d134b4eecffd0e47cb97eb6694ca7c638922b502a4f2dc67b303f78678e",
        targets=["a"],
    )
    found = manifests.unpack(manifests.Index, (FOLDER / "index.json.gz").read_bytes(), reference)
    assert found == index(structure=["the same again"] * 1000 + list(range(500)))
