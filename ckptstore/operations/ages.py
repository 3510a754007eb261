"""How old things are, each by the clock of the target that holds it: no two clocks are ever compared."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from ckptstore.errors import OutOfReach, TargetError
from ckptstore.opened import Opened
from ckptstore.refusals import denied
from ckptstore.targets import Target
from manifests import paths

CLOCK = "clock/"
"""The folder of the objects that are put to learn what time it is on a target; each is removed at once."""

__all__ = ["CLOCK", "Ages", "target_time", "vote_ages"]


@dataclass
class Ages:
    """Ages in seconds of the votes of a run, by inner name: of the `youngest` and of the `oldest` copy."""

    youngest: dict[str, float] = field(default_factory=dict)
    oldest: dict[str, float] = field(default_factory=dict)

    def add(self, name: str, age: float) -> None:
        """Count one copy."""
        self.youngest[name] = min(age, self.youngest.get(name, age))
        self.oldest[name] = max(age, self.oldest.get(name, age))


def target_time(target: Target) -> datetime:
    """What time it is on a target: that of an object just put there. Raises `TargetError`."""
    path = f"{CLOCK}{os.urandom(8).hex()}"
    target.put(path, b"")
    try:
        return target.head(path).modified
    finally:
        target.delete([path])


def vote_ages(opened: Opened, run: str) -> Ages:
    """The ages of all votes of a run on the commit targets that count and answer.

    Raises `OutOfReach` where none does, `AccessDenied` where they refuse.
    """
    incarnations = {n: s.incarnation for n, s in opened.group.standings.items() if s.state == "valid"}
    replies = opened.on_targets(lambda target: _ages_on(target, run, incarnations[target.name]), incarnations)
    answered = [reply for reply in replies.values() if not isinstance(reply, TargetError)]
    if not answered:
        failed = [reply for reply in replies.values() if isinstance(reply, TargetError)]
        message = f"no commit target tells how old things are ({'; '.join(error.message for error in failed)})"
        raise denied(message, failed) or OutOfReach(message, hint="run: ckpt doctor")
    ages = Ages()
    for found in answered:
        for name, age in found.items():
            ages.add(name, age)
    return ages


def _ages_on(target: Target, run: str, incarnation: str) -> Mapping[str, float]:
    prefix = paths.commit_prefix(run, incarnation)
    now = target_time(target)
    return {e.path.removeprefix(prefix): (now - e.modified).total_seconds() for e in target.list(prefix)}
