"""The bytes of format version 1, as committed: they were made by reedsolo and must never change."""

import json
from base64 import b64decode
from pathlib import Path

import numpy as np
import pytest

from erasure import Code, StripeShape, block_crcs, encode_stripe
from tests.golden.erasure import make

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "erasure" / "vectors.json").read_text())


def test_reedsolo_still_gives_the_committed_vectors():
    assert make.document() == GOLDEN


@pytest.mark.parametrize("golden", GOLDEN["matrices"], ids=lambda g: f"{g['k']}+{g['m']}")
def test_matrices(golden):
    assert Code(golden["k"], golden["m"]).parity_matrix.tobytes() == b64decode(golden["matrix"])


@pytest.mark.parametrize("golden", GOLDEN["stripes"], ids=lambda g: f"{g['k']}+{g['m']}")
def test_stripes(kernel, golden):
    k, m, payload = golden["k"], golden["m"], b64decode(golden["payload"])
    shape = StripeShape(k, m, len(payload), golden["block"])
    stripe = np.frombuffer(payload.ljust(k * shape.span, b"\0"), np.uint8)
    parity = np.empty((m, shape.span), np.uint8)
    table = encode_stripe(Code(k, m, kernel=kernel), stripe.reshape(k, -1), len(payload), parity, golden["block"])
    fragments = [stripe[i * shape.span :][: shape.stored(i)].tobytes() for i in range(k)]
    assert fragments + [row.tobytes() for row in parity] == [b64decode(f) for f in golden["fragments"]]
    assert table == b64decode(golden["crc"])


@pytest.mark.parametrize("golden", GOLDEN["stripes"], ids=lambda g: f"{g['k']}+{g['m']}")
def test_stored_fragments_rebuild_each_other(kernel, golden):
    k, m = golden["k"], golden["m"]
    shape = StripeShape(k, m, len(b64decode(golden["payload"])), golden["block"])
    stored = [b64decode(f) for f in golden["fragments"]]
    padded = [np.frombuffer(f.ljust(shape.span, b"\0"), np.uint8) for f in stored]
    wanted = {i: np.empty(shape.span, np.uint8) for i in range(m)}
    Code(k, m, kernel=kernel).reconstruct({i: padded[i] for i in range(m, k + m)}, wanted)
    assert all(wanted[i][: shape.stored(i)].tobytes() == stored[i] for i in wanted)
    crcs = [c for f in stored for c in block_crcs(f, shape.block)]
    assert crcs == np.frombuffer(b64decode(golden["crc"]), "<u4").tolist()
