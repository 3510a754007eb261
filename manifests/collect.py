"""Ending saves for good: those deleted long ago, and those given up before they were committed.

What ends a save is a note whose *name* says it (`paths.collected_name`). It is put only when nothing can make the
save count again, and never removed: a target that was away may bring back any manifest or mark, and they count for
nothing. So the objects of the save, and all other votes on it, may be removed at any time and in any order, by
anybody, again and again.
"""

from collections.abc import Collection
from typing import Literal

from manifests import marks, paths
from manifests.casting import complete_vote
from manifests.commit import put_mark, void
from manifests.errors import InDoubt
from manifests.paths import SaveKey
from manifests.problems import refuse_newer
from manifests.quorum import Scope, View
from manifests.registers import Batch, Request, Steps
from manifests.schema import Begun, Manifest, Mark
from manifests.votes import Votes, list_votes, read_copies, seal_vote, vote_path, votes_in

_SPENT = (paths.MANIFESTS, paths.MARKS, paths.BEGUN, paths.VOIDING)
"""The folders that `clear` empties, in this order: a target never shows a manifest without the mark that deletes it."""


def collect(
    scope: Scope, run: str, of: SaveKey, deletes: Collection[str], created: str
) -> Steps[Literal["collected", "kept"]]:
    """End a deleted save, by one of its delete marks in `deletes`: those for which the grace period is over.

    "kept": none of them stands any more, the save has a tag, or what is said of it can't be read for certain. First
    says that the mark is being carried out, and only then looks if it still stands: an `undelete` looks for that after
    it has put its own mark, so one of the two sees the other. "collected" too where another collector ended it before.
    Raises NoSuchCheckpoint, NotUnderstood, NoQuorum, InDoubt: collect again.
    """
    before = yield from marks.read_to_change(scope, run)
    if of in before.collected:
        yield from _put_note(scope, run, of)
        return "collected"
    tags = () if of in before.unreadable else marks.found_in(before, of).tags
    chosen = next((random for random in before.deletes(of) if random in deletes), None)
    if chosen is None or tags:
        return "kept"
    yield from put_mark(scope, run, Mark(kind="collect", of=of, undoes=chosen, created=created))
    history = yield from marks.read_to_change(scope, run)
    after = history.find(*of)
    if any(problem.fatal and problem.save == of for problem in history.problems):
        return "kept"
    if after is not None and after.tags:
        return "kept"
    if of not in history.collected and chosen not in history.deletes(of):
        return "kept"
    yield from _put_note(scope, run, of)  # also where another collector's was seen: it may be on too few targets
    return "collected"


def bury(scope: Scope, run: str, of: SaveKey, created: str) -> Steps[Literal["voided", "saved"]]:
    """End a save that was given up before it was committed.

    "saved": it was committed after all, or may be, and its data must be kept. Raises as `commit.void`.
    """
    done = yield from void(scope, run, *of, created)
    if done == "voided":
        yield from _put_note(scope, run, of)
    return done


def _put_note(scope: Scope, run: str, of: SaveKey) -> Steps[None]:
    """Put the note on enough targets; the same bytes whoever puts it."""
    message = f"{run}: too few targets answered to end save {of[1]} of session {of[0]}; prune again"
    doubt = InDoubt(message, run=run, session=of[0], ordinal=of[1])
    name = paths.collected_name(*of)
    data = seal_vote(run, name, Begun(session=of[0], ordinal=of[1]))
    yield from complete_vote(scope, run, name, data, doubt)


def clear(view: View, run: str) -> Steps[int | None]:
    """Remove what is left of the votes on ended saves, from every target in reach; return how many.

    The notes stay, and so do voids: each is the lock on the register of a save that may still have a saver. None:
    targets changed; read a new view.
    """
    votes = yield from list_votes(view, run)
    ended = {paths.save_of(n) for n in votes_in(votes, paths.COLLECTED) if view.is_complete(votes.holders[n])}
    locked = yield from _locked(view, run, votes, ended)
    kept = yield from view.check(votes.heard)
    if kept != votes.heard or not view.can_read(kept):
        return None
    refuse_newer(votes)
    left = [name for folder in _SPENT for name in votes_in(votes, folder) if paths.save_of(name) in ended - locked]
    lanes: dict[str, list[Request]] = {}
    for name in left:
        for target in votes.holders[name]:
            lanes.setdefault(target, []).append(Request(target, "delete", vote_path(view, target, run, name)))
    replies = (yield Batch([*lanes.values()])) if lanes else ()
    return sum(reply is None for lane in replies for reply in lane)


def _locked(view: View, run: str, votes: Votes, ended: Collection[SaveKey]) -> Steps[set[SaveKey]]:
    """Return those of the ended saves whose register may be closed by a void: no copy of it shows a save."""
    contested = {paths.save_of(name) for name in votes_in(votes, paths.VOIDING)}.intersection(ended)
    registers = {paths.manifest_name(*save, version=1): save for save in contested}
    names = [name for name in registers if name in votes.holders]
    yield from read_copies(view, run, votes, names, set(names))
    return {registers[name] for name in names if not _shows_a_save(votes, name)}


def _shows_a_save(votes: Votes, name: str) -> bool:
    copies = votes.copies.get(name, {}).values()
    return any(isinstance(copy, Manifest) and copy.kind == "save" for copy in copies)
