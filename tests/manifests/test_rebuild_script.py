"""docs/rebuild.py: forty lines that need nothing of ours turn fragments back into a safetensors file."""

import ast
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save

import erasure
import manifests
from manifests import paths

SCRIPT = Path(__file__).parents[2] / "docs" / "rebuild.py"
K, M, BLOCK = 4, 2, 1024
STRIPE = 3 * K * BLOCK + 1
TARGETS = list("abcdef")
SHARD = "5a" * 16
RECORD = paths.record("demo", SHARD)


def tensors():
    rng = np.random.default_rng(7)
    return {"w": rng.standard_normal((40, 75)).astype(np.float32), "b": rng.integers(0, 9, 13)}


def stream() -> tuple[bytes, int]:
    """A safetensors file whose data begins at a multiple of 4096, and where it begins."""
    plain = save(tensors())
    header = int.from_bytes(plain[:8], "little")
    padded = -(-(8 + header) // 4096) * 4096
    return (padded - 8).to_bytes(8, "little") + plain[8 : 8 + header].ljust(padded - 8) + plain[8 + header :], padded


def entries(start: int) -> list[manifests.TensorEntry]:
    found = []
    for name, value in sorted(tensors().items(), key=lambda item: (-item[1].itemsize, item[0])):
        shape, nbytes = list(value.shape), value.nbytes
        found.append(
            manifests.TensorEntry(name=name, fqn=name, dtype=str(value.dtype), shape=shape, offset=start, nbytes=nbytes)
        )
        start += nbytes
    return found


def write_stripe(root: Path, code: erasure.Code, number: int, data: bytes, offset: int) -> manifests.Stripe:
    shape = erasure.StripeShape(code.k, code.m, len(data), BLOCK)
    buffer = np.zeros(code.n * shape.span, np.uint8)
    buffer[: len(data)] = np.frombuffer(data, np.uint8)
    rows = [buffer[i * shape.span : (i + 1) * shape.span] for i in range(code.n)]
    crc = erasure.encode_stripe(code, rows[: code.k], len(data), rows[code.k :], BLOCK)
    at = [(i + number) % len(TARGETS) if shape.stored(i) else None for i in range(code.n)]
    for i, target in enumerate(at):
        if target is not None:
            path = root / TARGETS[target] / paths.fragment("demo", SHARD, number, i)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(rows[i][: shape.stored(i)].tobytes())
    length = len(data)
    return manifests.Stripe(offset=offset, length=length, stored_length=length, at=at, crc=crc)


@pytest.fixture
def store(tmp_path) -> Path:
    """Six directories with one shard at 4 + 2: a full stripe and a short one."""
    data, start = stream()
    code = erasure.Code(K, M)
    pieces = [(at, data[at : at + STRIPE]) for at in range(0, len(data), STRIPE)]
    assert len(pieces) == 2
    record = manifests.ShardRecord(
        shard_id=SHARD,
        rank=0,
        length=len(data),
        targets=TARGETS,
        codes=[manifests.CodeSpec(k=K, m=M, matrix=code.parity_matrix.tobytes())],
        digest=manifests.Digest(block=BLOCK),
        stripes=[write_stripe(tmp_path, code, i, piece, at) for i, (at, piece) in enumerate(pieces)],
        tensors=entries(start),
    )
    stored, _ = manifests.pack(record)
    for target in TARGETS[:3]:
        (tmp_path / target / RECORD).parent.mkdir(parents=True)
        (tmp_path / target / RECORD).write_bytes(stored)
    return tmp_path


def rebuild(store: Path) -> subprocess.CompletedProcess:
    directories = [str(store / target) for target in TARGETS]
    command = [sys.executable, "-I", str(SCRIPT), RECORD, str(store / "out.safetensors"), *directories]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def assert_rebuilt(store: Path):
    done = rebuild(store)
    assert done.returncode == 0, done.stderr
    assert (store / "out.safetensors").read_bytes() == stream()[0]
    found = load_file(store / "out.safetensors")
    assert all(np.array_equal(found[name], value) for name, value in tensors().items())


@pytest.mark.parametrize("lost", ["", "a", "ab", "be", "ef", "cd"])
def test_o17_any_m_targets_lost(store, lost):
    for target in lost:
        shutil.rmtree(store / target)
    assert_rebuilt(store)


def flip(path: Path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def test_o11_one_target_lost_and_one_bit_flipped_in_every_stripe(store):
    shutil.rmtree(store / "a")
    for number in range(2):
        flip(store / TARGETS[(3 + number) % 6] / paths.fragment("demo", SHARD, number, 3))
    assert_rebuilt(store)


def test_more_lost_than_m_is_refused(store):
    for target in "def":
        shutil.rmtree(store / target)
    assert rebuild(store).returncode != 0


def test_it_imports_nothing_but_the_standard_library_and_reedsolo():
    tree = ast.parse(SCRIPT.read_text())
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert imported - sys.stdlib_module_names == {"reedsolo"}


def test_it_is_forty_lines_of_code():
    text = SCRIPT.read_text()
    docstring = len(ast.get_docstring(ast.parse(text), clean=False).splitlines())
    assert sum(bool(line.strip()) for line in text.splitlines()) - docstring <= 40
