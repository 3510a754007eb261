"""Where a copy of a checkpoint comes from, as its manifest says, and which copies of a run there are already.

A copy's `user` holds one key more than the original's, `ckptstore:origin`: the id of the store, the run and the save
that it was first copied from, so that a copy of a copy is known as one of the original. It names the copy as well: a
`user` that was handed on to another save says nothing of that.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from manifests import Checkpoint, History, Manifest, UnsafeName, paths

ORIGIN = "ckptstore:origin"

__all__ = ["ORIGIN", "Origin", "copies_in", "origin_of", "out_of_order"]


@dataclass(frozen=True)
class Origin:
    """The save that a checkpoint is, or is a copy of: no two saves of any stores have the same."""

    store: str
    run: str
    save: str

    def is_of(self, other: "Origin") -> bool:
        """Whether both are of one run of one store."""
        return (self.store, self.run) == (other.store, other.run)

    def noted(self, user: Mapping[str, Any], copy: str) -> dict[str, Any]:
        """`user` for a copy, which is the save `copy` of its run."""
        return {**user, ORIGIN: {"store": self.store, "run": self.run, "save": self.save, "copy": copy}}


def origin_of(manifest: Manifest, store_id: str) -> Origin:
    """What a checkpoint of that store is a copy of, or itself: also where its `user` says what no copy says."""
    own = paths.save_name(manifest.session, manifest.ordinal)
    match manifest.user.get(ORIGIN):
        case {"store": str(store), "run": str(run), "save": str(save), "copy": copy} if copy == own and _is_save(save):
            return Origin(store, run, save)
    return Origin(store_id, manifest.run, own)


def copies_in(history: History, store_id: str) -> dict[Origin, Checkpoint]:
    """The checkpoints of a run by what they are copies of; of several the newest, a live one before a deleted one."""
    return {origin_of(c.manifest, store_id): c for c in (*history.deleted, *history.checkpoints)}


def out_of_order(history: History, store_id: str, like: Origin) -> Checkpoint | None:
    """The live copy of a run's newest save, where it isn't the latest: an older one was copied after it."""
    origins = {c.key: origin_of(c.manifest, store_id) for c in history.checkpoints}
    copies = [c for c in history.checkpoints if origins[c.key].is_of(like)]
    if not copies or copies[-1] is not history.latest:
        return None
    newest = max(copies, key=lambda c: _order(origins[c.key].save))
    return None if _order(origins[newest.key].save) == _order(origins[copies[-1].key].save) else newest


def _order(save: str) -> tuple[tuple[int, str], int]:
    session, ordinal = paths.split_save(save)
    return paths.split_session(session), ordinal


def _is_save(name: str) -> bool:
    try:
        paths.split_save(name)
    except UnsafeName:
        return False
    return True
