"""What a prune tells: of each checkpoint whether it stays, and what is removed, waits, or had to be left."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ckptstore.operations.keeping import Choice
from ckptstore.operations.removal import Removal
from ckptstore.retention import Retention
from ckptstore.selection import key_of
from manifests import Checkpoint
from manifests.marks import Retired
from manifests.paths import SaveKey

_SPARED: Mapping[Retired | None, str] = {
    "tagged": "it got a tag meanwhile",
    "doubted": "whether it has a tag can't be read",
}
"""Why a checkpoint that was to be deleted stays."""

__all__ = ["PruneReport", "Waiting"]


@dataclass(frozen=True)
class Waiting:
    """A deleted checkpoint that keeps its data: for so many `seconds` (None: not known), or while `used` or tagged."""

    checkpoint: Checkpoint
    seconds: float | None
    used: bool = False

    @property
    def tags(self) -> tuple[str, ...]:
        """Those that keep its data."""
        return self.checkpoint.tags


@dataclass(repr=False)
class PruneReport:
    """What is to be done, or was.

    choices   the live checkpoints: kept, and why, or deleted
    ended     deleted checkpoints past their grace period: their data goes
    waiting   deleted checkpoints that can still be undeleted
    given_up  saves begun longer ago than the grace period that never committed
    unreadable  saves deleted so long ago of which no manifest can be read, and the marks; what they hold is orphaned
    removal   the objects removed, orphans among them, or in a dry run those that would be now
    lost      those to be kept of which too little is left to load: they don't count for the rules
    notes     what was found of those to be kept: which are lost, and what could not be looked at
    blocked   why something had to be left that may be garbage
    failed    what couldn't be done
    """

    run: str
    rules: Retention
    dry_run: bool
    choices: list[Choice] = field(default_factory=list)
    ended: list[Checkpoint] = field(default_factory=list)
    waiting: list[Waiting] = field(default_factory=list)
    given_up: list[SaveKey] = field(default_factory=list)
    unreadable: dict[SaveKey, list[str]] = field(default_factory=dict)
    removal: Removal = field(default_factory=Removal)
    lost: set[SaveKey] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)
    blocked: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.removal.dry_run = self.dry_run

    def __repr__(self) -> str:
        """What a person in a notebook wants of it: names, not manifests."""
        named = {"kept": self.kept, "deleted": self.deleted, "ended": self.ended}
        told = ", ".join(f"{what}={[_name(each) for each in them[-5:]]}" for what, them in named.items())
        more = f"removed={self.removal.objects}, left={len(self.left)}, dry_run={self.dry_run}"
        return f"PruneReport(run={self.run!r}, {told}, {more})"

    def settle(self, fates: Mapping[SaveKey, Retired]) -> None:
        """Take up what became of checkpoints to be deleted: some have a tag by now, some another prune has removed."""
        told = [(choice, fates.get(choice.checkpoint.key)) for choice in self.choices]
        self.choices = [
            Choice(choice.checkpoint, (_SPARED[fate],)) if fate in _SPARED else choice
            for choice, fate in told
            if fate != "gone"
        ]

    @property
    def failed(self) -> list[str]:
        """What couldn't be removed, and why."""
        return [f"{at}: {why}" for at, why in self.removal.failed.items()]

    @property
    def deleted(self) -> list[Checkpoint]:
        """The live checkpoints that the rules don't keep."""
        return [choice.checkpoint for choice in self.choices if not choice.keep]

    @property
    def kept(self) -> list[Checkpoint]:
        """The live checkpoints that stay; the last one will be the latest."""
        return [choice.checkpoint for choice in self.choices if choice.keep]

    @property
    def counting(self) -> list[Checkpoint]:
        """Those that stay as some of the last, and so in the place of older ones."""
        return [choice.checkpoint for choice in self.choices if choice.counts]

    @property
    def left(self) -> list[str]:
        """Why something was left that should have gone."""
        return [*self.blocked, *self.failed]

    @property
    def exit_code(self) -> int:
        """0, or 1 where something was left that should have gone."""
        return 1 if self.left else 0


def _name(checkpoint: Checkpoint) -> str:
    return checkpoint.manifest.name or key_of(checkpoint)
