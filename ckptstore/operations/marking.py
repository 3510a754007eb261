"""Marks on checkpoints: deleted or not, tagged or not. A mark is put, and nothing else of a checkpoint is touched."""

from ckptstore.checkpoint import Checkpoint
from ckptstore.names import check_tag
from ckptstore.opened import Opened
from ckptstore.protocolerrors import protocol_errors
from ckptstore.selection import Selector, history_of, select_deleted, select_from, select_tagged, select_unreadable
from manifests import History

__all__ = ["delete", "find_to_delete", "tag", "undelete", "untag"]


def find_to_delete(history: History, selector: Selector) -> Checkpoint:
    """The live checkpoint that matches, or the save with that key of which no manifest can be read.

    Raises as `select_from`.
    """
    if lost := select_unreadable(history, selector):
        return Checkpoint.lost(history.run, *lost)
    found = select_from(history, selector)
    return Checkpoint.of(found.manifest, found.tags)


def delete(opened: Opened, run: str, selector: Selector) -> Checkpoint:
    """Put a delete mark. Raises `NotFoundError`, `CommitInDoubt`, `OutOfReach`, as do all that put marks."""
    found = find_to_delete(history_of(opened, run), selector)
    with protocol_errors():
        opened.group.delete(run, found.session, found.ordinal)
    return found


def undelete(opened: Opened, run: str, selector: Selector) -> Checkpoint:
    """Take the delete marks from a checkpoint."""
    found = select_deleted(history_of(opened, run), selector)
    with protocol_errors():
        opened.group.undelete(run, *found.key)
    return Checkpoint.of(found.manifest, found.tags)


def tag(opened: Opened, run: str, selector: Selector, tag: str) -> Checkpoint:
    """Give a checkpoint a tag, and take it from the one that had it. Raises `UsageError` for what can't be a tag."""
    check_tag(tag)
    found = select_from(history_of(opened, run), selector)
    with protocol_errors():
        opened.group.tag(run, *found.key, tag)
    return Checkpoint.of(found.manifest, sorted({*found.tags, tag}))


def untag(opened: Opened, run: str, tag: str) -> Checkpoint:
    """Take a tag from the checkpoint that has it, be it deleted."""
    check_tag(tag)
    found = select_tagged(history_of(opened, run), tag)
    with protocol_errors():
        opened.group.untag(run, tag)
    return Checkpoint.of(found.manifest, [each for each in found.tags if each != tag])
