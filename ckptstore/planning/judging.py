"""What a layout promises, beside what is asked of it: each objective holds or doesn't, and by how much."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ckptstore.objectives import Objectives
from ckptstore.placement import Survives

TIMES = ("rpo", "rto")
"""Objectives in seconds, of which less is better; the others are counts, of which more is."""

ROUNDING = 1e-9

__all__ = ["TIMES", "Verdict", "judge", "unmet_by_all"]


@dataclass(frozen=True)
class Verdict:
    """One objective: what is wanted, what the layout reaches, in seconds or as a count."""

    objective: str
    wanted: float
    reached: float

    @property
    def spare(self) -> float:
        """How much better it is than it must be; below 0: by how much it is missed."""
        return self.wanted - self.reached if self.objective in TIMES else self.reached - self.wanted

    @property
    def met(self) -> bool:
        """Whether it holds, up to what adding seconds rounds."""
        return self.spare >= -ROUNDING * self.wanted


def judge(objectives: Objectives, *, age: float, restore: float, survives: Survives) -> list[Verdict]:
    """Those objectives that there are. `age`: of the newest checkpoint, at its oldest; `restore`: until it is read."""
    reached = {
        "rpo": (objectives.rpo_seconds, age),
        "rto": (objectives.rto_seconds, restore),
        "survive": (objectives.survive, survives.targets),
        "survive_domains": (objectives.survive_domains, survives.domains),
    }
    return [Verdict(name, wanted, found) for name, (wanted, found) in reached.items() if wanted is not None]


def unmet_by_all(judged: Iterable[Sequence[Verdict]]) -> list[Verdict]:
    """Of each objective that none of several layouts meets, the verdict that misses it by least."""
    return [
        max(verdicts, key=lambda verdict: verdict.spare)
        for verdicts in zip(*judged, strict=True)
        if not any(verdict.met for verdict in verdicts)
    ]
