"""How many commit targets a store needs, and what that means for loading and for saving."""

from dataclasses import dataclass

from ckptstore.config import Config
from ckptstore.placement import full_tolerance

__all__ = ["Quorums", "losses_saving_survives", "quorums_of", "tolerated"]


@dataclass(frozen=True)
class Quorums:
    """`members` N, `losses` t, `votes` Q = t + 1 that a commit takes, `readings` R = N - t that a reading takes.

    Any R of them share one with any Q, as R + Q > N: what was committed is seen (docs/commit.md).
    `saving`: how many targets may be lost with saving still possible; loading survives `losses` of them.
    """

    members: int
    losses: int
    votes: int
    readings: int
    saving: int


def tolerated(config: Config) -> int:
    """The t that a store with these settings is made with, one commit target left: what its code survives, or more.

    More where more commit targets than that may go with saving and loading both possible, which t = (N - 1) // 2 gives:
    a target more never makes a store survive less.
    """
    members = sum(spec.commit for spec in config.targets)
    code = full_tolerance(config.k, config.m, config.places).targets
    return max(min(max(code, (members - 1) // 2), members - 1), 0)


def quorums_of(config: Config, members: int, losses: int) -> Quorums:
    """The quorums of `members` commit targets of which `losses` may be lost."""
    return Quorums(
        members, losses, losses + 1, members - losses, losses_saving_survives(config, members, members, losses)
    )


def losses_saving_survives(config: Config, members: int, valid: int, losses: int, unwritable: int = 0) -> int:
    """How many of `valid` commit targets (of `members`) may be lost with a save still possible; -1: none is now.

    `unwritable` of those that are valid are read from, and take no puts.

    A save takes Q and R of the commit targets, and on the targets left a code that survives `require_tolerance`.
    """
    needed = max(losses + 1, members - losses)
    gone = members - valid + unwritable
    possible = -1
    for lost in range(min(valid - needed, valid - unwritable - (losses + 1)) + 1):
        left = config.places[: len(config.places) - gone - lost]
        if not left or full_tolerance(config.k, config.m, left).targets < config.require_tolerance:
            break
        possible = lost
    return possible
