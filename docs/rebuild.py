"""Rebuild a shard's safetensors file from what is left of it, with the standard library and reedsolo.

python rebuild.py runs/RUN/shards/SHARD OUT DIRECTORY...      (what docs/format.md says, as a program)
"""

import base64, gzip, hashlib, io, json, sys
from pathlib import Path

from reedsolo import RSCodec

_, name, out, *directories = sys.argv
table = list(range(256))
for _ in range(8):
    table = [value >> 1 ^ 0x82F63B78 * (value & 1) for value in table]


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = table[(crc ^ byte) & 255] ^ crc >> 8
    return (crc ^ 0xFFFFFFFF).to_bytes(4, "little")


def fragment(path, size, crcs):
    for folder in directories:
        data = file.read_bytes() if (file := Path(folder, path)).exists() else b""
        if data and b"".join(crc32c(data[i : i + block]) for i in range(0, len(data), block)) == crcs:
            return data
    return None if size else b""


raw = next(file for folder in directories if (file := Path(folder, name)).exists()).read_bytes()
record = json.loads(gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw)
assert record["format"][0] == 1 and not record["requires"], "this takes a newer reader"
block = record["digest"]["block"]
with Path(out).open("wb") as stream:
    for number, stripe in enumerate(record["stripes"]):
        home = stripe["source"] or {"shard_id": record["shard_id"], "stripe": number}
        prefix = hashlib.sha256(home["shard_id"].encode()).hexdigest()[:2]
        start = f"data/{prefix}/{name.split('/')[1]}/{home['shard_id']}/{home['stripe']:06d}"
        k, m = (record["codes"][stripe["code"]][key] for key in "km")
        span = -(-(length := stripe["stored_length"]) // k)
        crcs, rows = io.BytesIO(base64.b64decode(stripe["crc"])), []
        for i in range(k + m):
            size = span if i >= k else max(0, min(span, length - i * span))
            rows.append(fragment(f"{start}.{i:03d}", size, crcs.read(4 * -(-size // block))))
        if None in rows[:k]:
            lost, codec = [i for i, row in enumerate(rows) if row is None], RSCodec(m, nsize=k + m)
            columns = zip(*((row or b"").ljust(span, b"\0") for row in rows), strict=True)
            decoded = [codec.decode(bytes(column), erase_pos=lost)[0] for column in columns]
            rows = [bytes(row) for row in zip(*decoded, strict=True)]
        stream.write(b"".join(rows[:k])[:length])
