"""The operator's side of the demo: store.toml, and `ckpt` commands with their answers."""

import json
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ckptstore.demo.backings import Backing, Backings
from ckptstore.demo.jobs import StuckError

__all__ = ["Answer", "Commands"]

LIMIT = 100.0  # seconds that a command may take; the longest takes five
SETTINGS = """\
name = "demo"
code = "4+2"
fragment_size = "256KiB"   # small, so that even a small model has a dozen stripes
window = "6MiB"            # four of them in flight, so that a save can be caught half done
"""


@dataclass(frozen=True)
class Answer:
    """What a command said: its exit code, its JSON lines, and stderr."""

    code: int
    lines: list[dict[str, Any]]
    errors: str

    def __str__(self) -> str:
        said = self.errors.strip() or json.dumps(self.summary)
        return f"exit code {self.code}: {said}"

    @property
    def summary(self) -> dict[str, Any]:
        """The last line. Empty where there is none."""
        return self.lines[-1] if self.lines else {}

    @property
    def checkpoints(self) -> list[dict[str, Any]]:
        """The lines about one checkpoint each."""
        return [line for line in self.lines if line["type"] == "checkpoint"]

    @property
    def findings(self) -> list[dict[str, Any]]:
        """What `ckpt verify` found amiss."""
        return [finding for line in self.checkpoints for finding in line["findings"]]

    @property
    def damage(self) -> str:
        """The findings in a few words: kind, target and number."""
        counts = Counter((f["target"], f["kind"]) for f in self.findings if f["what"] == "fragment")
        words = [f"{number} {kind} on {target}" for (target, kind), number in sorted(counts.items())]
        return f"fragments: {', '.join(words)}" if words else "no fragment damaged"

    @property
    def deeds(self) -> str:
        """What `ckpt repair` did, in a few words; nothing for other commands."""
        done = {name: self.summary.get(name, 0) for name in ("rebuilt", "moved", "restored", "votes")}
        words = [f"{number} {name}" for name, number in done.items() if number]
        return f": {', '.join(words)}" if words else ""


class Commands:
    """Runs `ckpt` on the demo's store as a person would, with --json."""

    def __init__(self, path: Path, backings: Backings) -> None:
        self.path = path
        self.backings = backings

    def write_settings(self) -> None:
        """Write store.toml: a table for each target as it is now."""
        tables = [target_table(backing) for backing in self.backings.members.values()]
        self.path.write_text("\n".join([SETTINGS, *tables]), encoding="utf-8")

    def __call__(self, command: str, *options: str) -> Answer:
        """Run one command. Raises StuckError."""
        line = [sys.executable, "-m", "ckptstore.cli", command, "--store", str(self.path), "--run", "demo"]
        try:
            done = subprocess.run(  # noqa: S603 our own interpreter and arguments
                [*line, *options, "--json"], capture_output=True, text=True, check=False, timeout=LIMIT
            )
        except subprocess.TimeoutExpired:
            raise StuckError(f"ckpt {command} did not end within {LIMIT:.0f} s") from None
        return Answer(done.returncode, [json.loads(text) for text in done.stdout.splitlines()], done.stderr)

    def shards(self, step: int) -> set[str]:
        """Ask `ckpt show` for the shard ids of a checkpoint. Raises StuckError where it fails."""
        return {shard["shard_id"] for shard in self._summary("show", str(step))["shards"]}

    def tolerances(self) -> dict[int, int]:
        """Ask `ckpt ls` for the checkpoints: how many targets each may lose, by step, the latest last.

        Raises StuckError where it fails.
        """
        checkpoints = self._summary("ls")["checkpoints"]
        return {checkpoint["step"]: checkpoint["tolerance"]["targets"] for checkpoint in checkpoints}

    def _summary(self, command: str, *options: str) -> dict[str, Any]:
        answer = self(command, *options)
        if answer.code:
            raise StuckError(f"ckpt {command} failed, {answer}")
        return answer.summary


def target_table(backing: Backing) -> str:
    """One [[targets]] table."""
    options = ", ".join(f"{key} = {json.dumps(value)}" for key, value in backing.options.items())
    lines = ["[[targets]]", f'name = "{backing.name}"', f"url = {json.dumps(backing.url)}"]
    return "\n".join([*lines, *([f"options = {{ {options} }}"] if options else []), ""])
