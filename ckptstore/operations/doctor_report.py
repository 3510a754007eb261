"""What doctor tells: of each target what is amiss and what cures it, and what all are good for together."""

from dataclasses import dataclass, field

from ckptstore.operations.quorums import Quorums
from ckptstore.placement import Survives

DEGRADED = 3
"""The exit code for what is amiss but loadable, as docs/cli.md lists it."""

__all__ = ["DEGRADED", "DoctorReport", "TargetHealth"]


@dataclass
class TargetHealth:
    """One target. `problems` in words, and `advice`: what cures them, each once.

    `latency` and `clock_offset` (theirs less ours) in seconds, `free` in bytes; `endpoint` where the settings name one.
    """

    name: str
    url: str
    domain: str
    commit: bool
    endpoint: str = ""
    reachable: bool = True
    standing: str = ""
    problems: list[str] = field(default_factory=list)
    advice: list[str] = field(default_factory=list)
    latency: float | None = None
    clock_offset: float | None = None
    free: int | None = None
    store_id: str | None = None
    code: int = 0

    @property
    def takes_puts(self) -> bool:
        """Whether a save may put anything here, as far as was seen."""
        return self.code in (0, DEGRADED)

    def add(self, problem: str, code: int, advice: str) -> None:
        """Add a problem, its exit code, and what cures it ("" for nothing known)."""
        self.problems.append(problem)
        if advice and advice not in self.advice:
            self.advice.append(advice)
        self.code = max(self.code, code)


@dataclass
class DoctorReport:
    """All targets, and what they are good for together. -1 for what is not possible now."""

    targets: list[TargetHealth]
    store_id: str | None = None
    quorums: Quorums | None = None
    tolerance: Survives = Survives(-1, -1)
    loading_survives: int = -1
    saving_survives: int = -1
    exit_code: int = 0
