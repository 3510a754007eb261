"""`ckpt` for tests: as a child process, or quicker, in this one."""

import io
import json
import os
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from ckptstore import opened
from ckptstore.cli.entry import run

SETTINGS = 'name = "store"\ncode = "{code}"\nfragment_size = "{fragment}"\n'


@dataclass(frozen=True)
class Answer:
    """What a command said."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[dict]:
        """Stdout as JSON lines; fails where it is anything else."""
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def summary(self) -> dict:
        """The last line, which must be the summary, with the exit code of the process."""
        last = self.lines[-1]
        assert last["type"] == "summary"
        assert last["code"] == self.code
        return last

    @property
    def checkpoints(self) -> list[dict]:
        """The lines before the summary."""
        assert all(line["type"] == "checkpoint" for line in self.lines[:-1])
        return self.lines[:-1]


class Ckpt:
    """The command on one store in one folder."""

    def __init__(self, folder: Path, names: str = "abcdef", code: str = "4+2", fragment: str = "64KiB") -> None:
        self.folder = folder
        self.path = folder / "store.toml"
        self.names = names
        self.write(code, fragment)

    def write(self, code: str, fragment: str, extra: str = "") -> None:
        """Write store.toml."""
        tables = [f'[[targets]]\nname = "{name}"\nurl = "{name}"\n' for name in self.names]
        text = SETTINGS.format(code=code, fragment=fragment) + extra + "\n".join(tables)
        self.path.write_text(text)

    def __call__(self, *arguments: object) -> Answer:
        """Run a command in this process, on a store opened anew."""
        out, err = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            code = run([*map(str, arguments), *self.where(arguments)])
        while opened._SHARED:
            opened._SHARED.popitem()[1].close()
        return Answer(code, out.getvalue(), err.getvalue())

    def child(self, *arguments: object, **environment: str) -> Answer:
        """Run a command in a process of its own."""
        line = [sys.executable, "-m", "ckptstore.cli", *map(str, arguments), *self.where(arguments)]
        env = {**os.environ, "CKPT_STORE": "", **environment}
        done = subprocess.run(line, capture_output=True, text=True, check=False, cwd=self.folder, env=env, timeout=60)
        return Answer(done.returncode, done.stdout, done.stderr)

    def where(self, arguments: tuple[object, ...]) -> list[str]:
        """`--store`, unless the arguments have it."""
        return [] if "--store" in arguments or not arguments else ["--store", str(self.path)]

    def fragments(self, target: str) -> list[Path]:
        """The fragments on a target, in order."""
        return sorted(path for path in (self.folder / target / "data").rglob("*") if path.is_file())

    def away(self, *names: str) -> None:
        """Take targets out of reach."""
        for name in names:
            (self.folder / name).rename(self.folder / f"{name}.away")

    def back(self, *names: str) -> None:
        """Bring them back."""
        for name in names:
            (self.folder / f"{name}.away").rename(self.folder / name)


def tensors(seed: int = 0, rows: int = 300) -> dict[str, np.ndarray]:
    """About 1.3 MB in several dtypes: two stripes of 4 x 64 KiB and more."""
    rng = np.random.default_rng(seed)
    return {
        "model.embed": rng.standard_normal((rows, 1000)).astype(np.float32),
        "model.norm": rng.standard_normal(17).astype(np.float16),
        "optim.step": np.array(seed, np.int64),
        "optim.mask": rng.integers(0, 2, (3, 5)).astype(bool),
        "empty": np.zeros((0, 4), np.float64),
    }


def write_tensors(path: Path, seed: int = 0, rows: int = 300) -> dict[str, np.ndarray]:
    """A safetensors file of them."""
    found = tensors(seed, rows)
    save_file(found, path, metadata={"format": "pt", "note": "of a test"})
    return found


def flip(path: Path, at: int = 100) -> None:
    """Flip one bit of a file."""
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)
