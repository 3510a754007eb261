"""Putting votes where they are missing: completing what was seen on too few targets, and healing damaged copies.

Every vote here was found on some target that counts, so putting it on another adds nothing that wasn't said.
Voids are never spread: only a collector that means to close a register on all members does that.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from manifests import paths
from manifests.errors import ManifestError
from manifests.history import Problem, contested_manifests, problems_in, refuse_newer
from manifests.quorum import View
from manifests.registers import Batch, Request, Steps
from manifests.schema import Manifest
from manifests.votes import Votes, list_votes, read_copies, vote_path, votes_in

_FOLDERS = ("sessions", "begun", "voiding", "marks", "manifests")


@dataclass(frozen=True, slots=True)
class Vote:
    """One vote of a run: its inner name and its bytes."""

    run: str
    name: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Healed:
    """What healing did: (target, inner name) of the copies it put, and what had no good copy."""

    put: tuple[tuple[str, str], ...]
    problems: tuple[Problem, ...]


def list_runs(view: View) -> Steps[list[str] | None]:
    """Return the runs of which the members hold anything. None: too few answered."""
    replies = yield Batch([[Request(target, "list", paths.RUNS)] for target in view.valid])
    heard = [target for target, (reply,) in zip(view.valid, replies, strict=True) if isinstance(reply, tuple)]
    if not view.can_read(heard):
        return None
    listed = {path for (reply,) in replies if isinstance(reply, tuple) for path in reply}
    return sorted({path.removeprefix(paths.RUNS).partition("/")[0] for path in listed})


def read_everything(view: View, run: str) -> Steps[tuple[list[Vote], list[Problem]] | None]:
    """Read a good copy of every vote of a run, a save where there is one. None: too few answered.

    The caller then checks that the targets of `view` have not changed.
    """
    votes = yield from list_votes(view, run)
    names = votes_in(votes, *_FOLDERS)
    yield from read_copies(view, run, votes, names, contested_manifests(votes))
    if not view.can_read(votes.heard):
        return None
    good = [(name, good_copy(votes, name)) for name in names]
    return [Vote(run, name, data) for name, data in good if data is not None], list(problems_in(votes))


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
    names = votes_in(votes, *_FOLDERS)
    yield from read_copies(view, run, votes, names, set(names))
    return (yield from _put_right(view, run, votes, names))


def settle(view: View, run: str) -> Steps[Healed | None]:
    """Complete the manifests and marks that were seen on too few targets. None: targets changed meanwhile.

    A run in which nothing is in doubt costs one list a target.
    """
    votes = yield from list_votes(view, run)
    names = [n for n in votes_in(votes, "marks", "manifests") if not view.is_complete(votes.holders[n])]
    names += sorted(contested_manifests(votes).difference(names))
    yield from read_copies(view, run, votes, names, set(names))
    return (yield from _put_right(view, run, votes, names))


def _put_right(view: View, run: str, votes: Votes, names: Collection[str]) -> Steps[Healed | None]:
    """Put good copies of `names` where they are missing or damaged: all else first, then manifests.

    So a target never shows a manifest without the mark that deletes it, or a void without the note that says
    it is one.
    """
    kept = yield from view.check(votes.heard)
    if kept != votes.heard or not view.can_read(kept):
        return None
    refuse_newer(votes)
    done: list[tuple[str, str]] = []
    for last in (False, True):
        chosen = [name for name in names if name.startswith("manifests/") == last]
        requests = [request for name in chosen for request in _puts(view, run, votes, name)]
        replies = (yield Batch([[request] for request in requests])) if requests else ()
        for request, (reply,) in zip(requests, replies, strict=True):
            if reply is True or (reply is None and request.verb == "put"):
                name = request.path.removeprefix(paths.commit_prefix(run, view.incarnation(request.target)))
                done.append((request.target, name))
    return Healed(tuple(done), tuple(problems_in(votes)))


def _puts(view: View, run: str, votes: Votes, name: str) -> Iterator[Request]:
    """Yield the puts that spread the good copy of one vote."""
    data = good_copy(votes, name)
    if data is None:
        return
    copies = votes.copies[name]
    void = _is_void(votes, name, next(target for target, found in votes.data[name].items() if found == data))
    damaged = [target for target, copy in copies.items() if isinstance(copy, ManifestError)]
    missing = [target for target in votes.heard if target not in votes.holders[name]]
    if void:
        # A damaged copy may have been the save: it is a void for certain only if enough others know of no save.
        missing = []
        damaged = damaged if view.can_read(votes.heard.difference(damaged)) else []
    for target in sorted(damaged):
        yield Request(target, "put", vote_path(view, target, run, name), data)
    for target in sorted(missing):
        yield Request(target, "put_if_absent", vote_path(view, target, run, name), data)
