"""Offsets past 4 GiB, without the disk space: all but one stripe are never read, or are zeros that nobody keeps."""

from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

import erasure
from ckptstore.load.plan import Request, Shard, box_runs
from ckptstore.targets import FaultTarget
from ckptstore.targets.base import Entry
from manifests import TensorEntry
from tests.support import LocalStore, make_store, random_bytes

FAR = 5 << 30


def test_o38_a_tensor_at_5_gib_is_read_from_its_own_stripe(tmp_path):
    """The record says that 80 stripes come before the one that is stored."""
    store = make_store(tmp_path, memory=True)
    payload = random_bytes(200_000)
    record = store.record(store.save({"x": payload}))
    (near,) = record.stripes
    full = erasure.StripeShape(4, 2, 64 << 20)
    blank = replace(near, length=64 << 20, stored_length=64 << 20, crc=bytes(4 * full.crc_count))
    before = [replace(blank, offset=i * blank.length) for i in range(FAR // blank.length)]
    far = replace(record, stripes=[*before, replace(near, offset=FAR)], length=FAR + near.length)
    for fragment in range(6):
        stored = store.fragment(store.latest(), fragment)
        moved = stored.path.replace("000000.", f"{len(before):06d}.")
        store.raw[stored.target].put(moved, store.read(stored))
    into = np.zeros(payload.size, np.uint8)
    runs = box_runs([payload.size], 1, [0], [payload.size])
    source = store.source()
    for meter in store.meters.values():
        meter.reset()
    source.read([Request(Shard("demo", far), FAR + record.tensors[0].offset, runs, into)])
    assert into.tobytes() == payload.tobytes()
    assert sum(meter.bytes_read for meter in store.meters.values()) <= near.length


class Forgetful(FaultTarget):
    """Keeps of fragments of zeros only that they are there: a sparse file's holes take no space either."""

    def __init__(self, inner) -> None:
        super().__init__(inner)
        self.zeros: dict[str, int] = {}

    def put(self, path, data) -> None:
        if path.startswith("data/") and not bytes(data).strip(b"\0"):
            self.zeros[path] = len(data)
        else:
            super().put(path, data)

    def head(self, path) -> Entry:
        if path in self.zeros:
            return Entry(path, self.zeros[path], datetime.now(UTC))
        return super().head(path)


@pytest.mark.soak
def test_o38_a_shard_of_more_than_5_gib_is_saved_and_its_end_read(tmp_path):
    store = make_store(tmp_path, "abcde", "4+1", "64MiB")
    store.opened.targets = {name: Forgetful(target) for name, target in store.faults.items()}
    payload = random_bytes(1_000_000)
    manifest = save_far(store, payload)
    record = store.record(manifest)
    assert record.length > FAR + payload.size
    entry = next(entry for entry in record.tensors if entry.name == "z")
    assert entry.offset >= FAR
    assert read_entry(store, record, entry) == payload.tobytes()


def save_far(store: LocalStore, payload: np.ndarray):
    zeros = np.zeros(FAR, np.uint8)  # pages that are only read are never made
    return store.save({"a": zeros, "z": payload})


def read_entry(store: LocalStore, record, entry: TensorEntry) -> bytes:
    into = np.zeros(entry.nbytes, np.uint8)
    runs = box_runs(entry.shape, 1, [0], entry.shape)
    store.source().read([Request(Shard("demo", record), entry.offset, runs, into)])
    return into.tobytes()


@pytest.mark.soak
def test_o38_one_tensor_of_2_1_gib(tmp_path):
    """Past what one write or read call takes on Linux (2 GiB): a fragment of that size is not allowed, a tensor is."""
    store = make_store(tmp_path, "abc", "2+1", "1GiB", window="3GiB")
    big = np.arange((21 << 30) // 10 // 8, dtype=np.int64)
    store.save({"big": big})
    for name in ("a", "b"):
        store.take_away(name)
        found = store.load()["big"]
        assert np.array_equal(found, big)
        store.bring_back(name)
    assert Path(tmp_path / "a").exists()
