"""Reading what a run holds: manifests and marks, from enough targets. Reading decides nothing: it changes no target."""

from collections.abc import Collection

from manifests import paths
from manifests.commit import Committed
from manifests.contested import contested_manifests
from manifests.history import History, assemble
from manifests.paths import SaveKey
from manifests.quorum import View
from manifests.registers import Steps
from manifests.votes import Votes, list_votes, read_copies, read_notes, votes_that_count


def read_history(
    view: View, run: str, *, glimpse: bool = False, own: Committed | None = None, every_copy: bool = False
) -> Steps[History | None]:
    """Read a run's history: one list a target, one get a manifest or mark.

    `every_copy`: read each copy of each vote, so that `problems` tells of every one that is damaged or missing.
    A `glimpse` makes do with the targets in reach, however few. Whatever it shows is loadable, but a newer save, a
    delete mark or another save of the same step may be on targets that were not heard. `own` is a save of which the
    reader knows where it was: it is looked for there even where it is not listed. None: targets changed; read a new
    view.
    """
    votes = yield from list_votes(view, run)
    yield from read_notes(view, run, votes)
    unlisted = _add_unlisted(votes, own)
    names = votes_that_count(votes, paths.MANIFESTS, paths.MARKS)
    notes = votes_that_count(votes, *paths.NOTES) if every_copy else []
    every = {*names, *notes} if every_copy else contested_manifests(votes)
    yield from read_copies(view, run, votes, [*names, *notes], every)
    gone = {name for name in names if name not in votes.copies}
    for name in gone & unlisted:
        del votes.holders[name]
    explained = yield from _find_collected(view, run, votes, {paths.save_of(name) for name in gone - unlisted})
    kept = yield from view.check(votes.heard)
    if not explained or kept != votes.heard or not (glimpse or view.can_read(kept)):
        return None
    return assemble(view, run, votes, every_copy=every_copy)


def _add_unlisted(votes: Votes, own: Committed | None) -> set[str]:
    """Let the register of `own` be read from where it was, though it isn't listed there; return its name if so."""
    holding = tuple(target for target in own.held if target in votes.heard) if own is not None else ()
    if own is None or not holding:
        return set()
    name = paths.manifest_name(own.manifest.session, own.manifest.ordinal, version=1)
    if name in votes.holders:
        return set()
    votes.holders[name] = holding
    return {name}


def _find_collected(view: View, run: str, votes: Votes, saves: Collection[SaveKey]) -> Steps[bool]:
    """Look for the notes of saves of which a vote was gone between listing and reading it.

    Otherwise a save would be taken for live whose delete mark a collector has just removed. Adds the notes to `votes`;
    False where one is not there.
    """
    if not votes.heard:
        return True  # too few were heard, which the caller sees
    names = [paths.collected_name(*save) for save in sorted(saves)]
    for name in names:
        votes.holders[name] = tuple(sorted(votes.heard))
    yield from read_copies(view, run, votes, names, set(names))
    for name in names:
        votes.holders[name] = tuple(votes.copies.get(name, ()))
    votes.collected |= {paths.save_of(name) for name in names if name in votes.data}
    return votes.collected >= set(saves)
