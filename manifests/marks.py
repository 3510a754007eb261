"""Marks: delete, undelete, tag and untag. Facts about a save that are only ever added.

A delete mark beats every manifest, so that a target that was away can't bring a deleted save back. A mark is
undone by another that names it; which came first by some clock never matters.
"""

from collections.abc import Collection, Iterable

from manifests.commit import put_mark
from manifests.errors import BeingCollected, NoSuchCheckpoint, NotUnderstood
from manifests.history import Checkpoint, History
from manifests.paths import SaveKey
from manifests.quorum import Scope, with_view
from manifests.reading import read_history
from manifests.registers import Steps
from manifests.schema import Mark


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
    found = history.find(*of)
    if found is None:
        message = f"{run}: there is no save {of[1]} of session {of[0]}"
        raise NoSuchCheckpoint(message, run=run, session=of[0], ordinal=of[1])
    return history, found


def delete(scope: Scope, run: str, of: SaveKey, created: str) -> Steps[None]:
    """Put a delete mark on a save. Raises NoSuchCheckpoint, NotUnderstood, NoQuorum, InDoubt."""
    yield from find(scope, run, of)
    yield from put_mark(scope, run, Mark(kind="delete", of=of, created=created))


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

    Raises NoSuchCheckpoint, NotUnderstood, NoQuorum, InDoubt: the tag may then be on two saves; the later begun counts.
    """
    history, _ = yield from find(scope, run, of)
    yield from put_mark(scope, run, Mark(kind="tag", of=of, tag=name, created=created))
    yield from _undo_tags(scope, run, history.tag_marks.items(), name, created)


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
