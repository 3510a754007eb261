"""The same bytes with nothing around them: what writing, reading, checking and copying take on this machine alone."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

import erasure
from benchmarks.setting import MIB, State

PIECE = 16 * MIB
BLOCK = MIB

Call = Callable[[], object]

__all__ = ["read_and_check", "write"]


def write(state: State, folder: Path, times: float, threads: int) -> Call:
    """Write `times` the bytes of the state into files of 16 MiB, on so many threads."""
    pieces = _pieces(state)
    count = round(len(pieces) * times)

    def put(first: int) -> None:
        for number in range(first, count, threads):
            with _file(folder, number).open("wb", buffering=0) as file:
                file.write(pieces[number % len(pieces)])

    return lambda: _on_threads(threads, put, folder)


def read_and_check(state: State, folder: Path, threads: int) -> Call:
    """Read what `write` wrote, take a checksum of every MiB, and copy it into the state, on so many threads."""
    pieces = _pieces(state)

    def get(first: int) -> None:
        buffer = np.empty(PIECE, np.uint8)
        for number in range(first, len(pieces), threads):
            with _file(folder, number).open("rb", buffering=0) as file:
                os.readv(file.fileno(), [buffer])
            for at in range(0, PIECE, BLOCK):
                erasure.crc32c(buffer[at : at + BLOCK])
            pieces[number][:] = buffer

    return lambda: _on_threads(threads, get, folder)


def _pieces(state: State) -> list["np.ndarray[tuple[int], np.dtype[np.uint8]]"]:
    flat = [tensor.view(-1).numpy().view(np.uint8) for tensor in state.values()]
    return [each[at : at + PIECE] for each in flat for at in range(0, each.size, PIECE)]


def _file(folder: Path, number: int) -> Path:
    return folder / f"{number:06d}"


def _on_threads(threads: int, work: Callable[[int], None], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, range(threads)))
