"""What a run holds: manifests and marks, read from enough targets, made into checkpoints.

Reading decides nothing: it changes no target. A save is *live* if its manifest was seen, on any target, and
no delete mark stands; its data was durable before its manifest was first put. `latest` is the newest
session's that holds a live save, its highest ordinal: never the highest step, name or time.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from manifests import paths
from manifests.commit import Committed
from manifests.contested import contested_names
from manifests.errors import ManifestError
from manifests.paths import SaveKey
from manifests.problems import Problem, missing_in, problems_in
from manifests.quorum import View
from manifests.registers import Batch, Request, Steps
from manifests.schema import Manifest, Mark
from manifests.votes import (
    Votes,
    collected_in,
    list_votes,
    read_copies,
    vote_path,
    votes_in,
    votes_that_count,
)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """One save as it stands.

    `manifest`: the one that counts, the highest (version, random). `versions`: all of them in that order,
    every one of which keeps the objects it names. `seen_on`: the targets that hold version 1. `complete`:
    those are enough for t losses to leave one; a save that isn't may be in doubt, still being committed, or
    partly lost, and is loadable. `deletes`: ids of the delete marks that stand; `collecting`: ids of those that
    a collector carries out, be they undone since. `tags`: those that name this save.
    """

    session: str
    ordinal: int
    manifest: Manifest
    versions: tuple[Manifest, ...]
    seen_on: tuple[str, ...]
    complete: bool
    tags: tuple[str, ...] = ()
    deletes: tuple[str, ...] = ()
    collecting: tuple[str, ...] = ()

    @property
    def key(self) -> SaveKey:
        """(session, ordinal)."""
        return self.session, self.ordinal

    @property
    def deleted(self) -> bool:
        """Whether a delete mark stands."""
        return bool(self.deletes)

    @property
    def bytes(self) -> int:
        """The size of the saved state in bytes, as its manifest says."""
        return self.manifest.bytes


@dataclass(frozen=True, slots=True)
class History:
    """The saves of one run in the order they were begun in, session after session.

    `checkpoints`: the live ones. `deleted`: those with a delete mark that stands. `latest`: the last of
    `checkpoints`. `begun`: saves begun of which no manifest was seen: in progress, or given up. `voided`:
    saves of which only voids were seen. `collected`: saves that are gone for good, voided ones too. `sessions`:
    openings for saving, oldest first. `problems`: what
    couldn't be read; where one of them is `newer`, nothing may be written, pruned or collected in this run.
    `latest_in_doubt`: a problem that leaves open whether `latest` is the latest (see `_doubt`); None where it is.
    """

    run: str
    checkpoints: tuple[Checkpoint, ...]
    deleted: tuple[Checkpoint, ...]
    begun: tuple[SaveKey, ...]
    voided: tuple[SaveKey, ...]
    collected: tuple[SaveKey, ...]
    sessions: tuple[str, ...]
    problems: tuple[Problem, ...]
    latest_in_doubt: Problem | None
    heard: tuple[str, ...]
    tag_marks: Mapping[str, tuple[SaveKey, str]] = field(default_factory=dict)

    @property
    def latest(self) -> Checkpoint | None:
        """The newest session's live save of the highest ordinal; None where no save is live."""
        return self.checkpoints[-1] if self.checkpoints else None

    @property
    def tags(self) -> dict[str, Checkpoint]:
        """The live checkpoints that have tags, by tag; where two claim one, the later begun."""
        return {tag: checkpoint for checkpoint in self.checkpoints for tag in checkpoint.tags}

    def find(self, session: str, ordinal: int) -> Checkpoint | None:
        """Return the save, live or deleted; None where none was seen."""
        everything = (*self.checkpoints, *self.deleted)
        return next((c for c in everything if c.key == (session, ordinal)), None)


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
    unlisted = _add_unlisted(votes, own)
    names = votes_that_count(votes, paths.MANIFESTS, paths.MARKS)
    notes = votes_that_count(votes, *paths.NOTES) if every_copy else []
    every = {*names, *notes} if every_copy else contested_names(votes)
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
    asked = [(paths.collected_name(*save), target) for save in sorted(saves) for target in sorted(votes.heard)]
    if not asked:
        return True
    replies = yield Batch([[Request(target, "get", vote_path(view, target, run, name))] for name, target in asked])
    for (name, target), (reply,) in zip(asked, replies, strict=True):
        if isinstance(reply, bytes):
            votes.holders[name] = (*votes.holders.get(name, ()), target)
    return all(paths.collected_name(*save) in votes.holders for save in saves)


