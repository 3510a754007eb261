"""Speed of the erasure code on one core beside raw ISA-L, PyECLib, zfec, reedsolo; exits 1 if a line fails.

All runs of a comparison take turns in an order drawn anew for each round, on the same data in one process. A
turn begins with one run that isn't timed, so that none inherits another's caches, and lasts TURN seconds or
one timed run. The figures are medians, in GB (10^9 bytes) of user data a second.

Each comparison has a fresh process: PyECLib allocates its results, and memory that the allocator kept from
earlier work may triple its speed. The lines are judged at the store's default fragment size.
"""

import os
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context

import numpy as np
import reedsolo
import zfec
from pyeclib.ec_iface import ECDriver

import erasure
from erasure.kernels.isal import IsalKernel, library_paths

Run = Callable[[], object]
Rates = dict[str, float]

# reedsolo encodes about 1 MB a second and decodes 50 KB.
REEDSOLO_BYTES = 8 << 10
ROUNDS = 7
TURN = 0.1
FRAGMENT = 16 << 20
SMALL = 1 << 20


def turn(run: Run) -> list[float]:
    """Seconds of each timed run of one turn."""
    run()
    times: list[float] = []
    while sum(times) < TURN:
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return times


@dataclass(frozen=True)
class Comparison:
    """Named runs over the same `size` bytes of user data; `smaller` for those that take fewer."""

    title: str
    size: int
    runs: dict[str, Run]
    smaller: dict[str, int] = field(default_factory=dict)

    def measure(self) -> Rates:
        """Take ROUNDS shuffled rounds."""
        times: dict[str, list[float]] = {name: [] for name in self.runs}
        order = random.Random(ROUNDS)
        for _ in range(ROUNDS):
            for name in order.sample(list(self.runs), len(self.runs)):
                times[name] += turn(self.runs[name])
        return {name: self.smaller.get(name, self.size) / statistics.median(t) / 1e9 for name, t in times.items()}


@dataclass(frozen=True)
class Line:
    """One promise: `value` must reach `bound`."""

    text: str
    value: float
    bound: float

    @property
    def holds(self) -> bool:
        """Whether it does."""
        return self.value >= self.bound


class Buffers:
    """k data and m parity fragments of `size` bytes, random and touched, and what the other libraries take."""

    def __init__(self, k: int, m: int, size: int) -> None:
        self.k, self.m, self.size = k, m, size
        self.code = erasure.Code(k, m)
        self.stripe = np.random.default_rng(k).integers(0, 256, k * size, np.uint8)
        self.data = [self.stripe[i * size : (i + 1) * size] for i in range(k)]
        self.parity = [np.ones(size, np.uint8) for _ in range(m)]
        self.code.encode(self.data, self.parity)
        self.whole = self.stripe.tobytes()
        self.pieces = [d.tobytes() for d in self.data]
        self.driver = ECDriver(k=k, m=m, ec_type="isa_l_rs_cauchy")


def title(what: str, size: int) -> str:
    """Name a comparison; only an unusual fragment size is said."""
    return what if size == FRAGMENT else f"{what}, {size >> 20} MiB"


def bare(k: int, m: int, size: int) -> Comparison:
    """Beside ISA-L alone, whose turn always comes within a fraction of a second of ours."""
    b = Buffers(k, m, size)
    runs: dict[str, Run] = {"ckptstore": lambda: b.code.encode(b.data, b.parity), "raw ISA-L": raw_isal(b)}
    return Comparison(title(f"bare encode {k}+{m}", size), k * size, runs)


def raw_isal(b: Buffers) -> Run:
    """`ec_encode_data` itself on our buffers with all arguments prepared; nobody does better."""
    kernel = IsalKernel(next(library_paths()))
    product = kernel.product(b.code.parity_matrix)
    sources = np.array([d.ctypes.data for d in b.data], np.uintp)
    outputs = np.array([p.ctypes.data for p in b.parity], np.uintp)
    arguments = (b.size, b.k, b.m, product.tables.ctypes.data, sources.ctypes.data, outputs.ctypes.data)
    held = (product, sources, outputs)
    return lambda: kernel.encode(*arguments) if held else None


def reedsolo_encode(b: Buffers) -> Run:
    """Encode REEDSOLO_BYTES with reedsolo itself."""
    codec = reedsolo.RSCodec(b.m, nsize=b.k + b.m)
    part = b.whole[:REEDSOLO_BYTES]
    return lambda: codec.encode(part)


def encoding(k: int, m: int, size: int) -> Comparison:
    """All fragments' parity; no checksums."""
    b = Buffers(k, m, size)
    zfec_encoder, numbers = zfec.Encoder(k, k + m), list(range(k, k + m))
    runs: dict[str, Run] = {
        "ckptstore": lambda: b.code.encode(b.data, b.parity),
        "PyECLib": lambda: b.driver.encode(b.whole),
        "zfec": lambda: zfec_encoder.encode(b.pieces, numbers),
        "reedsolo": reedsolo_encode(b),
    }
    return Comparison(title(f"encode {k}+{m}", size), k * size, runs, {"reedsolo": REEDSOLO_BYTES})


