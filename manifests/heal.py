"""Putting votes where they are missing: completing what was seen on too few targets, and healing damaged copies.

Every vote here was found on some target that counts, so putting it on another adds nothing that wasn't said.
Voids are never spread: only a collector that means to close a register on all members does that.
"""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace

from manifests import paths
from manifests.contested import contested_manifests
from manifests.errors import ManifestError, NotUnderstood, Unavailable
from manifests.format_errors import UnsafeName
from manifests.problems import Problem, problems_in, refuse_newer
from manifests.quorum import View
from manifests.registers import Batch, Request, Steps
from manifests.schema import Manifest
from manifests.stored import Document
from manifests.votes import Votes, list_votes, read_copies, read_notes, vote_path, votes_in, votes_that_count


@dataclass(frozen=True, slots=True)
class Vote:
    """One vote of a run: its inner name and its bytes."""

    run: str
    name: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Healed:
    """What healing did.

    `put`: (target, inner name) of the copies it put. `incomplete`: inner names that are still on too few
    targets: no good copy was found, or a void is in the way. `problems`: what could not be read. `refusals`:
    what targets said that take no puts. `removed`: (target, inner name) of votes that nobody put there.
    """

    put: tuple[tuple[str, str], ...]
    incomplete: tuple[str, ...]
    problems: tuple[Problem, ...]
    refusals: tuple[str, ...] = ()
    removed: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Everything:
    """A good copy of every vote of a run, what has none, and the targets that were heard."""

    heard: frozenset[str]
    votes: tuple[Vote, ...]
    problems: tuple[Problem, ...]


def list_runs(view: View, enough: Callable[[Collection[str]], bool]) -> Steps[list[str] | None]:
    """Return the runs of which the members hold anything.

    None: the targets that answered are not `enough`.
    """
    replies = yield Batch([[Request(target, "list", paths.RUNS)] for target in view.valid])
    heard = [target for target, (reply,) in zip(view.valid, replies, strict=True) if isinstance(reply, tuple)]
    if not enough(heard):
        return None
    listed = {path for (reply,) in replies if isinstance(reply, tuple) for path in reply}
    return sorted(filter(_is_run, {path.removeprefix(paths.RUNS).partition("/")[0] for path in listed}))


def _is_run(name: str) -> bool:
    """Tell a run from what people and their programs leave beside runs: `.DS_Store`, a marker of an empty folder."""
    try:
        paths.check_run(name)
    except UnsafeName:
        return False
    return True


def read_everything(view: View, run: str) -> Steps[Everything]:
    """Read a good copy of every vote of a run, a save where there is one.

    The caller checks that those heard are enough, and have not changed.
    """
    votes = yield from list_votes(view, run)
    yield from read_notes(view, run, votes)
    names = votes_in(votes, *paths.FOLDERS)
    yield from read_copies(view, run, votes, names, contested_manifests(votes))
    good = [(name, good_copy(votes, name)) for name in names]
    found = tuple(Vote(run, name, data) for name, data in good if data is not None)
    return Everything(votes.heard, found, tuple(problems_in(votes)))


def good_copy(votes: Votes, name: str) -> bytes | None:
    """Return the copy that counts of those read: a save before a void, then what most targets hold, then any."""
    copies = votes.data.get(name, {})

    def rank(data: bytes) -> tuple[bool, int, bytes]:
        holders = [target for target, found in copies.items() if found == data]
        return not _is_void(votes, name, holders[0]), len(holders), data

    return max(copies.values(), key=rank, default=None)


def _is_void(votes: Votes, name: str, target: str) -> bool:
    copy = votes.copies[name][target]
    return isinstance(copy, Manifest) and copy.kind == "void"


def heal(view: View, run: str) -> Steps[Healed | None]:
    """Read every copy of every vote; put what is missing, and overwrite what is damaged, on every target that counts.

    None: targets changed meanwhile; what was put is right all the same. Raises NotUnderstood before anything
    is put where a newer release wrote some of it.
    """
    votes = yield from list_votes(view, run)
    yield from read_notes(view, run, votes)
    names = votes_that_count(votes, *paths.FOLDERS)
    yield from read_copies(view, run, votes, names, set(names))
    healed = yield from _put_right(view, run, votes, names)
    return healed and (yield from _remove_strays(view, run, votes, healed))


def _remove_strays(view: View, run: str, votes: Votes, healed: Healed) -> Steps[Healed]:
    """Remove votes that nobody put where they are: on few targets, and not one copy of them can be read.

    What was put for certain is on more targets than may be damaged. So where all were heard such a file was moved or
    copied there, or its putting was never reported as done, and what it blocks (see `problems_in`) is free again.
    Registers are left as they are: an emptied one would take another save or a void.
    """
    if not view.is_everyone(votes.heard):
        return healed
    read = [name for name in votes_in(votes, *paths.FOLDERS) if name in votes.copies and not _is_register(name)]
    strays = {n for n in read if n not in votes.data and not view.is_complete(votes.holders[n])}
    where = sorted((target, name) for name in strays for target in votes.holders[name])
    replies = (yield Batch([[Request(t, "delete", vote_path(view, t, run, n))] for t, n in where])) if where else ()
    removed = [each for each, (reply,) in zip(where, replies, strict=True) if reply is None]
    gone = strays.intersection(name for _, name in removed)
    problems = tuple(problem for problem in healed.problems if problem.name not in gone)
    incomplete = tuple(name for name in healed.incomplete if name not in gone)
    return replace(healed, problems=problems, incomplete=incomplete, removed=tuple(removed))


