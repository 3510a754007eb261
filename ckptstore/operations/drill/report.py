"""What a drill found: round by round, checkpoint by checkpoint, and beside the objectives."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from ckptstore.operations.drill.faults import Faults
from ckptstore.placement import Survives

FORMAT = 1
"""Of the JSON that a report is written as; fields may be added without a new number."""

DIGEST = "the CRC-32C of every block of data (1 MiB), recorded from the tensors' bytes when they were encoded"

OBJECTIVE_MISSED, LOST, UNKNOWN, CHANGED = 3, 4, 5, 11
"""Exit codes, as docs/cli.md lists them."""

__all__ = ["DIGEST", "DrillReport", "DrilledRound", "Prediction", "Restored", "Verdict"]


@dataclass
class Restored:
    """One checkpoint in one round.

    `state`: "restored"; "lost", with what it failed by in `kind` and `message`; "unknown" (targets out of reach without
    the drill's doing decide); "changed" (deleted or repaired while it was drilled, so nothing is said of it).
    `total` bytes it has, of which `bytes` were restored and compared, as `blocks` with a digest each; `read` from the
    targets for that, `predicted_read` by the records. `seconds` it took, `predicted` for a store without faults, None
    where nothing could be predicted; `whole_seconds`: with what was left out of a sample, at the same pace.
    """

    key: str
    name: str
    step: int | None
    created: str
    total: int
    state: str = "restored"
    kind: str = ""
    message: str = ""
    bytes: int = 0
    blocks: int = 0
    read: int = 0
    predicted_read: int = 0
    seconds: float = 0.0
    predicted: float | None = None
    whole_seconds: float = 0.0
    folder: str = ""


@dataclass
class DrilledRound:
    """One round: what was done to the store, and what came of it.

    `domains_lost`: how many lost all of their targets; `domains_hit`: how many lost any.
    """

    name: str
    faults: Faults
    domains_lost: int
    domains_hit: int
    results: list[Restored] = field(default_factory=list)


@dataclass(frozen=True)
class Prediction:
    """How fast this store is read when all is well: `opening` and `documents` in seconds, `rate` in bytes a second.

    `source`: "measured" just before the drill on the same targets, reading `bytes`; "history", `bytes` of earlier
    drills; "none", and then `why`.
    """

    source: str
    opening: float = 0.0
    documents: float = 0.0
    rate: float = 0.0
    bytes: int = 0
    why: str = ""

    def seconds(self, nbytes: int) -> float | None:
        """For a checkpoint of which so many bytes are restored."""
        return self.opening + self.documents + nbytes / self.rate if self.rate else None


@dataclass(frozen=True)
class Verdict:
    """One objective: what is wanted, what was found, and "pass", "fail" or "untested"."""

    objective: str
    wanted: str
    found: str
    verdict: str


@dataclass
class DrillReport:
    """A drill. `out_of_reach`: targets that were so before anything was done, and why. `survive`: by what is there."""

    store: str
    run: str
    began: str
    seed: str
    sample: float
    code: str
    rounds: list[DrilledRound] = field(default_factory=list)
    verdicts: list[Verdict] = field(default_factory=list)
    prediction: Prediction = Prediction("none")
    survive: dict[str, Survives] = field(default_factory=dict)
    out_of_reach: dict[str, str] = field(default_factory=dict)
    beyond_layout: Sequence[str] = ()
    seconds: float = 0.0
    next: str = ""
    files: list[str] = field(default_factory=list)

    @property
    def results(self) -> list[Restored]:
        """All of all rounds."""
        return [result for each in self.rounds for result in each.results]

    @property
    def exit_code(self) -> int:
        """0 all came back and no objective is missed; 3 one is; 4 something was lost; 5 unknown; 11 all changed."""
        states = [result.state for result in self.results]
        if "lost" in states:
            return LOST
        if "unknown" in states:
            return UNKNOWN
        if {*states} == {"changed"}:
            return CHANGED
        return OBJECTIVE_MISSED if any(each.verdict == "fail" for each in self.verdicts) else 0
