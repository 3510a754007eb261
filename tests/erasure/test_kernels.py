"""A kernel must prove itself, is replaced with a warning if it can't, and releases the GIL."""

import subprocess
import sys
import sysconfig
import threading
import time
import warnings
from ctypes.util import find_library
from importlib import metadata

import numpy as np
import pytest

import erasure
from erasure.errors import KernelError, KernelWarning
from erasure.kernels import loading
from erasure.kernels.isal import IsalChecksum, IsalKernel, library_paths
from erasure.kernels.loading import active_checksum, active_kernel, choose
from erasure.kernels.proof import prove_checksum, prove_kernel
from erasure.kernels.tables import PackageChecksum, TableKernel
from erasure.testing import reedsolo_parity

from .samples import encoded, random_bytes

WHEEL = next(library_paths())


class Corrupted:
    """A kernel that is right but for one bit, in one situation."""

    name = "corrupted"

    def __init__(self, _path="", *, rows=None, length=None, at=0):
        self.rows, self.length, self.at = rows, length, at

    def product(self, coefficients):
        return CorruptedProduct(TableKernel().product(coefficients), self, len(coefficients))


class CorruptedProduct:
    def __init__(self, honest, kernel, rows):
        self.honest, self.kernel, self.rows = honest, kernel, rows

    def bind(self, sources, outputs):
        honest, kernel = self.honest.bind(sources, outputs), self.kernel

        def apply(start, stop):
            honest(start, stop)
            if kernel.rows in {None, self.rows} and kernel.length in {None, stop - start}:
                outputs[-1][kernel.at] ^= 1

        return apply


class CorruptedChecksum:
    """Forgets the final inversion, the usual mistake with ISA-L's convention."""

    name = "corrupted"

    def __init__(self, _path=""):
        self.honest = PackageChecksum()

    def bind(self, buffer):
        update = self.honest.bind(buffer)
        return lambda start, stop, value: update(start, stop, value) ^ 0xFFFFFFFF


def test_this_process_runs_isal_from_the_wheel():
    assert erasure.kernel_name() == "isal"
    assert active_checksum().name == "isal"
    assert "pyeclib.libs" in WHEEL


@pytest.mark.parametrize("make", [lambda: IsalKernel(WHEEL), TableKernel])
def test_kernels_prove_themselves(make):
    prove_kernel(make())


@pytest.mark.parametrize("make", [lambda: IsalChecksum(WHEEL), PackageChecksum])
def test_checksums_prove_themselves(make):
    prove_checksum(make())


@pytest.mark.parametrize(
    "fault", [{}, {"rows": 1}, {"rows": 7}, {"length": 1}, {"length": 33}, {"length": 1000, "at": 999}]
)
def test_one_wrong_bit_fails_the_proof(fault):
    with pytest.raises(KernelError, match="corrupted kernel gives a wrong answer"):
        prove_kernel(Corrupted(**fault))


def test_a_write_past_the_end_fails_the_proof():
    class Overrunning(Corrupted):
        def product(self, coefficients):
            return OverrunningProduct(super().product(coefficients), self, len(coefficients))

    class OverrunningProduct(CorruptedProduct):
        def bind(self, sources, outputs):
            apply = self.honest.honest.bind(sources, outputs)

            def beyond(start, stop):
                apply(start, stop)
                outputs[-1].base[-1] ^= 1

            return beyond

    with pytest.raises(KernelError, match="wrote past the end"):
        prove_kernel(Overrunning())


def test_a_wrong_checksum_fails_the_proof():
    with pytest.raises(KernelError, match="CRC32C"):
        prove_checksum(CorruptedChecksum())


def test_a_wrong_kernel_is_replaced_with_a_warning():
    with pytest.warns(KernelWarning, match=r"first: the corrupted kernel .*TableKernel"):
        chosen = choose(Corrupted, ["first"], TableKernel, prove_kernel)
    assert chosen.name == "numpy"


def test_a_wrong_checksum_is_replaced_with_a_warning():
    with pytest.warns(KernelWarning, match="first: the corrupted kernel .*PackageChecksum"):
        chosen = choose(CorruptedChecksum, ["first"], PackageChecksum, prove_checksum)
    assert chosen.name == "crc32c"