def _is_register(name: str) -> bool:
    return paths.folder_of(name) == paths.MANIFESTS and paths.split_manifest(paths.below_folder(name))[2] == 1


def unhealed(view: View, run: str) -> Steps[tuple[tuple[str, str], ...] | None]:
    """Return (target, inner name) of the copies that `heal` would put. None, and raises, as it does."""
    votes = yield from list_votes(view, run)
    names = votes_that_count(votes, *paths.FOLDERS)
    yield from read_copies(view, run, votes, names, set(names))
    if not view.can_read((yield from view.check(votes.heard))):
        return None
    refuse_newer(votes)
    return tuple((request.target, name) for name in names for request in _puts(view, run, votes, name))


def settle(view: View, run: str) -> Steps[Healed | None]:
    """Complete what was seen on too few targets: manifests, marks, notes of what was collected.

    None: targets changed meanwhile. A run in which nothing is in doubt costs one list a target.
    """
    votes = yield from list_votes(view, run)
    yield from read_notes(view, run, votes)
    folders = paths.MARKS, paths.MANIFESTS, paths.COLLECTED
    names = [n for n in votes_that_count(votes, *folders) if not view.is_complete(votes.holders[n])]
    names += sorted(contested_manifests(votes).difference(names))
    yield from read_copies(view, run, votes, names, set(names))
    return (yield from _put_right(view, run, votes, names))


def _put_right(view: View, run: str, votes: Votes, names: Collection[str]) -> Steps[Healed | None]:
    """Put good copies of `names` where they are missing or damaged: all else first, then manifests.

    So a target never shows a manifest without the mark that deletes it, or a void without the note that says
    it is one. Whether a vote is complete is decided by who holds it and still counts after the last put.
    """
    if not view.can_read((yield from view.check(votes.heard))):
        return None
    refuse_newer(votes)
    manifests = [name for name in names if paths.folder_of(name) == paths.MANIFESTS]
    others = [name for name in names if paths.folder_of(name) != paths.MANIFESTS]
    done: list[tuple[str, str]] = []
    refusals: dict[str, str] = {}
    for chosen in (others, manifests):
        if not (yield from _put_all(view, run, votes, chosen, done, refusals)):
            return None
    if (yield from view.check(votes.heard)) != votes.heard:
        return None
    holders = {name: _good_holders(votes, name) for name in names}
    for target, name in done:
        holders[name].add(target)
    incomplete = [name for name in names if not view.is_complete(holders[name]) and not _only_voids(votes, name)]
    return Healed(tuple(done), tuple(incomplete), tuple(problems_in(votes)), tuple(refusals.values()))


def _put_all(
    view: View, run: str, votes: Votes, names: Collection[str], done: list[tuple[str, str]], refusals: dict[str, str]
) -> Steps[bool]:
    """Put good copies of `names`, all at once; add to `done`, and to `refusals` by target.

    False: a target went out of reach, or somebody else put a vote there meanwhile.
    """
    puts = [(name, request) for name in names for request in _puts(view, run, votes, name)]
    replies = (yield Batch([[request] for _, request in puts])) if puts else ()
    for (name, request), (reply,) in zip(puts, replies, strict=True):
        if isinstance(reply, Unavailable) and reply.is_final:
            refusals[request.target] = reply.message
        elif reply is False or isinstance(reply, Unavailable):
            return False
        else:
            done.append((request.target, name))
    return True


def _good_holders(votes: Votes, name: str) -> set[str]:
    data = good_copy(votes, name)
    return {target for target, found in votes.data.get(name, {}).items() if found == data}


def _only_voids(votes: Votes, name: str) -> bool:
    data = votes.data.get(name, {})
    return bool(data) and all(_is_void(votes, name, target) for target in data)


def _is_damaged(copy: Document | ManifestError) -> bool:
    return isinstance(copy, ManifestError) and not isinstance(copy, NotUnderstood)


def _puts(view: View, run: str, votes: Votes, name: str) -> Iterator[Request]:
    """Yield the puts that spread the good copy of one vote."""
    data = good_copy(votes, name)
    if data is None:
        return
    copies = votes.copies[name]
    damaged = [target for target, copy in copies.items() if _is_damaged(copy)]
    missing = [target for target in votes.heard if target not in votes.holders[name]]
    if _only_voids(votes, name):
        # A damaged copy may have been the save: only if enough others know of none was it a void for certain.
        missing = []
        damaged = damaged if view.can_read(votes.heard.difference(damaged)) else []
    for target in sorted(damaged):
        yield Request(target, "put", vote_path(view, target, run, name), data)
    for target in sorted(missing):
        yield Request(target, "put_if_absent", vote_path(view, target, run, name), data)
