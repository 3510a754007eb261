"""How old things are, each by the clock of the target that holds it: no two clocks are ever compared."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from ckptstore.errors import ObjectNotFound, OutOfReach, TargetError
from ckptstore.opened import Opened
from ckptstore.refusals import denied
from ckptstore.targets import Target
from manifests import paths

CLOCK = "clock/"
"""The folder of the object that is put to learn what time it is on a target, and removed at once."""

_NOW = f"{CLOCK}now"  # one name, so that where nothing can be deleted one empty object is left and no more
_LOOKS = 5  # at a clock that others, who look at the same time, remove

__all__ = ["CLOCK", "Ages", "Clock", "target_time", "vote_ages"]


@dataclass
class Ages:
    """Ages in seconds of the votes of a run, by inner name and copy; up to `wrong` targets may say anything."""

    wrong: int = 0
    copies: dict[str, list[float]] = field(default_factory=dict)

    def add(self, name: str, age: float) -> None:
        """Count one copy."""
        self.copies.setdefault(name, []).append(age)

    def youngest(self, name: str) -> float:
        """By the copy that says least; 0 where there is none: for what goes when it is old. A wrong one delays that."""
        return min(self.copies.get(name, ()), default=0.0)

    def since_put(self, name: str) -> float:
        """No more than some target says that isn't wrong, and no less than all of those do: the next after `wrong`.

        The first copies tell when something was put, for repairs put young ones; 0 where there is none.
        """
        ages = sorted(self.copies.get(name, ()), reverse=True)
        return ages[min(self.wrong, len(ages) - 1)] if ages else 0.0


class Clock(NamedTuple):
    """What time it is on a target, and why the object that told it could not be removed."""

    now: datetime
    left: Mapping[str, TargetError]


def target_time(target: Target) -> Clock:
    """What time it is on a target: that of an object just put there. Raises `TargetError`."""
    for look in range(_LOOKS):
        target.put(_NOW, b"")
        try:
            now = target.head(_NOW).modified
            break
        except ObjectNotFound:
            if look == _LOOKS - 1:
                raise
    try:
        return Clock(now, target.delete([_NOW]))
    except TargetError as error:
        return Clock(now, {_NOW: error})


def vote_ages(opened: Opened, run: str) -> Ages:
    """The ages of all votes of a run on the commit targets that count and answer.

    Of the targets that may be lost or wrong at once, those that don't answer are some. Raises `OutOfReach` where none
    does, `AccessDenied` where they refuse.
    """
    incarnations = {n: s.incarnation for n, s in opened.group.standings.items() if s.state == "valid"}
    replies = opened.on_targets(lambda target: _ages_on(target, run, incarnations[target.name]), incarnations)
    answered = [reply for reply in replies.values() if not isinstance(reply, TargetError)]
    if not answered:
        failed = [reply for reply in replies.values() if isinstance(reply, TargetError)]
        message = f"no commit target tells how old things are ({'; '.join(error.message for error in failed)})"
        raise denied(message, failed) or OutOfReach(message, hint="run: ckpt doctor")
    members = opened.group.members
    heard = {name for name, reply in replies.items() if not isinstance(reply, TargetError)}
    ages = Ages(wrong=max(members.t - len(set(members.targets) - heard), 0))
    for found in answered:
        for name, age in found.items():
            ages.add(name, age)
    return ages


def _ages_on(target: Target, run: str, incarnation: str) -> Mapping[str, float]:
    prefix = paths.commit_prefix(run, incarnation)
    now = target_time(target).now
    return {e.path.removeprefix(prefix): (now - e.modified).total_seconds() for e in target.list(prefix)}
