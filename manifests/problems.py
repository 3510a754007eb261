"""What could not be read of a run as it should."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Literal

from manifests import paths
from manifests.errors import ManifestError, NotUnderstood
from manifests.format_errors import UnsafeName
from manifests.paths import SaveKey
from manifests.schema import Manifest
from manifests.stored import Document
from manifests.votes import Votes, votes_that_count

DECISIVE = (paths.MANIFESTS, paths.MARKS, paths.COLLECTED)
"""The folders of what has to be read, or was; of the other votes the names say all that anybody decides by."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that couldn't be read as it should.

    `name`: the inner name of the vote; `save`: the save that it is about, None where the name tells none. `kind`:
    `targets` hold a copy that can't be read ("damaged"), none though others do ("missing": told only where every copy
    was read), or something under a name that no vote has ("strange"). `fatal`: no copy could be read that settles what
    was voted; a void doesn't, beside a copy that may be the save. `newer`: a newer release wrote it, so the remedy is
    to upgrade ckptstore; otherwise the copies are damaged.
    """

    name: str
    message: str
    targets: tuple[str, ...]
    fatal: bool
    newer: bool
    save: SaveKey | None
    kind: Literal["damaged", "missing", "strange"] = "damaged"


def problems_in(votes: Votes) -> Iterator[Problem]:
    """Yield what couldn't be read as it should."""
    for name in votes.strange:
        message = f"{name} is not a name that this release knows"
        save = _save_in(name)
        yield Problem(name, message, votes.holders[name], fatal=False, newer=False, save=save, kind="strange")
    for name, copies in sorted(votes.copies.items()):
        errors = {target: copy for target, copy in copies.items() if isinstance(copy, ManifestError)}
        if errors:
            text = "; ".join(f"{target}: {error}" for target, error in errors.items())
            newer = any(isinstance(error, NotUnderstood) for error in errors.values())
            settled = paths.folder_of(name) not in DECISIVE or any(_settles(copy) for copy in copies.values())
            fatal = newer or not settled
            yield Problem(name, f"{name}: {text}", tuple(errors), fatal, newer, _save_in(name))


def missing_in(votes: Votes, saves: Collection[SaveKey]) -> Iterator[Problem]:
    """Yield the votes about `saves` that some of those heard lack. What is just being put is about none of them."""
    sessions = {session for session, _ in saves}
    folders = paths.SESSIONS, paths.BEGUN, paths.MANIFESTS, paths.MARKS, paths.COLLECTED
    for name in votes_that_count(votes, *folders):
        save = _save_in(name)
        wanted = save in saves or save in votes.collected if save else paths.below_folder(name) in sessions
        without = sorted(votes.heard.difference(votes.holders[name]))
        nowhere_good = name in votes.copies and name not in votes.data  # told as damaged: there is nothing to put back
        if wanted and without and not nowhere_good:
            message = f"{name}: not on {', '.join(without)}, which count"
            yield Problem(name, message, tuple(without), fatal=False, newer=False, save=save, kind="missing")


def refuse_newer(votes: Votes) -> None:
    """Raise NotUnderstood where a newer release wrote some of `votes`: then nothing may be written in the run."""
    for copies in votes.copies.values():
        for copy in copies.values():
            if isinstance(copy, NotUnderstood):
                raise NotUnderstood(copy.message, **copy.fields)


def _settles(copy: Document | ManifestError) -> bool:
    return not isinstance(copy, ManifestError) and not (isinstance(copy, Manifest) and copy.kind == "void")


def _save_in(name: str) -> SaveKey | None:
    if paths.folder_of(name) == paths.SESSIONS:
        return None
    try:
        return paths.save_of(name)
    except UnsafeName:
        return None