def fused(k: int, m: int, size: int) -> Comparison:
    """Parity and the CRC32C of every block of all fragments."""
    b = Buffers(k, m, size)
    copy = np.ones_like(b.stripe)
    fragments = [*b.data, *b.parity]

    def in_two_passes() -> None:
        b.code.encode(b.data, b.parity)
        for fragment in fragments:
            erasure.block_crcs(fragment)

    runs: dict[str, Run] = {
        "ckptstore": lambda: erasure.encode_stripe(b.code, b.stripe.reshape(b.code.k, -1), b.stripe.size, b.parity),
        "two passes": in_two_passes,
        "memcpy": lambda: np.copyto(copy, b.stripe),
    }
    return Comparison(title(f"encode + CRC32C {k}+{m}", size), k * size, runs)


def decoding(k: int, m: int, size: int) -> Comparison:
    """The first m data fragments lost."""
    b = Buffers(k, m, size)
    fragments = [*b.data, *b.parity]
    present = {i: fragments[i] for i in range(m, k + m)}
    wanted = {i: np.ones(size, np.uint8) for i in range(m)}
    theirs = b.driver.encode(b.whole)[m:]
    zfec_decoder = zfec.Decoder(k, k + m)
    shares = [*b.pieces[m:], *zfec.Encoder(k, k + m).encode(b.pieces, list(range(k, k + m)))]
    codec = reedsolo.RSCodec(m, nsize=k + m)
    words = [codec.encode(b.whole[at : at + k]) for at in range(0, REEDSOLO_BYTES, k)]
    erased = list(range(m))
    runs: dict[str, Run] = {
        "ckptstore": lambda: b.code.reconstruct(present, wanted),
        "PyECLib": lambda: b.driver.decode(theirs),
        "zfec": lambda: zfec_decoder.decode(shares, list(range(m, k + m))),
        "reedsolo": lambda: [codec.decode(word, erase_pos=erased) for word in words],
    }
    runs["ckptstore"]()
    if runs["PyECLib"]() != b.whole or any((wanted[i] != b.data[i]).any() for i in wanted):
        sys.exit(f"decode {k}+{m}: wrong bytes")
    return Comparison(title(f"decode {k}+{m}, {m} lost", size), k * size, runs, {"reedsolo": REEDSOLO_BYTES})


def promises(found: dict[str, Rates]) -> Iterator[Line]:
    """What must hold, from the medians of one run."""
    alone, encode, both = found["bare encode 8+4"], found["encode 8+4"], found["encode + CRC32C 4+2"]
    yield Line("encode 8+4 / raw ISA-L", alone["ckptstore"] / alone["raw ISA-L"], 0.9)
    yield Line("encode 8+4 / PyECLib", encode["ckptstore"] / encode["PyECLib"], 12.0)
    bound = min(3.0, 0.25 * both["memcpy"])
    yield Line("encode + CRC32C 4+2, GB/s (3, or memcpy / 4 if lower)", both["ckptstore"], bound)
    for name in ("decode 4+2, 2 lost", "decode 8+4, 4 lost"):
        yield Line(f"{name} / PyECLib", found[name]["ckptstore"] / found[name]["PyECLib"], 5.0)


def print_table(found: dict[str, Rates]) -> None:
    """One row for each comparison, one column for each library."""
    columns = list(dict.fromkeys(name for rates in found.values() for name in rates))
    print(f"GB/s, {FRAGMENT >> 20} MiB fragments".ljust(27), *(name.rjust(11) for name in columns))
    for title, rates in found.items():
        cells = (f"{rates[name]:.4g}" if name in rates else "-" for name in columns)
        print(title.ljust(27), *(cell.rjust(11) for cell in cells))


def measure(make: Callable[[int, int, int], Comparison], k: int, m: int, size: int) -> tuple[str, Rates]:
    """Build one comparison and run it on one core."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    comparison = make(k, m, size)
    return comparison.title, comparison.measure()


def main() -> int:
    """Measure, print, and judge."""
    work = [(make, k, m, FRAGMENT) for make in (bare, encoding, fused, decoding) for k, m in ((4, 2), (8, 4))]
    work += [(encoding, 8, 4, SMALL), (decoding, 8, 4, SMALL)]
    fresh = get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=fresh, max_tasks_per_child=1) as pool:
        found = dict(future.result() for future in [pool.submit(measure, *each) for each in work])
    print(f"kernel {erasure.kernel_name()}, one core, medians of {ROUNDS} rounds")
    print_table(found)
    lines = list(promises(found))
    for line in lines:
        verdict = "holds" if line.holds else "FAILS"
        print(f"{verdict}  {line.text}: {line.value:.2f}, at least {line.bound:.2f}")
    return 0 if all(line.holds for line in lines) else 1


if __name__ == "__main__":
    sys.exit(main())