def test_the_next_copy_is_used_where_the_first_is_not_a_library(tmp_path):
    broken = tmp_path / "libisal.so.2"
    broken.write_bytes(b"not a library")
    with pytest.warns(KernelWarning, match="another copy of ISA-L"):
        chosen = choose(IsalKernel, [str(broken), WHEEL], TableKernel, prove_kernel)
    assert chosen.name == "isal"


def test_a_library_without_the_functions_is_replaced_with_a_warning():
    libm = find_library("m")
    with pytest.warns(KernelWarning, match="ec_init_tables"):
        chosen = choose(IsalKernel, [libm], TableKernel, prove_kernel)
    assert chosen.name == "numpy"


def test_a_good_library_is_taken_without_a_word():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert choose(IsalKernel, [WHEEL], TableKernel, prove_kernel).name == "isal"


def test_nothing_right_raises_rather_than_be_silently_wrong():
    with pytest.raises(KernelError):
        choose(Corrupted, [], Corrupted, prove_kernel)


@pytest.fixture
def without_isal(monkeypatch):
    """pyeclib isn't installed, and the system has no ISA-L."""

    def missing(_name):
        raise metadata.PackageNotFoundError

    monkeypatch.setattr(metadata, "files", missing)
    monkeypatch.setattr("erasure.kernels.isal._SYSTEM_NAMES", ("libisal-that-is-nowhere.so",))
    for cached in (active_kernel, active_checksum):
        cached.cache_clear()
    yield
    for cached in (active_kernel, active_checksum):
        cached.cache_clear()


@pytest.mark.usefixtures("without_isal")
def test_without_isal_all_works_by_tables_and_the_package():
    with pytest.warns(KernelWarning, match="libisal-that-is-nowhere.*Reinstall pyeclib"):
        assert erasure.kernel_name() == "numpy"
    with pytest.warns(KernelWarning, match="PackageChecksum"):
        assert erasure.crc32c(b"123456789") == 0xE3069283
    fragments = encoded(erasure.Code(4, 2), 100)
    assert np.array_equal(fragments[4:], reedsolo_parity(fragments[:4], 2))


def test_system_names_come_after_the_wheel():
    assert list(library_paths())[1:] == ["libisal.so.2", "libisal.so", "libisal.2.dylib"]


def test_the_kernel_is_chosen_once():
    assert loading.active_kernel() is loading.active_kernel()


def test_importing_loads_neither_libraries_nor_the_package():
    code = "import erasure, sys; print([m for m in ('crc32c', 'torch', 'pyeclib', 'email') if m in sys.modules])"
    environment = {"PYTHONPATH": ":".join(p for p in sys.path if p), "PATH": sysconfig.get_path("scripts")}
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    assert ran.stdout.strip() == "[]"


def counted_during(work):
    """How often a Python thread got to run while `work` did, and the longest it was kept waiting."""
    ticks, stop = [time.perf_counter()], threading.Event()

    def count():
        while not stop.wait(0.0005):
            ticks.append(time.perf_counter())

    thread = threading.Thread(target=count)
    thread.start()
    started = time.perf_counter()
    work()
    ended = time.perf_counter()
    stop.set()
    thread.join()
    return sum(started < tick < ended for tick in ticks), ended - started


@pytest.mark.parametrize("what", ["encode", "reconstruct", "crc32c"])
def test_the_gil_is_released_during_one_call(what):
    code, size = erasure.Code(4, 2), 16 << 20
    stripe = random_bytes(4 * size)
    rows = [stripe[i * size : (i + 1) * size] for i in range(4)]
    parity = np.zeros((2, size), np.uint8)
    present = {0: rows[0], 1: rows[1], 4: parity[0], 5: parity[1]}
    wanted = {2: np.empty(size, np.uint8), 3: np.empty(size, np.uint8)}
    call = {
        "encode": lambda: code.encode(rows, list(parity)),
        "reconstruct": lambda: code.reconstruct(present, wanted),
        "crc32c": lambda: erasure.crc32c(stripe),
    }[what]
    # Calls that kept the GIL would let the counter run between them only: once or twice for each.
    ticks, _ = counted_during(lambda: [call() for _ in range(10)])
    assert ticks > 40


def test_the_numpy_kernel_lets_other_threads_run():
    code = erasure.Code(4, 2, kernel=TableKernel())
    rows, parity = list(random_bytes((4, 2 << 20))), list(np.zeros((2, 2 << 20), np.uint8))
    ticks, seconds = counted_during(lambda: code.encode(rows, parity))
    assert ticks > seconds / 0.02
