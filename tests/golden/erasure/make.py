"""Writes vectors.json from reedsolo itself: `python -m tests.golden.erasure.make`. Format 1 keeps it for ever."""

import base64
import json
import random
from pathlib import Path

import numpy as np

from erasure.testing import reedsolo_parity, reference_stripe

CASES = [
    (1, 0, 5, 4),
    (1, 2, 9, 4),
    (4, 2, 0, 8),
    (4, 2, 1, 8),
    (4, 2, 131, 8),
    (5, 3, 64, 16),
    (8, 4, 1025, 64),
    (20, 10, 333, 7),
]
MATRICES = [(1, 1), (4, 2), (8, 4), (10, 4), (17, 3), (200, 55)]
PATH = Path(__file__).with_name("vectors.json")


def text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def document() -> dict:
    """Payloads are Mersenne Twister bytes of a fixed seed, written out so that no reader needs to repeat it."""
    stripes = []
    for k, m, length, block in CASES:
        payload = random.Random(f"{k}+{m}/{length}").randbytes(length)
        fragments, crcs = reference_stripe(payload, k, m, block)
        table = np.array(crcs, "<u4").tobytes()
        stripes.append(
            {
                "k": k,
                "m": m,
                "block": block,
                "payload": text(payload),
                "fragments": [text(f) for f in fragments],
                "crc": text(table),
            }
        )
    matrices = [
        {"k": k, "m": m, "matrix": text(reedsolo_parity(np.eye(k, dtype=np.uint8), m).tobytes())} for k, m in MATRICES
    ]
    return {"matrices": matrices, "stripes": stripes}


if __name__ == "__main__":
    PATH.write_text(json.dumps(document(), indent=1) + "\n")
