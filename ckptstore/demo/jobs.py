"""The training jobs under torchrun, their output in log files."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

__all__ = ["Job", "StuckError", "wait_until"]

LIMIT = 170.0  # seconds that anything may take: the whole demo has 180
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--local-addr=127.0.0.1"]


class StuckError(Exception):
    """A child process failed, or did not do in time what it was started for; the message says where to look."""


class Job:
    """A training job on `ranks` ranks, and what its journal says."""

    def __init__(self, folder: Path, name: str, ranks: int, *options: str) -> None:
        self.name = name
        self.log = folder / f"{name}.log"
        self._journal = folder / f"{name}.jsonl"
        train = ["-m", "ckptstore.demo.train", f"--journal={self._journal}"]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(  # noqa: S603 our own interpreter and arguments
                [*TORCHRUN, f"--nproc-per-node={ranks}", *train, *options],
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, "OMP_NUM_THREADS": "1", **loopback()},
            )

    def events(self, kind: str) -> list[dict[str, Any]]:
        """Events of one kind, in order."""
        if not self._journal.exists():
            return []
        lines = self._journal.read_text(encoding="utf-8").split("\n")[:-1]
        return [event for event in map(json.loads, lines) if event["event"] == kind]

    def steps(self) -> dict[int, dict[str, Any]]:
        """Loss and samples by step."""
        return {event["step"]: event for event in self.events("step")}

    def digests(self) -> dict[int, str]:
        """Digests of the state by step."""
        return {event["step"]: event["digest"] for event in self.events("digest")}

    def wait(self) -> int:
        """Wait for the end. Returns torchrun's exit code; raises StuckError."""
        try:
            return self.process.wait(LIMIT)
        except subprocess.TimeoutExpired:
            self.stop()
            raise StuckError(f"{self.name} did not end within {LIMIT:.0f} s; its output: {self.log}") from None

    def died_of_sigkill(self, rank: int) -> bool:
        """Whether torchrun saw this rank end by signal 9."""
        pid = self.events("started")[0]["pids"][rank]
        return f"Signal 9 (SIGKILL) received by PID {pid}" in self.log.read_text(errors="replace")

    def stop(self) -> None:
        """End the job and its ranks, if it still runs."""
        if self.process.poll() is not None:
            return
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def loopback() -> dict[str, str]:
    """Keep gloo on the loopback interface, whatever the host's name resolves to."""
    return {"GLOO_SOCKET_IFNAME": "lo"} if sys.platform == "linux" else {}


def wait_until(seen: Callable[[], Any], what: str, *, pause: float) -> Any:
    """Ask until the answer is true; returns it. Raises StuckError after LIMIT seconds."""
    deadline = time.monotonic() + LIMIT
    while not (answer := seen()):
        if time.monotonic() > deadline:
            raise StuckError(f"waited {LIMIT:.0f} s for {what}")
        time.sleep(pause)
    return answer
