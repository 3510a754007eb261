"""Marks: delete, undelete, tag and untag. Facts about a save that are only ever added.

A delete mark beats every manifest, so that a target that was away can't bring a deleted save back. A mark is
undone by another that names it; which came first by some clock never matters.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Literal

from manifests.attempts import with_view
from manifests.commit import put_mark
from manifests.errors import BeingCollected, Conflict, NoSuchCheckpoint, NotUnderstood
from manifests.history import Checkpoint, History
from manifests.paths import SaveKey
from manifests.quorum import Scope
from manifests.reading import read_history
from manifests.registers import Steps
from manifests.schema import Mark

Retired = Literal["deleted", "tagged", "doubted", "gone"]
"""What became of a save that a pruner is to delete: `doubted` where what is said of it can't be read for certain."""


def read_to_change(scope: Scope, run: str) -> Steps[History]:
    """Read the history of a run that is to be changed. Raises NoQuorum; NotUnderstood where that is forbidden."""
    history = yield from with_view(scope, None, lambda view: read_history(view, run))
    if newer := [problem.name for problem in history.problems if problem.newer]:
        message = f"{run}: a newer release wrote {', '.join(newer)}: upgrade ckptstore before changing this run"
        raise NotUnderstood(message, run=run, unknown=newer)
    return history


def find(scope: Scope, run: str, of: SaveKey) -> Steps[tuple[History, Checkpoint]]:
    """Read the history, and in it one save to change, live or deleted. Raises NoSuchCheckpoint, NotUnderstood."""
    history = yield from read_to_change(scope, run)
    return history, found_in(history, of)


def found_in(history: History, of: SaveKey) -> Checkpoint:
    """Return one save, live or deleted. Raises NoSuchCheckpoint."""
    found = history.find(*of)
    if found is None:
        message = f"{history.run}: there is no save {of[1]} of session {of[0]}"
        raise NoSuchCheckpoint(message, run=history.run, session=of[0], ordinal=of[1])
    return found


def delete(scope: Scope, run: str, of: SaveKey, created: str) -> Steps[None]:
    """Put a delete mark on a save, be it one that nobody can read.

    Raises NoSuchCheckpoint, NotUnderstood, NoQuorum, InDoubt.
    """
    history = yield from read_to_change(scope, run)
    if of not in history.unreadable:
        found_in(history, of)
    yield from put_mark(scope, run, Mark(kind="delete", of=of, created=created))


def retire(scope: Scope, run: str, saves: Sequence[SaveKey], created: str) -> Steps[dict[SaveKey, Retired]]:
    """Delete saves as a pruner does: those that have a tag stay, whoever puts it and however late.

    Looks once more when the marks are put, and undoes its own on what has a tag by then. A `tag` looks for delete
    marks when its own is put, so one of the two sees the other. Raises NotUnderstood, NoQuorum, InDoubt.
    """
    before = yield from read_to_change(scope, run)
    found = {of: _fate(before, of) for of in saves}
    put: dict[SaveKey, str] = {}
    for of, fate in found.items():
        if fate == "live":
            put[of] = yield from put_mark(scope, run, Mark(kind="delete", of=of, created=created))
    after = (yield from read_to_change(scope, run)) if put else before
    fates: dict[SaveKey, Retired] = {of: fate for of, fate in found.items() if fate != "live"}
    for of, random in put.items():
        fate = _fate(after, of)
        fates[of] = "deleted" if fate == "live" else fate  # somebody undid the mark: that is theirs to tell
        if fate in ("tagged", "doubted"):
            yield from put_mark(scope, run, Mark(kind="undelete", of=of, undoes=random, created=created))
    return fates


def _fate(history: History, of: SaveKey) -> Literal["live", "deleted", "tagged", "doubted", "gone"]:
    """What a pruner finds. A mark that can't be read may be a tag."""
    found = history.find(*of)
    if found is None:
        return "gone"
    if found.tags:
        return "tagged"
    if any(problem.fatal and problem.save == of for problem in history.problems):
        return "doubted"
    return "deleted" if found.deleted else "live"


def undelete(scope: Scope, run: str, of: SaveKey, created: str) -> Steps[None]:
    """Undo every delete mark that stands on a save.

    Raises NoSuchCheckpoint, BeingCollected, NotUnderstood, NoQuorum, InDoubt. Looks once more when the marks are
    put: a collector that began meanwhile may not have seen them.
    """
    _, checkpoint = yield from find(scope, run, of)
    _refuse_collecting(run, checkpoint, checkpoint.deletes)
    for random in checkpoint.deletes:
        yield from put_mark(scope, run, Mark(kind="undelete", of=of, undoes=random, created=created))
    _, after = yield from find(scope, run, of)
    _refuse_collecting(run, after, checkpoint.deletes)


def _refuse_collecting(run: str, checkpoint: Checkpoint, deletes: Collection[str]) -> None:
    if not set(checkpoint.collecting).isdisjoint(deletes):
        session, ordinal = checkpoint.key
        message = f"{run}: save {ordinal} of session {session} is past its grace period and is being removed"
        raise BeingCollected(message, run=run, session=session, ordinal=ordinal)


def tag(scope: Scope, run: str, of: SaveKey, name: str, created: str) -> Steps[None]:
    """Give a save a tag, then take the tag from any other save of the run.

    Looks once more when the mark is put, and takes it back where the save was deleted meanwhile: a pruner that began
    before may not have seen it. What has a tag by a call that returned is deleted by no pruner, and ended by nobody.
    Raises Conflict where it was deleted, BeingCollected where a collector may be at it, NoSuchCheckpoint,
    NotUnderstood, NoQuorum, InDoubt: the tag may then be on two saves; the later begun counts.
    """
    history, found = yield from find(scope, run, of)
    _refuse_deleted(run, found, name)
    random = yield from put_mark(scope, run, Mark(kind="tag", of=of, tag=name, created=created))
    _, after = yield from find(scope, run, of)
    if after.deleted or after.collecting:
        yield from put_mark(scope, run, Mark(kind="untag", of=of, undoes=random, tag=name, created=created))
    _refuse_deleted(run, after, name)
    yield from _undo_tags(scope, run, history.tag_marks.items(), name, created)


def _refuse_deleted(run: str, checkpoint: Checkpoint, name: str) -> None:
    """Require a save that nobody is deleting. A collector that was stopped may end what was undeleted since."""
    session, ordinal = checkpoint.key
    told = f"{run}: save {ordinal} of session {session} has not got the tag {name}: it"
    if checkpoint.deleted:
        message = f"{told} was deleted meanwhile"
        raise Conflict(message, run=run, session=session, ordinal=ordinal)
    if checkpoint.collecting:
        raise BeingCollected(f"{told} may be being removed", run=run, session=session, ordinal=ordinal)


def untag(scope: Scope, run: str, name: str, created: str) -> Steps[None]:
    """Take a tag from whatever has it; do nothing where nothing has. Raises NotUnderstood, NoQuorum, InDoubt."""
    history = yield from read_to_change(scope, run)
    yield from _undo_tags(scope, run, history.tag_marks.items(), name, created)


def _undo_tags(
    scope: Scope, run: str, marks: Iterable[tuple[str, tuple[SaveKey, str]]], name: str, created: str
) -> Steps[None]:
    for random, (of, found) in marks:
        if found == name:
            yield from put_mark(scope, run, Mark(kind="untag", of=of, undoes=random, tag=name, created=created))