def assemble(view: View, run: str, votes: Votes, *, every_copy: bool = False) -> History:
    """Make a history out of the votes that were read. Pure."""
    saves, voided = _saves(votes)
    problems = [*problems_in(votes), *(missing_in(votes, saves) if every_copy else ())]
    marks = _marks(votes)
    undone = {mark.undoes for mark in marks.values() if mark.kind in {"undelete", "untag"}}
    standing = {random: mark for random, mark in marks.items() if random not in undone}
    checkpoints = [_checkpoint(view, votes, key, saves[key], standing) for key in sorted(saves, key=order)]
    begun = {paths.save_of(name) for name in votes_that_count(votes, paths.BEGUN)}
    unreadable = {problem.save for problem in problems if problem.fatal}
    return History(
        run,
        tuple(c for c in checkpoints if not c.deleted),
        tuple(c for c in checkpoints if c.deleted),
        tuple(sorted(begun - saves.keys() - voided - unreadable, key=order)),
        tuple(sorted(voided, key=order)),
        tuple(sorted(collected_in(votes), key=order)),
        tuple(sorted(map(paths.below_folder, votes_in(votes, paths.SESSIONS)), key=paths.split_session)),
        tuple(problems),
        _doubt(checkpoints, problems, {mark.of for mark in standing.values() if mark.kind == "delete"}),
        tuple(sorted(votes.heard)),
        {random: (mark.of, mark.tag) for random, mark in standing.items() if mark.kind == "tag" and mark.tag},
    )


def order(key: SaveKey) -> tuple[tuple[int, str], int]:
    """Sort key of a save: by number and random part of its session, then by ordinal."""
    return paths.split_session(key[0]), key[1]


def _doubt(checkpoints: Sequence[Checkpoint], problems: Iterable[Problem], deleted: set[SaveKey]) -> Problem | None:
    """Return the newest problem that leaves open which save is the latest.

    That is a manifest of a later save that isn't deleted, or a mark: of the latest, which it may delete, or of a later
    one, whose deletion it may undo.
    """
    live = [order(checkpoint.key) for checkpoint in checkpoints if not checkpoint.deleted]
    doubts: dict[SaveKey, Problem] = {}
    for problem in problems:
        if not problem.fatal or problem.save is None:
            continue
        is_mark = paths.folder_of(problem.name) == paths.MARKS
        later = not live or order(problem.save) > live[-1]
        if (later and (is_mark or problem.save not in deleted)) or (is_mark and order(problem.save) == live[-1]):
            doubts.setdefault(problem.save, problem)
    return doubts[max(doubts, key=order)] if doubts else None


def _saves(votes: Votes) -> tuple[dict[SaveKey, dict[str, Manifest]], set[SaveKey]]:
    """Return the manifests of each save by inner name, and the saves of which only voids were seen."""
    saves: dict[SaveKey, dict[str, Manifest]] = {}
    voids: set[SaveKey] = set()
    for name in votes_that_count(votes, paths.MANIFESTS):
        manifests = [copy for copy in votes.copies.get(name, {}).values() if isinstance(copy, Manifest)]
        for manifest in manifests:
            if manifest.kind == "void":
                voids.add(paths.save_of(name))
            else:
                saves.setdefault(paths.save_of(name), {})[name] = manifest
    return saves, {key for key in voids if key not in saves and not _damaged_register(votes, key)}


def _damaged_register(votes: Votes, key: SaveKey) -> bool:
    """Whether a copy of version 1 can't be read: it might be a save, even where the others are voids."""
    copies = votes.copies[paths.manifest_name(*key, version=1)]
    return any(isinstance(copy, ManifestError) for copy in copies.values())


def _marks(votes: Votes) -> dict[str, Mark]:
    """Return the marks by their random part."""
    found: dict[str, Mark] = {}
    for name in votes_that_count(votes, paths.MARKS):
        for copy in votes.copies.get(name, {}).values():
            if isinstance(copy, Mark):
                found[paths.split_mark(paths.below_folder(name))[2]] = copy
    return found


def _checkpoint(
    view: View, votes: Votes, key: SaveKey, named: Mapping[str, Manifest], marks: Mapping[str, Mark]
) -> Checkpoint:
    register = paths.manifest_name(*key, version=1)
    ranked = sorted(named.items(), key=lambda item: paths.split_manifest(paths.below_folder(item[0]))[2:])
    seen_on = tuple(t for t in votes.holders.get(register, ()) if t in votes.heard and _is_save(votes, register, t))
    own = {random: mark for random, mark in marks.items() if mark.of == key}
    return Checkpoint(
        *key,
        ranked[-1][1],
        tuple(manifest for _, manifest in ranked),
        seen_on,
        view.is_complete(seen_on),
        tuple(sorted({mark.tag for mark in own.values() if mark.kind == "tag" and mark.tag})),
        tuple(sorted(random for random, mark in own.items() if mark.kind == "delete")),
        tuple(sorted({mark.undoes for mark in own.values() if mark.kind == "collect" and mark.undoes})),
    )


def _is_save(votes: Votes, register: str, target: str) -> bool:
    """Tell whether `target` holds the save: a copy that wasn't read does, for where a void may be, all are read."""
    copy = votes.copies.get(register, {}).get(target)
    return copy is None or (isinstance(copy, Manifest) and copy.kind != "void")
