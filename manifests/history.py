"""What a run holds: its votes made into checkpoints. Pure.

A save is *live* if its manifest was seen, on any target, and no delete mark stands; its data was durable before its
manifest was first put. `latest` is the newest session's that holds a live save, its highest ordinal: never the highest
step, name or time.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from manifests import paths
from manifests.errors import ManifestError
from manifests.paths import SaveKey
from manifests.problems import Problem, missing_in, problems_in
from manifests.quorum import View
from manifests.schema import Manifest, Mark
from manifests.votes import Votes, votes_in, votes_that_count


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
    openings for saving, oldest first. `problems`: what couldn't be read; where one of them is `newer`, nothing may be
    written, pruned or collected in this run. `latest_in_doubt`: a problem that leaves open whether `latest` is the
    latest (see `_doubt`); None where it is. `heard`: the targets that were read. `tag_marks`: by its id, the save and
    the tag of each tag mark that stands. `unreadable`: saves of which not one copy of a manifest can be read, and the
    ids of the delete marks that stand on each.
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
    unreadable: Mapping[SaveKey, tuple[str, ...]] = field(default_factory=dict)

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

    def deletes(self, key: SaveKey) -> tuple[str, ...]:
        """Return the ids of the delete marks that stand on a save, readable or not."""
        found = self.find(*key)
        return found.deletes if found else self.unreadable.get(key, ())


def assemble(view: View, run: str, votes: Votes, *, every_copy: bool = False) -> History:
    """Make a history out of the votes that were read. Pure."""
    saves, voided = _saves(votes)
    standing = _standing(votes)
    found = list(problems_in(votes))
    unreadable = _unreadable(found, saves, standing)
    problems = [_unless_deleted(problem, unreadable) for problem in found]
    problems += missing_in(votes, saves) if every_copy else ()
    checkpoints = [_checkpoint(view, votes, key, saves[key], standing) for key in sorted(saves, key=order)]
    marked_deleted = {mark.of for mark in standing.values() if mark.kind == "delete"}
    begun = {paths.save_of(name) for name in votes_that_count(votes, paths.BEGUN)}
    unknown = {problem.save for problem in problems if problem.fatal} | unreadable.keys()
    return History(
        run,
        checkpoints=tuple(c for c in checkpoints if not c.deleted),
        deleted=tuple(c for c in checkpoints if c.deleted),
        begun=tuple(sorted(begun - saves.keys() - voided - unknown, key=order)),
        voided=tuple(sorted(voided, key=order)),
        collected=tuple(sorted(votes.collected, key=order)),
        sessions=tuple(sorted(map(paths.below_folder, votes_in(votes, paths.SESSIONS)), key=paths.split_session)),
        problems=tuple(problems),
        latest_in_doubt=_doubt(checkpoints, problems, marked_deleted),
        heard=tuple(sorted(votes.heard)),
        tag_marks={r: (mark.of, mark.tag) for r, mark in standing.items() if mark.kind == "tag" and mark.tag},
        unreadable=unreadable,
    )


def order(key: SaveKey) -> tuple[tuple[int, str], int]:
    """Sort key of a save: by number and random part of its session, then by ordinal."""
    return paths.split_session(key[0]), key[1]


def _doubt(checkpoints: Sequence[Checkpoint], problems: Iterable[Problem], deleted: set[SaveKey]) -> Problem | None:
    """Return the newest problem that leaves open which save is the latest.

    That is a manifest of a later save that isn't deleted, or a mark: of the latest, which it may delete, or of a later
    one, whose deletion it may undo.
    """
    live = [checkpoint.key for checkpoint in checkpoints if not checkpoint.deleted]
    latest = live[-1] if live else None
    doubts: dict[SaveKey, Problem] = {}
    for problem in problems:
        if not problem.fatal or problem.save is None:
            continue
        is_later = latest is None or order(problem.save) > order(latest)
        if paths.folder_of(problem.name) == paths.MARKS:
            matters = is_later or problem.save == latest
        else:
            matters = is_later and problem.save not in deleted
        if matters:
            doubts.setdefault(problem.save, problem)
    return doubts[max(doubts, key=order)] if doubts else None


def _saves(votes: Votes) -> tuple[dict[SaveKey, dict[str, Manifest]], set[SaveKey]]:
    """Return the manifests of each save by inner name, and the saves of which only voids were seen."""
    saves: dict[SaveKey, dict[str, Manifest]] = {}
    voids: set[SaveKey] = set()
    for name in votes_that_count(votes, paths.MANIFESTS):
        key = paths.save_of(name)
        for copy in votes.copies.get(name, {}).values():
            if isinstance(copy, Manifest) and copy.kind == "void":
                voids.add(key)
            elif isinstance(copy, Manifest):
                saves.setdefault(key, {})[name] = copy
    return saves, {key for key in voids if key not in saves and not _damaged_register(votes, key)}


def _unreadable(
    problems: Iterable[Problem], saves: Collection[SaveKey], standing: Mapping[str, Mark]
) -> dict[SaveKey, tuple[str, ...]]:
    """Return the delete marks on each save with a manifest that nobody can read, and none that somebody can.

    A newer release could: such a save is not among them.
    """
    damaged = {p.save for p in problems if p.fatal and not p.newer and p.save is not None and _is_manifest(p)}
    deletes = sorted((mark.of, random) for random, mark in standing.items() if mark.kind == "delete")
    return {key: tuple(random for of, random in deletes if of == key) for key in damaged.difference(saves)}


def _is_manifest(problem: Problem) -> bool:
    return paths.folder_of(problem.name) == paths.MANIFESTS


def _unless_deleted(problem: Problem, unreadable: Mapping[SaveKey, tuple[str, ...]]) -> Problem:
    """A manifest that nobody can read leaves nothing open once its save is deleted: the mark beats what it may say."""
    deleted = problem.save is not None and bool(unreadable.get(problem.save))
    return replace(problem, fatal=False) if deleted and _is_manifest(problem) and not problem.newer else problem


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


def _standing(votes: Votes) -> dict[str, Mark]:
    """Return the marks that no other undoes, by their random part."""
    marks = _marks(votes)
    undone = {mark.undoes for mark in marks.values() if mark.kind in {"undelete", "untag"}}
    return {random: mark for random, mark in marks.items() if random not in undone}


def _checkpoint(
    view: View, votes: Votes, key: SaveKey, named: Mapping[str, Manifest], marks: Mapping[str, Mark]
) -> Checkpoint:
    register = paths.manifest_name(*key, version=1)
    names = sorted(named, key=lambda name: paths.split_manifest(paths.below_folder(name))[2:])
    versions = tuple(named[name] for name in names)
    seen_on = tuple(t for t in votes.holders.get(register, ()) if t in votes.heard and _is_save(votes, register, t))
    own = {random: mark for random, mark in marks.items() if mark.of == key}
    return Checkpoint(
        *key,
        manifest=versions[-1],
        versions=versions,
        seen_on=seen_on,
        complete=view.is_complete(seen_on),
        tags=tuple(sorted({mark.tag for mark in own.values() if mark.kind == "tag" and mark.tag})),
        deletes=tuple(sorted(random for random, mark in own.items() if mark.kind == "delete")),
        collecting=tuple(sorted({mark.undoes for mark in own.values() if mark.kind == "collect" and mark.undoes})),
    )


def _is_save(votes: Votes, register: str, target: str) -> bool:
    """Tell whether `target` holds the save: a copy that wasn't read does, for where a void may be, all are read."""
    copy = votes.copies.get(register, {}).get(target)
    return copy is None or (isinstance(copy, Manifest) and copy.kind != "void")
